/* The packets of the experiments: UDP in IPv4 with 1328 bytes, as of RTP with seven packets of an MPEG transport
 * stream. */
#ifndef EXPERIMENT_PACKET_H
#define EXPERIMENT_PACKET_H

#include <linux/types.h>

#define PAYLOAD 1328
#define HEADERS 42
#define FRAME (HEADERS + PAYLOAD)

struct headers {
	__u8 to[6], from[6];
	__u16 type;
	__u8 version, tos;
	__u16 length, id, fragment;
	__u8 ttl, protocol;
	__u16 check;
	__u32 src, dst;
	__u16 sport, dport, udp_length, udp_check;
} __attribute__((packed, aligned(2)));

/* A receiver, as a program in the kernel needs it; all in network order. */
struct receiver {
	__u8 mac[6];
	__u16 port;
	__u32 address;
	__u32 device;
	__u16 ip_check;  /* of the whole header */
	__u16 udp_delta; /* to be added to the checksum of the source's packet */
	__u32 unused;
};

#endif

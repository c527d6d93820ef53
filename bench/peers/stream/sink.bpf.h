/* What programs at the end of a stream's links have in common: counts by receiver, the headers they look at. */
#ifndef SINK_BPF_H
#define SINK_BPF_H

#include "../xdp/bpf.h"

/* Places of receivers; then all, and the wrong ones. */
#define COUNTS 4096

struct { uint(type, BPF_MAP_TYPE_ARRAY); type(key, u32); type(value, u64); uint(max_entries, COUNTS + 2); uint(map_flags, BPF_F_MMAPABLE); } counts SEC(".maps");

static long (*load_bytes)(const void *skb, u32 offset, void *to, u32 bytes) = (void *)BPF_FUNC_skb_load_bytes;

struct headers {
	struct ethernet ether;
	struct ipv4 ip;
	u16 sport, dport, udp_length, udp_check;
	u8 rtp, payload_type;
} __attribute__((packed, aligned(2)));

static inline void add(u32 at, u32 packets)
{
	u64 *count = lookup(&counts, &at);
	if (count)
		*count += packets;
}

/* For the receiver of this place, or as wrong. */
static inline void count(u32 place, bool right, u32 packets)
{
	add(right ? place : COUNTS + 1, packets);
	add(COUNTS, packets);
}

/* What nothing has divided is as many as are in it. */
static inline u32 packets_of(const struct __sk_buff *skb)
{
	return skb->gso_segs ? skb->gso_segs : 1;
}

/* Of IPv4 without options: its checksum, and its length beside the frame's. */
static inline bool is_ip_right(const struct headers *h, u32 length)
{
	const u16 *words = (const u16 *)&h->ip;
	u32 sum = 0;
#pragma unroll
	for (int i = 0; i < 10; i++)
		sum += words[i];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff && h->ip.version_ihl == 0x45 &&
	       __builtin_bswap16(h->ip.total) + sizeof h->ether == length;
}

#endif

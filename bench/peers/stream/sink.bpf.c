/* The end of the fan-out's links: counts the packets of each receiver, and those that are not as they must be. */
#include "../xdp/bpf.h"

/* By the last 12 bits of the receiver's address; then all, and the wrong ones. */
#define COUNTS 4096

struct { uint(type, BPF_MAP_TYPE_ARRAY); type(key, u32); type(value, u64); uint(max_entries, COUNTS + 2); uint(map_flags, BPF_F_MMAPABLE); } counts SEC(".maps");

static long (*load_bytes)(const void *skb, u32 offset, void *to, u32 bytes) = (void *)BPF_FUNC_skb_load_bytes;

struct headers {
	struct ethernet ether;
	struct ipv4 ip;
	u16 sport, dport, udp_length, udp_check;
} __attribute__((packed, aligned(2)));

static inline void add(u32 at, u32 packets)
{
	u64 *count = lookup(&counts, &at);
	if (count)
		*count += packets;
}

/* Receiver 10.1.K.H has the Ethernet address 02:00:00:01:K:H, and gets from 10.1.K.1. */
static inline bool is_right(const struct headers *h, u32 length)
{
	const u16 *words = (const u16 *)&h->ip;
	u32 address = __builtin_bswap32(h->ip.dst), sum = 0;
#pragma unroll
	for (int i = 0; i < 10; i++)
		sum += words[i];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff && h->ip.version_ihl == 0x45 && h->ip.protocol == 17 &&
	       __builtin_bswap16(h->ip.total) + sizeof h->ether == length &&
	       __builtin_bswap16(h->udp_length) + sizeof h->ip == __builtin_bswap16(h->ip.total) && h->udp_check &&
	       __builtin_bswap32(h->ip.src) == ((address & ~0xffu) | 1) && h->dport == __builtin_bswap16(5004) &&
	       h->ether.dst[0] == 2 && !h->ether.dst[1] && !h->ether.dst[2] && h->ether.dst[3] == 1 &&
	       h->ether.dst[4] == ((address >> 8) & 255) && h->ether.dst[5] == (address & 255);
}

SEC("classifier")
int sink(struct __sk_buff *skb)
{
	struct headers h;
	if (load_bytes(skb, 0, &h, sizeof h) || h.ether.type != ETHER_IPV4)
		return 2; /* TC_ACT_SHOT */
	/* What nothing has divided is as many as are in it. */
	u32 packets = skb->gso_segs ? skb->gso_segs : 1;
	bool right = is_right(&h, skb->len);
	add(right ? __builtin_bswap32(h.ip.dst) & (COUNTS - 1) : COUNTS + 1, packets);
	add(COUNTS, packets);
	return 2;
}

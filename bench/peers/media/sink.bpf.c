/* Where streams end: counts the packets of each receiver, and those that are not as they must be. All else goes on. */
#include "../xdp/bpf.h"

/* By the receiver's place; then all, and the wrong ones. */
#define COUNTS 4096
/* Of the receivers' ports; each has two. */
#define FIRST_PORT 4000
#define RTP_BYTES 1328

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

static inline bool is_right(const struct headers *h, u32 length)
{
	const u16 *words = (const u16 *)&h->ip;
	u32 sum = 0;
#pragma unroll
	for (int i = 0; i < 10; i++)
		sum += words[i];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff && h->ip.version_ihl == 0x45 &&
	       __builtin_bswap16(h->ip.total) + sizeof h->ether == length && h->rtp == 0x80;
}

SEC("classifier")
int sink(struct __sk_buff *skb)
{
	struct headers h;
	if (load_bytes(skb, 0, &h, sizeof h) || h.ether.type != ETHER_IPV4 || h.ip.protocol != 17 ||
	    h.payload_type != 33)
		return 0; /* TC_ACT_OK */
	/* What nothing has divided is as many as are in it. */
	u32 packets = skb->gso_segs ? skb->gso_segs : 1;
	u32 place = ((u32)__builtin_bswap16(h.dport) - FIRST_PORT) / 2;
	bool right = is_right(&h, skb->len) && place < COUNTS &&
		     (packets > 1 || __builtin_bswap16(h.udp_length) == RTP_BYTES + 8);
	add(right ? place : COUNTS + 1, packets);
	add(COUNTS, packets);
	return 2; /* TC_ACT_SHOT */
}

/* The end of the fan-out's links: counts the packets of each receiver, by the last 12 bits of its address, and those
 * that are not as they must be. */
#include "sink.bpf.h"

/* Receiver 10.1.K.H has the Ethernet address 02:00:00:01:K:H, and gets from 10.1.K.1. */
static inline bool is_right(const struct headers *h, u32 length)
{
	u32 address = __builtin_bswap32(h->ip.dst);
	return is_ip_right(h, length) && h->ip.protocol == 17 &&
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
	count(__builtin_bswap32(h.ip.dst) & (COUNTS - 1), is_right(&h, skb->len), packets_of(skb));
	return 2;
}

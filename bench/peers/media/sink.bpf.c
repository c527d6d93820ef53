/* Where streams end: counts the packets of each receiver, by its place, and those that are not as they must be. All
 * else goes on. */
#include "../stream/sink.bpf.h"

/* Of the receivers' ports; each has two. */
#define FIRST_PORT 4000
#define RTP_BYTES 1328

SEC("classifier")
int sink(struct __sk_buff *skb)
{
	struct headers h;
	if (load_bytes(skb, 0, &h, sizeof h) || h.ether.type != ETHER_IPV4 || h.ip.protocol != 17 ||
	    h.payload_type != 33)
		return 0; /* TC_ACT_OK */
	u32 packets = packets_of(skb), place = ((u32)__builtin_bswap16(h.dport) - FIRST_PORT) / 2;
	bool right = is_ip_right(&h, skb->len) && h.rtp == 0x80 && place < COUNTS &&
		     (packets > 1 || __builtin_bswap16(h.udp_length) == RTP_BYTES + 8);
	count(place, right, packets);
	return 2; /* TC_ACT_SHOT */
}

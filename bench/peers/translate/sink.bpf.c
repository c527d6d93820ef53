/* Where streams end: counts the packets of each client, by its place, and acknowledges every second segment, as
 * receivers do, and at first each one. All else goes on: handshakes, and the head of each answer, behind which the
 * stream is taken. */
#include "../stream/sink.bpf.h"

/* Of the clients' ports; by UDP each has two. */
#define FIRST_PORT 4000
#define PAYLOAD_BYTES 1316
#define RTP_BYTES (12 + PAYLOAD_BYTES)
#define ACK_BYTES (sizeof(struct segment))

static long (*store_bytes)(struct __sk_buff *skb, u32 offset, const void *from, u32 bytes, u64 flags) =
	(void *)BPF_FUNC_skb_store_bytes;
static long (*change_tail)(struct __sk_buff *skb, u32 bytes, u64 flags) = (void *)BPF_FUNC_skb_change_tail;
static long (*redirect)(u32 interface, u64 flags) = (void *)BPF_FUNC_redirect;

struct tcp {
	u16 sport, dport;
	u32 seq, ack_seq;
	u8 offset, flags;
	u16 window, check, urgent;
} __attribute__((packed, aligned(2)));

struct segment {
	struct ethernet ether;
	struct ipv4 ip;
	struct tcp tcp;
} __attribute__((packed, aligned(2)));

/* What a client has: `next` is the number of the byte that follows, `rest` what is more than whole packets. */
struct client {
	u32 next, rest, known, segments;
};

struct { uint(type, BPF_MAP_TYPE_ARRAY); type(key, u32); type(value, struct client); uint(max_entries, COUNTS); } clients SEC(".maps");

#define FIN_SYN_RST 0x07
#define ACK 0x10
/* Segments of a connection that are acknowledged one by one. */
#define QUICK 16
#define HTTP 0x50545448 /* network order */

/* Of words in network order. */
static inline u32 add_words(const void *from, int words, u32 sum)
{
	const u16 *each = from;
#pragma unroll
	for (int i = 0; i < words; i++)
		sum += each[i];
	return sum;
}

static inline u16 folded(u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

static inline int acknowledge(struct __sk_buff *skb, const struct segment *of, const struct client *client)
{
	struct segment s = {
		.ether.type = ETHER_IPV4,
		.ip = {.version_ihl = 0x45, .total = __builtin_bswap16(40), .ttl = 64, .protocol = 6, .src = of->ip.dst,
		       .dst = of->ip.src},
		.tcp = {.sport = of->tcp.dport, .dport = of->tcp.sport, .seq = of->tcp.ack_seq,
			.ack_seq = __builtin_bswap32(client->next), .offset = 0x50, .flags = ACK, .window = 0xffff},
	};
	__builtin_memcpy(s.ether.dst, of->ether.src, 6);
	__builtin_memcpy(s.ether.src, of->ether.dst, 6);
	s.ip.check = folded(add_words(&s.ip, 10, 0));
	s.tcp.check = folded(add_words(&s.tcp, 10, add_words(&s.ip.src, 4, 0x0600 + 0x1400)));
	if (change_tail(skb, ACK_BYTES, 0) || store_bytes(skb, 0, &s, ACK_BYTES, 0))
		return 2;
	return redirect(skb->ifindex, 0);
}

static inline int datagram(const struct __sk_buff *skb)
{
	struct headers h;
	if (load_bytes(skb, 0, &h, sizeof h) || h.payload_type != 33)
		return 0;
	u32 place = ((u32)__builtin_bswap16(h.dport) - FIRST_PORT) / 2;
	bool right = is_ip_right(&h, skb->len) && h.rtp == 0x80 && place < COUNTS &&
		     __builtin_bswap16(h.udp_length) == RTP_BYTES + 8;
	count(place, right, 1);
	return 2; /* TC_ACT_SHOT */
}

SEC("classifier")
int sink(struct __sk_buff *skb)
{
	struct segment s;
	if (load_bytes(skb, 0, &s, sizeof s) || s.ether.type != ETHER_IPV4)
		return 0; /* TC_ACT_OK */
	if (s.ip.protocol == 17)
		return datagram(skb);
	u32 place = (u32)__builtin_bswap16(s.tcp.dport) - FIRST_PORT, first = 0;
	u32 headers = 20 + (s.tcp.offset >> 4) * 4, total = __builtin_bswap16(s.ip.total), seq = __builtin_bswap32(s.tcp.seq);
	if (s.ip.protocol != 6 || s.tcp.flags & FIN_SYN_RST || total <= headers ||
	    load_bytes(skb, sizeof s.ether + headers, &first, sizeof first))
		return 0;
	struct client *client = lookup(&clients, &place);
	if (!client)
		return 0;
	u32 bytes = total - headers;
	if (first == HTTP) {
		client->next = client->known ? client->next : seq + bytes;
		client->known = 1;
		return 0;
	}
	if (!client->known)
		return 0;
	if (seq != client->next)
		return acknowledge(skb, &s, client);
	client->next += bytes;
	client->rest += bytes;
	u32 packets = client->rest / PAYLOAD_BYTES;
	client->rest %= PAYLOAD_BYTES;
	if (packets)
		count(place, is_ip_right((void *)&s, skb->len), packets);
	client->segments++;
	return client->segments > QUICK && client->segments % 2 ? 2 : acknowledge(skb, &s, client);
}

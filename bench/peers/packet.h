/* What the C peers do with one packet: the work of apps/l3switch/l3switch.baker in pieces, of which each peer makes its
 * own order (straight.c, staged.c). Headers are rewritten where they lie. What is rare is out of line.
 */
#ifndef L3_PACKET_H
#define L3_PACKET_H

#include "l3.h"

#include <string.h>

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define rare __attribute__((noinline, cold))

#define MAC_MASK 0xffffffffffffull
#define TYPE_IPV4 0x0008 /* network order, as loaded */
#define TYPE_ARP 0x0608
#define ETHER 14
#define IPV4 20
#define ARP 28

static inline uint64_t load64(const uint8_t *p) { uint64_t v; memcpy(&v, p, 8); return v; }
static inline uint32_t load32(const uint8_t *p) { uint32_t v; memcpy(&v, p, 4); return v; }
static inline uint16_t load16(const uint8_t *p) { uint16_t v; memcpy(&v, p, 2); return v; }
static inline uint32_t big32(const uint8_t *p) { return __builtin_bswap32(load32(p)); }
static inline uint16_t big16(const uint8_t *p) { return __builtin_bswap16(load16(p)); }
static inline uint64_t dst_mac(const uint8_t *p) { return load64(p) & MAC_MASK; }
static inline uint64_t src_mac(const uint8_t *p) { return load64(p + 4) >> 16; }
static inline bool is_group(uint64_t mac) { return mac & 1; }
/* Of the IPv4 header in a frame. */
static inline uint32_t destination(const uint8_t *p) { return big32(p + ETHER + 16); }

/* What becomes of a packet, and what the next piece of work needs of it. */
struct work {
	uint8_t *p;
	struct descriptor *d;
	uint64_t key, hash; /* of the source station, then of the destination's */
	uint8_t reason;	    /* dropped, unless NONE */
	bool host, arp, routed;
	uint8_t domain, not_to;
};

static inline struct descriptor *descriptor(const struct context *ctx, uint32_t frame)
{
	return (struct descriptor *)(ctx->descriptors + (size_t)frame * sizeof(struct descriptor));
}

static inline void output(struct context *ctx, uint32_t frame, uint32_t end)
{
	ctx->outputs[ctx->output_len++] = (struct output){ frame, end };
}

static inline void send(struct l3 *s, struct context *ctx, struct descriptor *d, uint8_t port)
{
	d->tx_port = port;
	s->counters.tx[port]++;
	output(ctx, d->frame, END_TX);
}

static struct descriptor *copy(struct context *ctx, const struct descriptor *d)
{
	struct descriptor *c = descriptor(ctx, ctx->free[--ctx->free_len]);
	c->addr = d->addr + ((int64_t)c->frame - (int64_t)d->frame) * (int64_t)ctx->frame_size;
	c->len = d->len;
	c->rx_port = d->rx_port;
	c->tx_port = d->tx_port;
	memcpy(ctx->region + c->addr, ctx->region + d->addr, d->len);
	return c;
}

static inline void drop(struct l3 *s, struct context *ctx, const struct descriptor *d, uint8_t reason)
{
	s->counters.drops[reason]++;
	ctx->free[ctx->free_len++] = d->frame;
}

/* The time in seconds, never 0. */
static inline uint32_t now_s(const struct context *ctx) { return (uint32_t)(ctx->now / 1000000000) + 1; }

static inline uint32_t route_of(const struct fib *f, uint32_t slot, uint32_t address)
{
	if (unlikely(slot & FIB_GROUP))
		slot = f->tbl8[(slot & ~FIB_GROUP) * 256 + (address & 255)];
	return slot ? slot : f->default_slot;
}

/* The host gets a copy of an ARP packet; what it says of a directly connected neighbour is believed. */
static rare void answer_arp(struct l3 *s, struct context *ctx, const struct work *w)
{
	struct descriptor *c = copy(ctx, w->d);
	if (c->len < ETHER + ARP) {
		drop(s, ctx, c, TRUNCATED);
		return;
	}
	const uint8_t *a = w->p + ETHER;
	uint32_t sender = big32(a + 14), slot = route_of(&s->fib, s->fib.tbl24[sender >> 8], sender);
	/* Ethernet, IPv4, lengths 6 and 4 */
	if (slot && load32(a) == 0x00080100 && load16(a + 4) == 0x0406 && src_mac(a + 2) == src_mac(w->p)) {
		struct next_hop hop = slot - 1 < NEXT_HOPS ? s->next_hops[slot - 1] : (struct next_hop){ 0 };
		if (hop.domain == w->domain && hop.gateway == 0)
			hash_put(&s->neighbours, sender, src_mac(w->p));
	}
	s->counters.host++;
	output(ctx, c->frame, END_HOST);
}

static rare void flood(struct l3 *s, struct context *ctx, const struct work *w)
{
	uint64_t ports = s->members[w->domain] & ~(w->not_to < 64 ? 1ull << w->not_to : 0) & ~1ull;
	if (!ports) {
		drop(s, ctx, w->d, NOWHERE_TO_FLOOD);
		return;
	}
	for (; ports & (ports - 1); ports &= ports - 1)
		send(s, ctx, copy(ctx, w->d), __builtin_ctzll(ports));
	send(s, ctx, w->d, __builtin_ctzll(ports));
}

/* Sum of the header's ten words, one's complement; the order of bytes does not matter (RFC 1071 section 2). */
static inline bool checksum_ok(const uint8_t *ip)
{
	uint64_t sum = load64(ip), second = load64(ip + 8), third = load32(ip + 16);
	sum = (sum >> 32) + (uint32_t)sum + (second >> 32) + (uint32_t)second + third;
	sum = (sum >> 32) + (uint32_t)sum;
	sum = (sum >> 16) + (sum & 0xffff);
	sum = (sum >> 16) + (sum & 0xffff);
	return ((sum >> 16) + (sum & 0xffff)) == 0xffff;
}

/* The same over a header with options, which the packet holds. */
static rare bool long_checksum_ok(const uint8_t *ip, uint32_t words)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < words; i++)
		sum += load32(ip + 4 * i);
	sum = (sum >> 32) + (uint32_t)sum;
	sum = (sum >> 16) + (sum & 0xffff);
	sum = (sum >> 16) + (sum & 0xffff);
	return ((sum >> 16) + (sum & 0xffff)) == 0xffff;
}

static inline uint8_t validate(const uint8_t *ip, uint32_t len)
{
	uint32_t ihl = ip[0] & 15, total = big16(ip + 2);
	uint8_t first = ip[12];
	if (unlikely(len < IPV4))
		return TRUNCATED;
	if (unlikely(ip[0] >> 4 != 4))
		return BAD_VERSION;
	if (unlikely(ihl < 5))
		return BAD_HEADER_LENGTH;
	if (unlikely(total < ihl * 4 || total > len))
		return BAD_TOTAL_LENGTH;
	if (unlikely(!(likely(ihl == 5) ? checksum_ok(ip) : long_checksum_ok(ip, ihl))))
		return BAD_CHECKSUM;
	if (unlikely(first == 0 || first == 127 || first >= 224))
		return MARTIAN_SOURCE;
	return NONE;
}

/* RFC 1624 equation 3 for a TTL that is one less. The sum stays in network order: TTL is the first byte of its word. */
static inline void decrement_ttl(uint8_t *ip)
{
	uint16_t old = load16(ip + 8), new = old - 1;
	uint32_t sum = (uint16_t)~load16(ip + 10) + (uint16_t)~old + new;
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	uint16_t check = ~sum;
	memcpy(ip + 8, &new, 2);
	memcpy(ip + 10, &check, 2);
}

/* The header of a frame and what follows from it. A frame has room for more than both headers, so a short packet may be
 * read beyond its end. */
static inline void parse(struct l3 *s, const struct context *ctx, uint32_t frame, struct work *w)
{
	struct descriptor *d = w->d = descriptor(ctx, frame);
	uint8_t *p = w->p = ctx->region + d->addr;
	const struct port *port = &s->ports[d->rx_port];
	uint64_t src = src_mac(p), dst = dst_mac(p);
	uint16_t type = load16(p + 12);
	s->counters.rx[d->rx_port]++;
	w->domain = port->domain;
	w->not_to = d->rx_port;
	w->host = w->arp = w->routed = false;
	w->key = station_key(port->domain, src);
	w->reason = unlikely(d->len < ETHER) ? TRUNCATED :
		    unlikely(!port->domain)  ? NO_DOMAIN :
		    unlikely(is_group(src))  ? GROUP_SOURCE :
					       NONE;
	if (unlikely(w->reason))
		return;
	if (port->mac && dst == port->mac) {
		w->routed = likely(type == TYPE_IPV4);
		w->arp = type == TYPE_ARP;
		w->host = !w->routed && !w->arp;
		if (unlikely(w->arp))
			w->reason = ARP_ANSWERED;
	} else {
		w->arp = type == TYPE_ARP && port->mac;
	}
}

/* The station that the frame goes to is the next one to look up. */
static inline void bridge_to(const struct l3 *s, struct work *w, uint64_t mac)
{
	w->key = station_key(w->domain, mac);
	w->hash = hash_of(&s->stations, w->key);
}

static rare void learn_new(struct l3 *s, uint64_t key, struct place place) { hash_put(&s->stations, key, of_place(place)); }

/* Learns where the source is, or that it is still there. Mostly nothing changes, and then nothing is written. */
static inline void learn(struct l3 *s, const struct work *w, uint32_t now)
{
	struct entry *known = hash_find(&s->stations, w->hash, w->key);
	if (unlikely(!known)) {
		learn_new(s, w->key, (struct place){ w->d->rx_port, now });
		return;
	}
	/* Those that are set, not learned, do not age. */
	uint64_t fresh = of_place((struct place){ w->d->rx_port, place_of(known->value).heard ? now : 0 });
	if (unlikely(known->value != fresh))
		known->value = fresh;
}

/* Routes a valid packet whose address has this slot in the table: finds next hop and neighbour, rewrites the headers. */
static inline void forward(struct l3 *s, struct work *w, uint32_t slot)
{
	uint8_t *p = w->p, *ip = p + ETHER;
	uint32_t dst = destination(p);
	if (unlikely(hash_find(&s->local_addrs, hash_of(&s->local_addrs, dst), dst))) {
		w->host = true;
		return;
	}
	if (unlikely(!slot)) {
		w->reason = NO_ROUTE;
		return;
	}
	if (unlikely(ip[8] <= 1)) {
		w->host = true;
		return;
	}
	static const struct next_hop none;
	const struct next_hop *hop = likely(slot - 1 < NEXT_HOPS) ? &s->next_hops[slot - 1] : &none;
	uint32_t next = hop->gateway ? hop->gateway : dst;
	const struct entry *neighbour = hash_find(&s->neighbours, hash_of(&s->neighbours, next), next);
	if (unlikely(!neighbour)) {
		w->host = true;
		return;
	}
	decrement_ttl(ip);
	uint64_t to = neighbour->value, from = hop->src;
	uint64_t first = to | from << 48;
	uint32_t rest = from >> 16;
	memcpy(p, &first, 8);
	memcpy(p + 8, &rest, 4);
	w->domain = hop->domain;
	w->not_to = 0;
	bridge_to(s, w, to);
}

/* The packet leaves. */
static inline void deliver(struct l3 *s, struct context *ctx, const struct work *w)
{
	if (unlikely(w->arp))
		answer_arp(s, ctx, w);
	if (unlikely(w->reason)) {
		drop(s, ctx, w->d, w->reason);
		return;
	}
	if (unlikely(w->host)) {
		s->counters.host++;
		output(ctx, w->d->frame, END_HOST);
		return;
	}
	if (likely(!is_group(w->key))) {
		const struct entry *station = hash_find(&s->stations, w->hash, w->key);
		if (likely(station)) {
			uint8_t port = place_of(station->value).port;
			if (unlikely(port == w->not_to))
				drop(s, ctx, w->d, SAME_PORT);
			else
				send(s, ctx, w->d, port);
			return;
		}
	}
	flood(s, ctx, w);
}

#endif

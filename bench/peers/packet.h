/* What the C peers do with one packet: the work of apps/l3switch/l3switch.baker in pieces, of which each peer makes its
 * own order (straight.c, staged.c). Headers are rewritten where they lie. The slow path is out of line.
 */
#ifndef L3_PACKET_H
#define L3_PACKET_H

#include "l3.h"

#include <string.h>

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define slow_path __attribute__((noinline, cold))

#define MAC_MASK 0xffffffffffffull
#define TYPE_IPV4 0x0008 /* network order, as loaded */
#define TYPE_ARP 0x0608
#define TYPE_VLAN 0x0081
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
/* 01:80:c2:00:00:00 to 0f */
static inline bool is_link_local(uint64_t mac) { return (mac & 0xf0ffffffffffull) == 0x0000c28001ull; }
/* In the value of a neighbour: from ARP, not set. */
#define LEARNED (1ull << 48)
/* Of the IPv4 header in a frame. */
static inline uint32_t destination(const uint8_t *p) { return big32(p + ETHER + 16); }

/* What becomes of a packet, and what the next piece of work needs of it. */
struct work {
	uint8_t *p;
	struct descriptor *d;
	uint64_t key, hash; /* of the source station, then of the destination's */
	uint8_t reason;	    /* dropped, unless NONE */
	bool host, arp, routed;
	bool copied;   /* the host gets a copy, too */
	bool unheard;  /* for the switch itself, which is not on this port */
	bool rewrites; /* the headers below are to be written */
	uint8_t domain, not_to;
	uint64_t to, from;
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

static inline void to_host(struct l3 *s, struct context *ctx, const struct descriptor *d)
{
	s->counters.host++;
	output(ctx, d->frame, END_HOST);
}

/* The host gets an ARP packet, or a copy; what it says of a directly connected neighbour is believed, unless that is
 * set. */
static slow_path void answer_arp(struct l3 *s, struct context *ctx, const struct work *w, struct descriptor *c)
{
	if (c->len < ETHER + ARP) {
		drop(s, ctx, c, TRUNCATED);
		return;
	}
	const uint8_t *a = w->p + ETHER;
	uint32_t sender = big32(a + 14), slot = route_of(&s->fib, s->fib.tbl24[sender >> 8], sender);
	/* Ethernet, IPv4, lengths 6 and 4 */
	if (slot && load32(a) == 0x00080100 && load16(a + 4) == 0x0406 && src_mac(a + 2) == src_mac(w->p)) {
		struct next_hop hop = slot - 1 < NEXT_HOPS ? s->next_hops[slot - 1] : (struct next_hop){ 0 };
		const struct entry *known = hash_find(&s->neighbours, hash_of(&s->neighbours, sender), sender);
		if (hop.domain == w->domain && hop.gateway == 0 && (!known || known->value & LEARNED))
			hash_put(&s->neighbours, sender, src_mac(w->p) | LEARNED);
	}
	to_host(s, ctx, c);
}

/* Before the packet itself goes on. */
static slow_path void copy_to_host(struct l3 *s, struct context *ctx, const struct work *w)
{
	struct descriptor *c = copy(ctx, w->d);
	if (w->arp)
		answer_arp(s, ctx, w, c);
	else
		to_host(s, ctx, c);
}

static slow_path void flood(struct l3 *s, struct context *ctx, const struct work *w)
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
static slow_path bool long_checksum_ok(const uint8_t *ip, uint32_t words)
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
	uint8_t first = ip[12], to = ip[16];
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
	if (unlikely(to == 0 || to == 127 || (to >= 240 && load32(ip + 16) != UINT32_MAX)))
		return MARTIAN_DESTINATION;
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
	w->host = w->arp = w->routed = w->copied = w->unheard = w->rewrites = false;
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
	} else if (unlikely(is_link_local(dst))) {
		w->host = port->mac;
		w->unheard = !port->mac;
	} else if (port->mac) {
		w->arp = type == TYPE_ARP;
		w->copied = w->arp || is_group(dst);
	}
}

/* The station that the frame goes to is the next one to look up. */
static inline void bridge_to(const struct l3 *s, struct work *w, uint64_t mac)
{
	w->key = station_key(w->domain, mac);
	w->hash = hash_of(&s->stations, w->key);
}

static slow_path void learn_new(struct l3 *s, uint64_t key, struct fdb fdb)
{
	hash_put(&s->stations, key, fdb_value(fdb));
}

/* Learns where the source is, or that it is still there. Mostly nothing changes, and then nothing is written. */
static inline void learn(struct l3 *s, const struct work *w, uint32_t now)
{
	struct entry *known = hash_find(&s->stations, w->hash, w->key);
	if (unlikely(!known)) {
		learn_new(s, w->key, (struct fdb){ w->d->rx_port, now });
		return;
	}
	/* Those that are set, not learned, stay as they are. */
	uint64_t fresh = fdb_value((struct fdb){ w->d->rx_port, now });
	if (unlikely(known->value != fresh && fdb_of(known->value).heard))
		known->value = fresh;
}

/* Routes a valid packet whose address has this slot in the table: finds next hop and neighbour, and so the station that
 * the packet goes to. What goes to the host is as it came, so the headers are written when the packet leaves. */
static inline void forward(struct l3 *s, struct work *w, uint32_t slot)
{
	uint32_t dst = destination(w->p);
	/* Groups and the limited broadcast are the host's, too; it answers for packets without a route or a hop. */
	if (unlikely(dst >= 0xe0000000 || !slot || w->p[ETHER + 8] <= 1 ||
		     hash_find(&s->local_addrs, hash_of(&s->local_addrs, dst), dst))) {
		w->host = true;
		return;
	}
	static const struct next_hop none;
	const struct next_hop *hop = likely(slot - 1 < NEXT_HOPS) ? &s->next_hops[slot - 1] : &none;
	if (unlikely(!hop->domain)) {
		w->reason = NO_NEXT_HOP;
		return;
	}
	uint32_t next = hop->gateway ? hop->gateway : dst;
	const struct entry *neighbour = hash_find(&s->neighbours, hash_of(&s->neighbours, next), next);
	if (unlikely(!neighbour)) {
		w->host = true;
		return;
	}
	w->to = neighbour->value & MAC_MASK;
	w->from = hop->src;
	w->domain = hop->domain;
	w->not_to = 0;
	w->rewrites = true;
	bridge_to(s, w, w->to);
}

static inline void rewrite(const struct work *w)
{
	uint64_t first = w->to | w->from << 48;
	uint32_t rest = w->from >> 16;
	decrement_ttl(w->p + ETHER);
	memcpy(w->p, &first, 8);
	memcpy(w->p + 8, &rest, 4);
}

/* Whether all ports that a packet would be flooded to send this many bytes. */
static slow_path bool fits_all(const struct l3 *s, uint8_t domain, uint32_t total)
{
	for (uint64_t ports = s->members[domain] & ~1ull; ports; ports &= ports - 1)
		if (total > s->mtu[__builtin_ctzll(ports)])
			return false;
	return true;
}

/* The packet leaves. */
static inline void deliver(struct l3 *s, struct context *ctx, const struct work *w)
{
	if (unlikely(w->copied))
		copy_to_host(s, ctx, w);
	if (unlikely(w->reason || w->unheard)) {
		drop(s, ctx, w->d, w->unheard ? LINK_LOCAL : w->reason);
		return;
	}
	if (unlikely(w->arp && !w->copied)) {
		answer_arp(s, ctx, w, w->d);
		return;
	}
	if (unlikely(w->host)) {
		to_host(s, ctx, w->d);
		return;
	}
	const struct entry *station = is_group(w->key) ? NULL : hash_find(&s->stations, w->hash, w->key);
	uint8_t port = likely(station) ? fdb_of(station->value).port : 0;
	if (w->rewrites) {
		uint32_t total = big16(w->p + ETHER + 2);
		if (unlikely(port ? total > s->mtu[port] : !fits_all(s, w->domain, total))) {
			to_host(s, ctx, w->d);
			return;
		}
		rewrite(w);
	} else if (likely(port)) {
		uint32_t most = s->mtu[port] + ETHER + (load16(w->p + 12) == TYPE_VLAN ? 4 : 0);
		if (unlikely(port == w->not_to || w->d->len > most)) {
			drop(s, ctx, w->d, port == w->not_to ? SAME_PORT : TOO_BIG);
			return;
		}
	}
	if (likely(port))
		send(s, ctx, w->d, port);
	else
		flood(s, ctx, w);
}

#endif

/* An L3 switch as an XDP program by hand: the work of apps/l3switch/l3switch.baker with the kernel's own maps, routes
 * in DIR-24-8. The slow path goes to the kernel's stack. */
#include "bpf.h"

#define MAC_MASK 0xffffffffffffull
#define GROUP (1u << 31)

struct port {
	u64 mac; /* the router's, as the low 48 bits of a little-endian load */
	u8 number, domain;
};
struct next_hop {
	u64 src;
	u32 gateway; /* 0: directly connected */
	u32 domain;
};
struct fdb {
	u32 port, heard;
};
#define MTU 1500 /* of all ports */
#define BROADCAST 0xffffffffu
enum { RX, TX, DROP_DOMAIN, DROP_GROUP, DROP_HEADER, DROP_CHECKSUM, DROP_MARTIAN, DROP_ROUTE, DROP_SAME, COUNTERS };

struct { uint(type, BPF_MAP_TYPE_ARRAY); type(key, u32); type(value, struct port); uint(max_entries, 64); } ports SEC(".maps");
struct { uint(type, BPF_MAP_TYPE_DEVMAP); type(key, u32); type(value, u32); uint(max_entries, 64); } devices SEC(".maps");
struct { uint(type, BPF_MAP_TYPE_HASH); type(key, u64); type(value, struct fdb); uint(max_entries, 65536); } stations SEC(".maps");
struct { uint(type, BPF_MAP_TYPE_HASH); type(key, u32); type(value, u64); uint(max_entries, 65536); } neighbours SEC(".maps");
struct { uint(type, BPF_MAP_TYPE_HASH); type(key, u32); type(value, u8); uint(max_entries, 256); } local SEC(".maps");
struct { uint(type, BPF_MAP_TYPE_ARRAY); type(key, u32); type(value, struct next_hop); uint(max_entries, 65536); } next_hops SEC(".maps");
struct { uint(type, BPF_MAP_TYPE_ARRAY); type(key, u32); type(value, u32); uint(max_entries, 1 << 24); } tbl24 SEC(".maps");
struct { uint(type, BPF_MAP_TYPE_ARRAY); type(key, u32); type(value, u32); uint(max_entries, 1 << 21); } tbl8 SEC(".maps");
struct { uint(type, BPF_MAP_TYPE_PERCPU_ARRAY); type(key, u32); type(value, u64); uint(max_entries, COUNTERS); } counters SEC(".maps");

static inline void count(u32 what)
{
	u64 *counter = lookup(&counters, &what);
	if (counter)
		++*counter;
}

static inline int drop(u32 reason)
{
	count(reason);
	return XDP_DROP;
}

static inline u64 mac_at(const u8 *p)
{
	const u16 *words = (const u16 *)p;
	return (u64)words[0] | (u64)words[1] << 16 | (u64)words[2] << 32;
}

static inline void mac_to(u8 *p, u64 mac)
{
	u16 *words = (u16 *)p;
	words[0] = mac, words[1] = mac >> 16, words[2] = mac >> 32;
}

static inline u32 route(u32 address)
{
	u32 key = address >> 8, *slot = lookup(&tbl24, &key);
	if (!slot)
		return 0;
	if (likely(!(*slot & GROUP)))
		return *slot;
	key = (*slot & ~GROUP) * 256 + (address & 255);
	slot = lookup(&tbl8, &key);
	return slot ? *slot : 0;
}

static inline bool checksum_ok(const struct ipv4 *ip)
{
	const u16 *words = (const u16 *)ip;
	u32 sum = 0;
#pragma unroll
	for (int i = 0; i < 10; i++)
		sum += words[i];
	sum = (sum >> 16) + (sum & 0xffff);
	return ((sum >> 16) + (sum & 0xffff)) == 0xffff;
}

SEC("xdp")
int l3(struct xdp_md *ctx)
{
	u8 *data = (u8 *)(long)ctx->data, *end = (u8 *)(long)ctx->data_end;
	struct ethernet *ether = (void *)data;
	u32 interface = ctx->ingress_ifindex & 63;
	struct port *port = lookup(&ports, &interface);
	u32 now = ktime_get_ns() / 1000000000 + 1;

	if (data + sizeof(*ether) > end || !port)
		return XDP_PASS;
	count(RX);
	if (unlikely(!port->domain))
		return drop(DROP_DOMAIN);
	u64 src = mac_at(ether->src), dst = mac_at(ether->dst), key = (u64)port->domain << 48 | src;
	if (unlikely(src & 1))
		return drop(DROP_GROUP);
	struct fdb *known = lookup(&stations, &key);
	if (unlikely(!known)) {
		struct fdb fdb = { port->number, now };
		update(&stations, &key, &fdb, BPF_ANY);
	} else {
		if (unlikely(known->heard != 0 && (known->heard != now || known->port != port->number))) {
			known->port = port->number;
			known->heard = now;
		}
	}
	u32 domain = port->domain, not_to = port->number;
	if (dst == port->mac) {
		struct ipv4 *ip = (void *)(data + sizeof(*ether));
		if (unlikely(ether->type != ETHER_IPV4))
			return XDP_PASS;
		if (unlikely((u8 *)(ip + 1) > end || ip->version_ihl != 0x45))
			return XDP_PASS;
		u32 total = __builtin_bswap16(ip->total), from = __builtin_bswap32(ip->src) >> 24;
		if (unlikely(total < sizeof(*ip) || (u8 *)ip + total > end))
			return drop(DROP_HEADER);
		if (unlikely(!checksum_ok(ip)))
			return drop(DROP_CHECKSUM);
		if (unlikely(from == 0 || from == 127 || from >= 224))
			return drop(DROP_MARTIAN);
		u32 to = ip->dst, first = to & 255;
		if (unlikely(first == 0 || first == 127 || (first >= 240 && to != BROADCAST)))
			return drop(DROP_MARTIAN);
		if (unlikely(first >= 224 || lookup(&local, &to) != NULL))
			return XDP_PASS;
		u32 index = route(__builtin_bswap32(to));
		if (unlikely(!index || ip->ttl <= 1 || total > MTU))
			return XDP_PASS;
		struct next_hop *hop = lookup(&next_hops, &index);
		if (unlikely(!hop || !hop->domain))
			return drop(DROP_ROUTE);
		u32 next = hop->gateway ? hop->gateway : to;
		u64 *neighbour = lookup(&neighbours, &next);
		if (unlikely(!neighbour))
			return XDP_PASS;
		decrement_ttl(ip);
		dst = *neighbour;
		mac_to(ether->dst, dst);
		mac_to(ether->src, hop->src);
		domain = hop->domain;
		not_to = 0;
	}
	if (unlikely(dst & 1))
		return XDP_PASS;
	key = (u64)domain << 48 | dst;
	struct fdb *fdb = lookup(&stations, &key);
	if (unlikely(!fdb))
		return XDP_PASS;
	if (unlikely(fdb->port == not_to))
		return drop(DROP_SAME);
	count(TX);
	return redirect_map(&devices, fdb->port, XDP_DROP);
}

/* Fan-out in the kernel, and the sinks of all systems. */
#include "../common/kernel.h"

#define COUNTS 4096 /* by the last 12 bits of the receiver's address; then all, and those that are not as expected */

struct map counts SEC("maps") = {BPF_MAP_TYPE_ARRAY, 4, 8, COUNTS + 2, BPF_F_MMAPABLE};
struct map sockets SEC("maps") = {BPF_MAP_TYPE_XSKMAP, 4, 4, 1, 0};
struct map devices SEC("maps") = {BPF_MAP_TYPE_DEVMAP, 4, 8, 1024, 0};
struct map receivers SEC("maps") = {BPF_MAP_TYPE_ARRAY, 4, sizeof(struct receiver), 1024, 0};
struct map sample SEC("maps") = {BPF_MAP_TYPE_ARRAY, 4, 48, 1, 0};
struct map ports SEC("maps") = {BPF_MAP_TYPE_ARRAY, 4, 12, 256, 0};

inlined void count(struct headers *h, u32 packets)
{
	u32 at = __builtin_bswap32(h->dst) & (COUNTS - 1), all = COUNTS, bad = COUNTS + 1;
	if (h->length != htons(FRAME - 14) && packets == 1)
		at = bad;
	u64 *one = lookup(&counts, &at), *sum = lookup(&counts, &all);
	if (one)
		*one += packets;
	if (sum)
		*sum += packets;
}

PROGRAM(xdp_sink)(struct xdp_md *ctx)
{
	struct headers *h = (void *)(long)ctx->data;
	if ((void *)(h + 1) <= (void *)(long)ctx->data_end && h->type == htons(0x0800))
		count(h, 1);
	return XDP_DROP;
}

PROGRAM(tc_sink)(struct __sk_buff *skb)
{
	struct headers *h = (void *)(long)skb->data, copy;
	/* Of a packet from a ring only the Ethernet header is in one piece. */
	if ((void *)(h + 1) > (void *)(long)skb->data_end) {
		if (skb_load_bytes(skb, 0, &copy, sizeof copy))
			return 2;
		h = &copy;
	}
	if (h->type == htons(0x0800))
		count(h, skb->gso_segs ? skb->gso_segs : 1);
	return 2; /* TCX_DROP */
}

/* Packets of the source in bursts, by the kernel's test run, whose pages keep what was written to them before. */
PROGRAM(burst)(struct xdp_md *ctx)
{
	struct headers *h = (void *)(long)ctx->data;
	u32 zero = 0, *from = lookup(&sample, &zero);
	if (!from || (void *)(h + 1) > (void *)(long)ctx->data_end)
		return XDP_DROP;
	__builtin_memcpy(h, from, sizeof *h);
	return redirect(from[11], 0);
}

PROGRAM(receive)(struct xdp_md *ctx)
{
	return redirect_map(&sockets, 0, XDP_PASS);
}

PROGRAM(drop)(struct xdp_md *ctx)
{
	struct headers *h = (void *)(long)ctx->data;
	if ((void *)(h + 1) <= (void *)(long)ctx->data_end && h->type == htons(0x0800))
		count(h, 1);
	return XDP_DROP;
}

PROGRAM(broadcast)(struct xdp_md *ctx)
{
	return redirect_map(&devices, 0, BPF_F_BROADCAST | BPF_F_EXCLUDE_INGRESS);
}

inlined void rewrite(struct headers *h, const struct receiver *r, u16 udp_check)
{
	u32 sum = (u16)~udp_check + r->udp_delta;
	sum = (sum & 0xffff) + (sum >> 16);
	__builtin_memcpy(h->from, h->to, 6);
	__builtin_memcpy(h->to, r->mac, 6);
	h->check = r->ip_check;
	h->src = (r->address & 0x00ffffff) | 0x01000000; /* host 1 of the receiver's network */
	h->dst = r->address;
	h->sport = h->dport;
	h->dport = r->port;
	h->udp_check = ~(u16)(sum + (sum >> 16));
}

/* One device has several receivers. Which of them a copy is for, the program only knows by counting. */
struct port {
	u32 first, receivers, turn;
};

PROGRAM(egress)(struct xdp_md *ctx)
{
	struct headers *h = (void *)(long)ctx->data;
	u32 device = ctx->egress_ifindex;
	struct port *p = lookup(&ports, &device);
	if (!p || (void *)(h + 1) > (void *)(long)ctx->data_end)
		return XDP_DROP;
	u32 turn = p->turn, at = p->first + turn;
	p->turn = turn + 1 >= p->receivers ? 0 : turn + 1;
	struct receiver *r = lookup(&receivers, &at);
	if (!r)
		return XDP_DROP;
	rewrite(h, r, h->udp_check);
	return XDP_PASS;
}

PROGRAM(clone)(struct __sk_buff *skb)
{
	u16 check = 0;
	for (u32 i = 0; i < 1024; i++) {
		u32 at = i, next = i + 1;
		struct receiver *r = lookup(&receivers, &at);
		struct headers *h = (void *)(long)skb->data;
		if (!r || !r->device || (void *)(h + 1) > (void *)(long)skb->data_end)
			break;
		if (!i) {
			if (h->type != htons(0x0800))
				break;
			check = h->udp_check;
		}
		rewrite(h, r, check);
		struct receiver *more = lookup(&receivers, &next);
		if (!more || !more->device)
			return redirect(r->device, 0);
		clone_redirect(skb, r->device, 0);
	}
	return 2;
}

/* Packets by turns to a device by an entry with a program, and by another entry (or by bpf_redirect) without one. */
#include "../common/kernel.h"

#define MARKED 0xaaaa
#define OTHERS_MARK 0xbbbb
#define TOLD 0x70d /* as a way: metadata says what to do */

struct map ways SEC("maps") = {BPF_MAP_TYPE_DEVMAP, 4, 8, 2, 0};    /* with a program */
struct map others SEC("maps") = {BPF_MAP_TYPE_DEVMAP, 4, 8, 1, 0};  /* without, or with one */
struct map counts SEC("maps") = {BPF_MAP_TYPE_ARRAY, 4, 8, 16, BPF_F_MMAPABLE};
struct map settings SEC("maps") = {BPF_MAP_TYPE_ARRAY, 4, 4, 4, 0};  /* device, group, first, way of the others */

/* The source: `group` packets to port 1000 (by turns first or second), then as many to port 2000. */
PROGRAM(source)(struct xdp_md *ctx)
{
	struct headers *h = (void *)(long)ctx->data;
	u32 device = 0, group = 1, first = 2, turn = 0;
	u32 *d = lookup(&settings, &device), *g = lookup(&settings, &group), *f = lookup(&settings, &first);
	u64 *n = lookup(&counts, &turn);
	if (!d || !g || !f || !n || !*g || (void *)(h + 1) > (void *)(long)ctx->data_end)
		return XDP_DROP;
	h->dport = ((*n / *g) & 1) == *f ? htons(2000) : htons(1000);
	h->udp_check = 0;
	*n += 1;
	return redirect(*d, 0);
}

/* The box: by the port. */
PROGRAM(box)(struct xdp_md *ctx)
{
	struct headers *h = (void *)(long)ctx->data;
	u32 way = 3, out = 0;
	u32 *w = lookup(&settings, &way);
	if (!w || (void *)(h + 1) > (void *)(long)ctx->data_end)
		return XDP_DROP;
	bool all = h->dport == htons(1000);
	if (!all && h->dport != htons(2000))
		return XDP_DROP;
	if (*w == TOLD) {
		/* A frame may come with the metadata that a program before has left, as the source's recycled ones do. */
		if (ctx->data_meta == ctx->data && adjust_meta(ctx, -4))
			return XDP_DROP;
		u32 *meta = (void *)(long)ctx->data_meta;
		if ((void *)(meta + 1) > (void *)(long)ctx->data)
			return XDP_DROP;
		*meta = all ? TOLD : 0;
		return all ? redirect_map(&ways, 0, BPF_F_BROADCAST) : redirect_map(&others, 0, 0);
	}
	if (all)
		return redirect_map(&ways, 0, BPF_F_BROADCAST);
	return *w ? redirect(*w, 0) : redirect_map(&others, 0, 0);
}

inlined int marked(struct xdp_md *ctx, u16 value)
{
	struct headers *h = (void *)(long)ctx->data;
	if ((void *)(h + 1) > (void *)(long)ctx->data_end)
		return XDP_DROP;
	h->udp_check = value;
	return XDP_PASS;
}

PROGRAM(mark)(struct xdp_md *ctx)
{
	return marked(ctx, MARKED);
}

PROGRAM(mark_other)(struct xdp_md *ctx)
{
	return marked(ctx, OTHERS_MARK);
}

PROGRAM(mark_if_told)(struct xdp_md *ctx)
{
	u32 *meta = (void *)(long)ctx->data_meta;
	if ((void *)(meta + 1) > (void *)(long)ctx->data || *meta != TOLD)
		return XDP_PASS;
	return marked(ctx, MARKED);
}

/* Counts 1 + 4 * (port 2000) + (no mark 0, mark 1, the others' mark 2). */
PROGRAM(sink)(struct xdp_md *ctx)
{
	struct headers *h = (void *)(long)ctx->data;
	if ((void *)(h + 1) > (void *)(long)ctx->data_end || h->type != htons(0x0800))
		return XDP_DROP;
	u32 at = 1 + (h->dport == htons(2000) ? 4 : 0) +
		 (h->udp_check == MARKED ? 1 : h->udp_check == OTHERS_MARK ? 2 : 0);
	u64 *n = lookup(&counts, &at);
	if (n)
		__sync_fetch_and_add(n, 1);
	return XDP_DROP;
}

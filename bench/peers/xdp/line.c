/* Both ends of the line: frames from a list, one after the other, and a place where they end; and an end where they go
 * on. */
#include "bpf.h"

#define FRAME 60

struct frame {
	u32 words[FRAME / 4];
};
struct position {
	u32 next, count;
};

struct { uint(type, BPF_MAP_TYPE_ARRAY); type(key, u32); type(value, struct frame); uint(max_entries, 1 << 16); } frames SEC(".maps");
struct { uint(type, BPF_MAP_TYPE_ARRAY); type(key, u32); type(value, struct position); uint(max_entries, 1); } position SEC(".maps");

/* Writes the next frame over the one that it got, and sends it. */
SEC("xdp")
int source(struct xdp_md *ctx)
{
	u32 *data = (u32 *)(long)ctx->data, *end = (u32 *)(long)ctx->data_end, first = 0;
	struct position *at = lookup(&position, &first);
	if (!at || data + FRAME / 4 > end)
		return XDP_DROP;
	u32 index = at->next;
	at->next = index + 1 < at->count ? index + 1 : 0;
	struct frame *frame = lookup(&frames, &index);
	if (!frame)
		return XDP_DROP;
#pragma unroll
	for (int i = 0; i < FRAME / 4; i++)
		data[i] = frame->words[i];
	return XDP_TX;
}

SEC("xdp")
int sink(struct xdp_md *ctx)
{
	(void)ctx;
	return XDP_DROP;
}

SEC("xdp")
int pass(struct xdp_md *ctx)
{
	(void)ctx;
	return XDP_PASS;
}

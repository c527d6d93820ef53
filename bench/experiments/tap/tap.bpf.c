/* Forwarding in XDP, with a copy of each packet to user space in different ways. */
#include "../common/kernel.h"

#define BYTES 1376 /* a record has one size, which the verifier must know; here that of the stream's packets */
#define BATCH 256

struct record {
	u32 length, unused;
	u8 bytes[BYTES];
};

enum { SENT, FULL, TURN, SUNK };

struct map ring SEC("maps") = {BPF_MAP_TYPE_RINGBUF, 0, 0, 1 << 22, 0};
struct map perf SEC("maps") = {BPF_MAP_TYPE_PERF_EVENT_ARRAY, 4, 4, 2, 0};
struct map devices SEC("maps") = {BPF_MAP_TYPE_DEVMAP, 4, 4, 1, 0};
struct map counts SEC("maps") = {BPF_MAP_TYPE_ARRAY, 4, 8, 8, BPF_F_MMAPABLE};

inlined u64 add(u32 at, u64 n)
{
	u64 *count = lookup(&counts, &at);
	return count ? *count += n : 0;
}

inlined bool whole(struct xdp_md *ctx, u32 *length)
{
	u32 bytes = ctx->data_end - ctx->data;
	/* Two comparisons, as the verifier understands no others. */
	asm volatile("" : "+r"(bytes));
	if (bytes < HEADERS)
		return false;
	asm volatile("" : "+r"(bytes));
	if (bytes > BYTES)
		return false;
	*length = bytes;
	return true;
}

inlined int forward(void)
{
	return redirect_map(&devices, 0, 0);
}

PROGRAM(only)(struct xdp_md *ctx)
{
	return forward();
}

inlined struct record *taken(struct xdp_md *ctx)
{
	u32 length;
	if (!whole(ctx, &length))
		return 0;
	struct record *r = ring_reserve(&ring, sizeof *r, 0);
	if (!r) {
		add(FULL, 1);
		return 0;
	}
	r->length = length;
	if (load_bytes(ctx, 0, r->bytes, length))
		r->length = 0;
	return r;
}

/* The kernel wakes the reader whenever it has read all before. */
PROGRAM(adaptive)(struct xdp_md *ctx)
{
	struct record *r = taken(ctx);
	if (r)
		ring_submit(r, 0);
	return forward();
}

/* One wake-up for BATCH packets; the reader looks itself when a timer is over. */
PROGRAM(counted)(struct xdp_md *ctx)
{
	struct record *r = taken(ctx);
	if (r)
		ring_submit(r, add(TURN, 1) % BATCH ? BPF_RB_NO_WAKEUP : BPF_RB_FORCE_WAKEUP);
	return forward();
}

/* A wake-up from that packet on with which so much is unread. */
PROGRAM(watermark)(struct xdp_md *ctx)
{
	struct record *r = taken(ctx);
	if (r)
		ring_submit(r, ring_query(&ring, BPF_RB_AVAIL_DATA) < BATCH * (sizeof *r + 8) ? BPF_RB_NO_WAKEUP
											       : BPF_RB_FORCE_WAKEUP);
	return forward();
}

/* Without the copy: what the record itself costs. */
PROGRAM(uncopied)(struct xdp_md *ctx)
{
	struct record *r = ring_reserve(&ring, sizeof *r, 0);
	if (r) {
		r->length = 0;
		ring_submit(r, add(TURN, 1) % BATCH ? BPF_RB_NO_WAKEUP : BPF_RB_FORCE_WAKEUP);
	}
	return forward();
}

/* The perf buffer of this CPU has a watermark of its own, and records of any size. */
PROGRAM(perf_event)(struct xdp_md *ctx)
{
	u32 length;
	if (whole(ctx, &length) &&
	    perf_output(ctx, &perf, BPF_F_CURRENT_CPU | (u64)length << 32, &length, sizeof length))
		add(FULL, 1);
	return forward();
}

PROGRAM(sink)(struct xdp_md *ctx)
{
	add(SUNK, 1);
	return XDP_DROP;
}

/* The source of the fastest case, run by the kernel's test run. */
PROGRAM(source)(struct xdp_md *ctx)
{
	return forward();
}

/* What the experiments' BPF programs need of the kernel: maps in the section "maps" (common/load.h), helpers by number,
 * and the headers of the packets that common/stream.h makes. */
#ifndef EXPERIMENT_KERNEL_H
#define EXPERIMENT_KERNEL_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;

#define SEC(name) __attribute__((section(name), used))
#define PROGRAM(name) SEC("prog/" #name) int name
#define inlined static inline __attribute__((always_inline))
#define htons(x) ((u16)__builtin_bswap16(x))

struct map {
	u32 type, key, value, entries, flags;
};

static void *(*lookup)(void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;
static long (*redirect)(u32 device, u64 flags) = (void *)BPF_FUNC_redirect;
static long (*redirect_map)(void *map, u64 key, u64 flags) = (void *)BPF_FUNC_redirect_map;
static long (*clone_redirect)(void *skb, u32 device, u64 flags) = (void *)BPF_FUNC_clone_redirect;
static long (*adjust_meta)(void *xdp, int bytes) = (void *)BPF_FUNC_xdp_adjust_meta;
static long (*load_bytes)(void *xdp, u32 offset, void *to, u32 bytes) = (void *)BPF_FUNC_xdp_load_bytes;
static long (*skb_load_bytes)(void *skb, u32 offset, void *to, u32 bytes) = (void *)BPF_FUNC_skb_load_bytes;
static void *(*ring_reserve)(void *ring, u64 bytes, u64 flags) = (void *)BPF_FUNC_ringbuf_reserve;
static void (*ring_submit)(void *data, u64 flags) = (void *)BPF_FUNC_ringbuf_submit;
static u64 (*ring_query)(void *ring, u64 what) = (void *)BPF_FUNC_ringbuf_query;
static long (*perf_output)(void *ctx, void *map, u64 flags, void *data, u64 bytes) = (void *)BPF_FUNC_perf_event_output;

char gpl[] SEC("license") = "GPL";

#include "packet.h"

#endif

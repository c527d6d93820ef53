/* What the XDP peers need of the kernel: maps as libbpf declares them, and helpers by number (linux/bpf.h). */
#ifndef XDP_BPF_H
#define XDP_BPF_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;

#define SEC(name) __attribute__((section(name), used))
#define uint(name, value) int (*name)[value]
#define type(name, value) typeof(value) *name
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

static void *(*lookup)(void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;
static long (*update)(void *map, const void *key, const void *value, u64 flags) = (void *)BPF_FUNC_map_update_elem;
static u64 (*ktime_get_ns)(void) = (void *)BPF_FUNC_ktime_get_ns;
static long (*redirect_map)(void *map, u64 key, u64 flags) = (void *)BPF_FUNC_redirect_map;
static long (*fib_lookup)(void *ctx, struct bpf_fib_lookup *params, int size, u32 flags) = (void *)BPF_FUNC_fib_lookup;

char gpl[] SEC("license") = "GPL";

struct ethernet {
	u8 dst[6], src[6];
	u16 type;
} __attribute__((packed));

struct ipv4 {
	u8 version_ihl, tos;
	u16 total, id, offset;
	u8 ttl, protocol;
	u16 check;
	u32 src, dst;
} __attribute__((packed, aligned(2)));

#define ETHER_IPV4 0x0008 /* network order */

/* RFC 1624 equation 3 for a TTL that is one less; in network order, where TTL is the first byte of its word. */
static inline void decrement_ttl(struct ipv4 *ip)
{
	u32 check = ip->check;
	check += 0x0001; /* ~old + new of the word (TTL, protocol) */
	ip->check = (u16)(check + (check >= 0xffff));
	ip->ttl--;
}

#endif

/* A router as an XDP program that asks the kernel's own tables (bpf_fib_lookup). */
#include "bpf.h"

struct { uint(type, BPF_MAP_TYPE_DEVMAP); type(key, u32); type(value, u32); uint(max_entries, 64); } devices SEC(".maps");

SEC("xdp")
int fib(struct xdp_md *ctx)
{
	u8 *data = (u8 *)(long)ctx->data, *end = (u8 *)(long)ctx->data_end;
	struct ethernet *ether = (void *)data;
	struct ipv4 *ip = (void *)(ether + 1);
	if ((u8 *)(ip + 1) > end || ether->type != ETHER_IPV4 || ip->version_ihl != 0x45 || ip->ttl <= 1)
		return XDP_PASS;
	struct bpf_fib_lookup params = {
		.family = 2, /* AF_INET */
		.tos = ip->tos,
		.l4_protocol = ip->protocol,
		.tot_len = __builtin_bswap16(ip->total),
		.ipv4_src = ip->src,
		.ipv4_dst = ip->dst,
		.ifindex = ctx->ingress_ifindex,
	};
	if (fib_lookup(ctx, &params, sizeof(params), 0) != BPF_FIB_LKUP_RET_SUCCESS)
		return XDP_PASS;
	decrement_ttl(ip);
	__builtin_memcpy(ether->dst, params.dmac, 6);
	__builtin_memcpy(ether->src, params.smac, 6);
	return redirect_map(&devices, params.ifindex & 63, XDP_DROP);
}

/* Reception by AF_XDP, and a sink that counts. */
#include "../common/kernel.h"

struct map sockets SEC("maps") = {BPF_MAP_TYPE_XSKMAP, 4, 4, 1, 0};
struct map counts SEC("maps") = {BPF_MAP_TYPE_ARRAY, 4, 8, 1, BPF_F_MMAPABLE};

PROGRAM(receive)(struct xdp_md *ctx)
{
	return redirect_map(&sockets, 0, XDP_DROP);
}

PROGRAM(sink)(struct xdp_md *ctx)
{
	u32 zero = 0;
	u64 *count = lookup(&counts, &zero);
	if (count)
		*count += 1;
	return XDP_DROP;
}

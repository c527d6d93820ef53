/* The ends of the network: a source that the kernel's test run drives, reception by AF_XDP, a sink. */
#include "../common/kernel.h"

struct map sockets SEC("maps") = {BPF_MAP_TYPE_XSKMAP, 4, 4, 1, 0};
struct map devices SEC("maps") = {BPF_MAP_TYPE_DEVMAP, 4, 4, 1, 0};

PROGRAM(source)(struct xdp_md *ctx)
{
	return redirect_map(&devices, 0, 0);
}

PROGRAM(receive)(struct xdp_md *ctx)
{
	return redirect_map(&sockets, 0, XDP_DROP);
}

PROGRAM(sink)(struct xdp_md *ctx)
{
	return XDP_DROP;
}

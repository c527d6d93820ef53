/* AF_XDP sockets in copy mode on one region of frames. */
#ifndef EXPERIMENT_XSK_H
#define EXPERIMENT_XSK_H

#include "util.h"
#include <linux/if_xdp.h>
#include <sys/mman.h>
#include <sys/socket.h>

#ifndef AF_XDP
#define AF_XDP 44
#endif
#ifndef SOL_XDP
#define SOL_XDP 283
#endif
#define USE_SG (1 << 4)	      /* XDP_USE_SG */
#define CONTINUED (1 << 0)    /* XDP_PKT_CONTD */
#define MAX_TX_SKB_BUDGET 9   /* XDP_MAX_TX_SKB_BUDGET, Linux 6.17 */
#define RING 4096

struct ring {
	volatile uint32_t *producer, *consumer;
	void *entries;
	uint32_t at; /* our side's index, not yet shown to the kernel */
};

struct xsk {
	int fd;
	struct ring rx, tx, fill, completion;
};

static inline void map_ring(struct xsk *x, struct ring *r, struct xdp_ring_offset *offset, int size, uint64_t page)
{
	char *at = mmap(NULL, offset->desc + RING * size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, x->fd, page);
	if (at == MAP_FAILED)
		fail("mmap of a ring");
	r->producer = (void *)(at + offset->producer);
	r->consumer = (void *)(at + offset->consumer);
	r->entries = at + offset->desc;
	r->at = 0;
}

/* A socket of queue 0 of a device. The first one registers the region, the others share it by `first`. */
static inline void open_xsk(struct xsk *x, int device, void *region, uint64_t bytes, int chunk, struct xsk *first)
{
	x->fd = need(socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0));
	struct xdp_umem_reg umem;
	memset(&umem, 0, sizeof umem);
	umem.addr = (uintptr_t)region;
	umem.len = bytes;
	umem.chunk_size = chunk;
	int ring = RING;
	if (!first)
		need(setsockopt(x->fd, SOL_XDP, XDP_UMEM_REG, &umem, sizeof umem));
	need(setsockopt(x->fd, SOL_XDP, XDP_UMEM_FILL_RING, &ring, sizeof ring));
	need(setsockopt(x->fd, SOL_XDP, XDP_UMEM_COMPLETION_RING, &ring, sizeof ring));
	need(setsockopt(x->fd, SOL_XDP, XDP_RX_RING, &ring, sizeof ring));
	need(setsockopt(x->fd, SOL_XDP, XDP_TX_RING, &ring, sizeof ring));
	struct xdp_mmap_offsets offsets;
	socklen_t length = sizeof offsets;
	need(getsockopt(x->fd, SOL_XDP, XDP_MMAP_OFFSETS, &offsets, &length));
	map_ring(x, &x->rx, &offsets.rx, sizeof(struct xdp_desc), XDP_PGOFF_RX_RING);
	map_ring(x, &x->tx, &offsets.tx, sizeof(struct xdp_desc), XDP_PGOFF_TX_RING);
	map_ring(x, &x->fill, &offsets.fr, 8, XDP_UMEM_PGOFF_FILL_RING);
	map_ring(x, &x->completion, &offsets.cr, 8, XDP_UMEM_PGOFF_COMPLETION_RING);
	struct sockaddr_xdp address = {.sxdp_family = AF_XDP, .sxdp_ifindex = device,
				       .sxdp_flags = first ? XDP_SHARED_UMEM : XDP_COPY | USE_SG,
				       .sxdp_shared_umem_fd = first ? first->fd : 0};
	for (int i = 0; bind(x->fd, (void *)&address, sizeof address); i++) {
		if (i == 200 || (errno != EBUSY && errno != EAGAIN))
			fail("bind of AF_XDP");
		usleep(10000);
	}
}

static inline void push_desc(struct xsk *x, uint64_t address, uint32_t length, uint32_t options)
{
	struct xdp_desc *d = (struct xdp_desc *)x->tx.entries + (x->tx.at++ & (RING - 1));
	d->addr = address;
	d->len = length;
	d->options = options;
}

static inline uint32_t tx_room(struct xsk *x)
{
	return RING - (x->tx.at - __atomic_load_n(x->tx.consumer, __ATOMIC_ACQUIRE));
}

static inline void show_tx(struct xsk *x)
{
	__atomic_store_n(x->tx.producer, x->tx.at, __ATOMIC_RELEASE);
}

/* Shows what was pushed and has the kernel send all of it. Returns the number of calls. */
static inline int kick(struct xsk *x)
{
	int calls = 0;
	show_tx(x);
	while (__atomic_load_n(x->tx.consumer, __ATOMIC_ACQUIRE) != x->tx.at && calls < 10000) {
		sendto(x->fd, NULL, 0, MSG_DONTWAIT, NULL, 0);
		calls++;
	}
	return calls;
}

static inline void push_fill(struct xsk *x, uint64_t address)
{
	((uint64_t *)x->fill.entries)[x->fill.at++ & (RING - 1)] = address;
	__atomic_store_n(x->fill.producer, x->fill.at, __ATOMIC_RELEASE);
}

/* What the kernel is done with: how many addresses, from x->completion.at on. */
static inline uint32_t completed(struct xsk *x)
{
	return __atomic_load_n(x->completion.producer, __ATOMIC_ACQUIRE) - x->completion.at;
}

static inline uint64_t pop_completed(struct xsk *x)
{
	return ((uint64_t *)x->completion.entries)[x->completion.at++ & (RING - 1)];
}

static inline void free_completed(struct xsk *x)
{
	__atomic_store_n(x->completion.consumer, x->completion.at, __ATOMIC_RELEASE);
}

static inline bool pop_received(struct xsk *x, struct xdp_desc *d)
{
	if (__atomic_load_n(x->rx.producer, __ATOMIC_ACQUIRE) == x->rx.at)
		return false;
	*d = ((struct xdp_desc *)x->rx.entries)[x->rx.at++ & (RING - 1)];
	__atomic_store_n(x->rx.consumer, x->rx.at, __ATOMIC_RELEASE);
	return true;
}

#endif

/* As much of io_uring as the experiment takes: writes from registered buffers. */
#ifndef DISK_URING_H
#define DISK_URING_H

#include "../common/util.h"
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

struct uring {
	int fd;
	unsigned *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_tail, *cq_mask;
	struct io_uring_sqe *entries;
	struct io_uring_cqe *completions;
};

static inline void open_uring(struct uring *u, unsigned entries)
{
	struct io_uring_params p = {0};
	u->fd = need(syscall(SYS_io_uring_setup, entries, &p));
	size_t sq = p.sq_off.array + p.sq_entries * 4, cq = p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe);
	char *s = mmap(NULL, sq, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, u->fd, IORING_OFF_SQ_RING);
	char *c = mmap(NULL, cq, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, u->fd, IORING_OFF_CQ_RING);
	u->entries = mmap(NULL, p.sq_entries * sizeof *u->entries, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, u->fd,
			  IORING_OFF_SQES);
	if (s == MAP_FAILED || c == MAP_FAILED || u->entries == MAP_FAILED)
		fail("io_uring");
	u->sq_tail = (void *)(s + p.sq_off.tail);
	u->sq_mask = (void *)(s + p.sq_off.ring_mask);
	u->sq_array = (void *)(s + p.sq_off.array);
	u->cq_head = (void *)(c + p.cq_off.head);
	u->cq_tail = (void *)(c + p.cq_off.tail);
	u->cq_mask = (void *)(c + p.cq_off.ring_mask);
	u->completions = (void *)(c + p.cq_off.cqes);
}

/* A write is begun; `data` comes back with its completion. `fixed`: the number of a registered buffer, or -1. */
static inline void begin_write(struct uring *u, int op, int file, const void *from, unsigned length, uint64_t offset,
			       int fixed, uint64_t data)
{
	unsigned at = *u->sq_tail & *u->sq_mask;
	u->entries[at] = (struct io_uring_sqe){.opcode = op, .fd = file, .addr = (uintptr_t)from, .len = length,
					       .off = offset, .user_data = data, .buf_index = fixed < 0 ? 0 : fixed};
	u->sq_array[at] = at;
	__atomic_store_n(u->sq_tail, *u->sq_tail + 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, u->fd, 1, 0, 0, NULL, 0) != 1)
		fail("io_uring_enter");
}

/* One completion's data, or -1; waits for one if told to. */
static inline int64_t completed_write(struct uring *u, bool wait)
{
	if (wait)
		syscall(SYS_io_uring_enter, u->fd, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0);
	unsigned head = *u->cq_head;
	if (head == __atomic_load_n(u->cq_tail, __ATOMIC_ACQUIRE))
		return -1;
	struct io_uring_cqe *c = &u->completions[head & *u->cq_mask];
	if (c->res < 0) {
		errno = -c->res;
		fail("a write");
	}
	int64_t data = c->user_data;
	__atomic_store_n(u->cq_head, head + 1, __ATOMIC_RELEASE);
	return data;
}

#endif

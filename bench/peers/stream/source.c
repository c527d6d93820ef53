/* The source of the stream: bursts, each when all that became of the one before has come. */
#define _GNU_SOURCE
#include "stream.h"
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MOST 64
#define BYTES 2048
/* Of the sinks' map: see sink.bpf.c. */
#define ALL 4096
/* Copies that have not come by then are lost. */
#define PATIENCE 200000000ULL

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

/* Changes a field of a datagram, `at` so many bytes, and the checksum of UDP (RFC 1624). */
static void change(uint8_t *frame, uint32_t at, uint32_t check_at, uint16_t value)
{
	uint16_t old, check, new = htons(value);
	memcpy(&old, frame + at, 2);
	memcpy(&check, frame + check_at, 2);
	uint32_t sum = (uint16_t)~check + (uint32_t)(uint16_t)~old + new;
	sum = (sum & 0xffff) + (sum >> 16);
	check = ~((sum & 0xffff) + (sum >> 16));
	memcpy(frame + at, &new, 2);
	memcpy(frame + check_at, &check, 2);
}

/* Gives a packet of RTP its number; the checksum of UDP is four bytes before it. */
static void number(uint8_t *frame, uint32_t at, uint16_t value)
{
	change(frame, at, at - 4, value);
}

static int send_bursts(int socket, struct mmsghdr *messages, uint32_t burst, uint32_t numbered, uint32_t apart,
		       uint64_t copies, const volatile uint64_t *counts, uint64_t nanoseconds, struct stream_sent *sent)
{
	/* Goes on from one call to the next. */
	static uint16_t next;
	uint64_t start = now(), end = start + nanoseconds;
	memset(sent, 0, sizeof *sent);
	while (now() < end) {
		uint64_t due = counts[ALL] + copies * burst, until = now() + PATIENCE;
		for (uint32_t i = 0; numbered && i < burst; i++)
			number(messages[i].msg_hdr.msg_iov->iov_base, numbered, apart ? next : next++);
		next += apart != 0;
		int count = sendmmsg(socket, messages, burst, 0);
		if (count != (int)burst)
			return count < 0 ? errno : ENOBUFS;
		sent->bursts++;
		/* What is to be done gets the CPU now. */
		while (counts[ALL] < due && now() < until)
			sched_yield();
		sent->lost += counts[ALL] < due ? due - counts[ALL] : 0;
	}
	sent->seconds_e9 = now() - start;
	return 0;
}

int stream_source(uint32_t interface, const uint8_t *frame, uint32_t bytes, uint32_t numbered, uint32_t apart,
		  uint32_t burst, uint32_t copies, int counts, uint64_t nanoseconds, struct stream_sent *sent)
{
	struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_ifindex = interface};
	static uint8_t frames[MOST][BYTES];
	struct iovec pieces[MOST];
	struct mmsghdr messages[MOST];
	size_t size = (ALL + 2) * sizeof(uint64_t);
	int on = 1, error = 0, fd;
	if (burst > MOST || bytes > BYTES)
		return EINVAL;
	for (uint32_t i = 0; i < burst; i++) {
		uint16_t port = frame[36] << 8 | frame[37];
		memcpy(frames[i], frame, bytes);
		change(frames[i], 36, 40, port + i * apart);
		pieces[i] = (struct iovec){frames[i], bytes};
		messages[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &pieces[i], .msg_iovlen = 1}};
	}
	const volatile uint64_t *map = mmap(NULL, size, PROT_READ, MAP_SHARED, counts, 0);
	if (map == MAP_FAILED)
		return errno;
	fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (void *)&at, sizeof at) ||
	    setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof on))
		error = errno;
	else
		error = send_bursts(fd, messages, burst, numbered, apart, copies, map, nanoseconds, sent);
	if (fd >= 0)
		close(fd);
	munmap((void *)map, size);
	return error;
}

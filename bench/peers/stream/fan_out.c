/* Fan-out by sendmmsg(2) of a UDP socket, as media servers do it: a message for each receiver, with the packets where
 * they came. */
#define _GNU_SOURCE
#include "stream.h"
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#define PACKETS 32
#define BYTES 2048

struct server {
	int socket;
	uint32_t count;
	uint8_t packets[PACKETS][BYTES];
	struct mmsghdr in[PACKETS];
	struct iovec rooms[PACKETS], pieces[PACKETS];
	struct sockaddr_in *addresses;
	struct mmsghdr *messages;
	union {
		char space[CMSG_SPACE(2)];
		struct cmsghdr head;
	} segment;
};

static int send_all(struct server *s)
{
	for (uint32_t done = 0; done < s->count;) {
		int sent = sendmmsg(s->socket, s->messages + done, s->count - done, 0);
		if (sent < 0 && errno != EINTR)
			return errno;
		done += sent < 0 ? 0 : sent;
	}
	return 0;
}

/* Packets that came one after the other have one length each, or are sent by themselves. */
static int fan_out(struct server *s, int got, bool gso)
{
	for (int first = 0, next; first < got; first = next) {
		uint32_t length = s->in[first].msg_len;
		for (next = first + 1; gso && next < got && s->in[next].msg_len == length;)
			next++;
		for (int i = first; i < next; i++)
			s->pieces[i] = (struct iovec){s->packets[i], length};
		*(uint16_t *)CMSG_DATA(&s->segment.head) = length;
		for (uint32_t i = 0; i < s->count; i++) {
			struct msghdr *m = &s->messages[i].msg_hdr;
			m->msg_iov = &s->pieces[first];
			m->msg_iovlen = next - first;
			m->msg_control = next - first > 1 ? &s->segment : NULL;
			m->msg_controllen = next - first > 1 ? sizeof s->segment : 0;
		}
		int error = send_all(s);
		if (error)
			return error;
	}
	return 0;
}

static int serve(struct server *s, bool gso, const uint32_t *stop)
{
	while (!__atomic_load_n(stop, __ATOMIC_RELAXED)) {
		struct pollfd wait = {.fd = s->socket, .events = POLLIN};
		if (poll(&wait, 1, 50) <= 0)
			continue;
		int got = recvmmsg(s->socket, s->in, PACKETS, MSG_DONTWAIT, NULL);
		if (got < 0 && errno != EAGAIN && errno != EINTR)
			return errno;
		int error = got > 0 ? fan_out(s, got, gso) : 0;
		if (error)
			return error;
	}
	return 0;
}

int stream_fan_out(const uint32_t *receivers, uint32_t count, bool gso, const uint32_t *stop)
{
	struct server *s = calloc(1, sizeof *s);
	struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons(STREAM_PORT)};
	int bytes = 1 << 24, error = ENOMEM;
	if (!s)
		return error;
	s->socket = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	s->count = count;
	s->addresses = calloc(count, sizeof *s->addresses);
	s->messages = calloc(count, sizeof *s->messages);
	if (s->addresses && s->messages && s->socket >= 0) {
		for (int i = 0; i < PACKETS; i++) {
			s->rooms[i] = (struct iovec){s->packets[i], BYTES};
			s->in[i].msg_hdr = (struct msghdr){.msg_iov = &s->rooms[i], .msg_iovlen = 1};
		}
		for (uint32_t i = 0; i < count; i++) {
			s->addresses[i] = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(STREAM_PORT),
							       .sin_addr = {htonl(receivers[i])}};
			s->messages[i].msg_hdr.msg_name = &s->addresses[i];
			s->messages[i].msg_hdr.msg_namelen = sizeof s->addresses[i];
		}
		s->segment.head = (struct cmsghdr){CMSG_LEN(2), IPPROTO_UDP, UDP_SEGMENT};
		bool ready = !setsockopt(s->socket, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) &&
			     !setsockopt(s->socket, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) &&
			     !bind(s->socket, (struct sockaddr *)&own, sizeof own);
		error = ready ? serve(s, gso, stop) : errno;
	}
	if (s->socket >= 0)
		close(s->socket);
	free(s->addresses);
	free(s->messages);
	free(s);
	return error;
}

int stream_yield_to_others(void)
{
	struct sched_param none = {0};
	return sched_setscheduler(0, SCHED_BATCH, &none) ? errno : 0;
}

/* A relay of one RTP stream by sockets, as media servers forward: recvmmsg(2) of what came, sendmmsg(2) to all
 * receivers, each with a source and numbers of its own in front of the payload, which is where it came. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PACKETS 32
#define BYTES 2048
#define HEADER 12

struct receiver {
	struct sockaddr_in address;
	uint8_t header[HEADER];
	struct iovec pieces[2];
};

struct relay {
	int socket;
	uint32_t count;
	uint8_t packets[PACKETS][BYTES];
	struct mmsghdr in[PACKETS];
	struct iovec rooms[PACKETS];
	struct receiver *receivers;
	struct mmsghdr *messages;
};

/* A receiver knows the stream's source, numbers and time by its own place among the others. */
static void write_header(struct receiver *r, const uint8_t *packet, uint32_t place)
{
	uint16_t sequence;
	uint32_t timestamp, source = htonl(place);
	memcpy(r->header, packet, HEADER);
	memcpy(&sequence, packet + 2, sizeof sequence);
	memcpy(&timestamp, packet + 4, sizeof timestamp);
	sequence = htons(ntohs(sequence) + place);
	timestamp = htonl(ntohl(timestamp) + place);
	memcpy(r->header + 2, &sequence, sizeof sequence);
	memcpy(r->header + 4, &timestamp, sizeof timestamp);
	memcpy(r->header + 8, &source, sizeof source);
}

static int send_all(struct relay *s, const uint8_t *packet, uint32_t length)
{
	for (uint32_t i = 0; i < s->count; i++) {
		struct receiver *r = &s->receivers[i];
		write_header(r, packet, i);
		r->pieces[1] = (struct iovec){(void *)(packet + HEADER), length - HEADER};
	}
	for (uint32_t done = 0; done < s->count;) {
		int sent = sendmmsg(s->socket, s->messages + done, s->count - done, 0);
		if (sent < 0 && errno != EINTR)
			return errno;
		done += sent < 0 ? 0 : sent;
	}
	return 0;
}

static int serve(struct relay *s, const uint32_t *stop)
{
	while (!__atomic_load_n(stop, __ATOMIC_RELAXED)) {
		struct pollfd wait = {.fd = s->socket, .events = POLLIN};
		if (poll(&wait, 1, 50) <= 0)
			continue;
		int got = recvmmsg(s->socket, s->in, PACKETS, MSG_DONTWAIT, NULL);
		if (got < 0 && errno != EAGAIN && errno != EINTR)
			return errno;
		for (int i = 0; i < got; i++) {
			int error = s->in[i].msg_len > HEADER ? send_all(s, s->packets[i], s->in[i].msg_len) : 0;
			if (error)
				return error;
		}
	}
	return 0;
}

/* Packets that come to this port of this thread's network namespace go to all ports of the receivers' address, until
 * *stop. Returns 0, or the number of an error. */
int media_relay(uint16_t port, uint32_t address, const uint16_t *ports, uint32_t count, const uint32_t *stop)
{
	struct relay *s = calloc(1, sizeof *s);
	struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons(port)};
	int bytes = 1 << 24, error = ENOMEM;
	if (!s)
		return error;
	s->socket = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	s->count = count;
	s->receivers = calloc(count, sizeof *s->receivers);
	s->messages = calloc(count, sizeof *s->messages);
	if (s->receivers && s->messages && s->socket >= 0) {
		for (int i = 0; i < PACKETS; i++) {
			s->rooms[i] = (struct iovec){s->packets[i], BYTES};
			s->in[i].msg_hdr = (struct msghdr){.msg_iov = &s->rooms[i], .msg_iovlen = 1};
		}
		for (uint32_t i = 0; i < count; i++) {
			struct receiver *r = &s->receivers[i];
			r->address = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(ports[i]),
							  .sin_addr = {htonl(address)}};
			r->pieces[0] = (struct iovec){r->header, HEADER};
			s->messages[i].msg_hdr = (struct msghdr){.msg_name = &r->address, .msg_namelen = sizeof r->address,
								 .msg_iov = r->pieces, .msg_iovlen = 2};
		}
		bool ready = !setsockopt(s->socket, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) &&
			     !setsockopt(s->socket, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) &&
			     !bind(s->socket, (struct sockaddr *)&own, sizeof own);
		error = ready ? serve(s, stop) : errno;
	}
	if (s->socket >= 0)
		close(s->socket);
	free(s->receivers);
	free(s->messages);
	free(s);
	return error;
}

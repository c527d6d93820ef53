/* Fan-out by sendmmsg(2): of a UDP socket, with and without segmentation offload, and of packet sockets. */
#include "fanout.h"
#include <linux/if_packet.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#define SEGMENTS 32

static int udp, raw[DEVICES];
static uint8_t packets[SEGMENTS][2048];
static struct sockaddr_in addresses[MOST];
static struct mmsghdr messages[MOST];
static struct iovec pieces[SEGMENTS], pairs[MOST][2];
static struct headers headers[MOST];
static union {
	char space[CMSG_SPACE(2)];
	struct cmsghdr head;
} segment;

/* Packets that have come in, at most SEGMENTS. */
int receive_source(uint8_t packets[SEGMENTS][2048])
{
	struct mmsghdr in[SEGMENTS];
	struct iovec to[SEGMENTS];
	for (int i = 0; i < SEGMENTS; i++) {
		to[i] = (struct iovec){packets[i], 2048};
		in[i].msg_hdr = (struct msghdr){.msg_iov = &to[i], .msg_iovlen = 1};
	}
	int got = recvmmsg(udp, in, SEGMENTS, MSG_DONTWAIT, NULL);
	return got < 0 ? 0 : got;
}

void start_sendmmsg(struct setup *s)
{
	udp = need(socket(AF_INET, SOCK_DGRAM, 0));
	int bytes = 1 << 24;
	need(setsockopt(udp, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes));
	need(setsockopt(udp, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes));
	struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons(5004)};
	need(bind(udp, (void *)&own, sizeof own));
	for (int i = 0; i < s->receiver_count; i++) {
		addresses[i] = (struct sockaddr_in){AF_INET, s->receivers[i].port, {s->receivers[i].address}};
		messages[i].msg_hdr = (struct msghdr){&addresses[i], sizeof addresses[i], pieces, 1};
	}
}

static void send_all(struct setup *s, int socket, struct mmsghdr *first, int count)
{
	for (int done = 0; done < count; s->calls++)
		done += need(sendmmsg(socket, first + done, count - done, 0));
}

int by_sendmmsg(struct setup *s)
{
	int got = receive_source(packets);
	for (int i = 0; i < got; i++) {
		pieces[0] = (struct iovec){packets[i], PAYLOAD};
		send_all(s, udp, messages, s->receiver_count);
	}
	return got;
}

/* A message for each receiver, with several packets. */
int by_sendmmsg_gso(struct setup *s)
{
	int got = receive_source(packets);
	if (!got)
		return 0;
	for (int i = 0; i < got; i++)
		pieces[i] = (struct iovec){packets[i], PAYLOAD};
	segment.head = (struct cmsghdr){CMSG_LEN(2), IPPROTO_UDP, UDP_SEGMENT};
	*(uint16_t *)CMSG_DATA(&segment.head) = PAYLOAD;
	for (int i = 0; i < s->receiver_count; i++) {
		struct msghdr *m = &messages[i].msg_hdr;
		m->msg_iovlen = got;
		m->msg_control = &segment;
		m->msg_controllen = sizeof segment;
	}
	send_all(s, udp, messages, s->receiver_count);
	return got;
}

void start_packet(struct setup *s)
{
	start_sendmmsg(s);
	for (int k = 0; k < s->devices_used; k++) {
		raw[k] = need(socket(AF_PACKET, SOCK_RAW, 0));
		struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_ifindex = s->out[k]};
		need(bind(raw[k], (void *)&at, sizeof at));
		int on = 1;
		need(setsockopt(raw[k], SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof on));
	}
	for (int i = 0; i < s->receiver_count; i++) {
		make_headers(&headers[i], &s->receivers[i]);
		pairs[i][0] = (struct iovec){&headers[i], HEADERS};
		messages[i].msg_hdr = (struct msghdr){.msg_iov = pairs[i], .msg_iovlen = 2};
	}
}

/* Header and payload of a packet are two pieces. The UDP checksum is left out, as the socket gives none. */
int by_packet(struct setup *s)
{
	int got = receive_source(packets);
	for (int j = 0; j < got; j++) {
		for (int i = 0; i < s->receiver_count; i++)
			pairs[i][1] = (struct iovec){packets[j], PAYLOAD};
		for (int i = 0, next; i < s->receiver_count; i = next) {
			for (next = i; next < s->receiver_count && s->device_of[next] == s->device_of[i];)
				next++;
			send_all(s, raw[s->device_of[i]], messages + i, next - i);
		}
	}
	return got;
}

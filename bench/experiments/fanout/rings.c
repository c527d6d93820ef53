/* Fan-out by packet sockets beside sendmmsg of single packets: rings for sending, and super-packets with a header for
 * each receiver, which the kernel or the device segments. */
#include "fanout.h"
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <sys/mman.h>
#include <sys/socket.h>

#ifndef VIRTIO_NET_HDR_GSO_UDP_L4
#define VIRTIO_NET_HDR_GSO_UDP_L4 5
#endif
#define SLOTS 1024
#define SLOT 2048
#define SEGMENTS 32

static struct {
	int fd;
	uint8_t *slots;
	uint32_t at;
} ring[DEVICES];
static struct headers headers[MOST];
static struct {
	struct virtio_net_hdr offload;
	struct headers headers;
} super[MOST];
static struct mmsghdr messages[MOST];
static struct iovec pieces[MOST][SEGMENTS + 1];
static uint8_t packets[SEGMENTS][2048];

static void open_devices(struct setup *s, bool rings)
{
	start_sendmmsg(s);
	for (int k = 0; k < s->devices_used; k++) {
		int on = 1, fd = ring[k].fd = need(socket(AF_PACKET, SOCK_RAW, 0));
		/* What goes past the queueing discipline must not need segmentation. */
		if (rings)
			need(setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof on));
		int bytes = 1 << 24;
		need(setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes));
		if (rings) {
			int version = TPACKET_V2;
			struct tpacket_req request = {SLOT * 32, SLOTS / 32, SLOT, SLOTS};
			need(setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof version));
			need(setsockopt(fd, SOL_PACKET, PACKET_TX_RING, &request, sizeof request));
			ring[k].slots = mmap(NULL, SLOTS * SLOT, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
			if (ring[k].slots == MAP_FAILED)
				fail("ring");
		} else {
			need(setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on));
		}
		struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_ifindex = s->out[k]};
		need(bind(fd, (void *)&at, sizeof at));
	}
	for (int i = 0; i < s->receiver_count; i++)
		make_headers(&headers[i], &s->receivers[i]);
}

void start_rings(struct setup *s)
{
	open_devices(s, true);
}

void start_super(struct setup *s)
{
	open_devices(s, false);
}

static void send_rings(struct setup *s)
{
	for (int k = 0; k < s->devices_used; k++, s->calls++)
		send(ring[k].fd, NULL, 0, MSG_DONTWAIT);
}

int by_rings(struct setup *s)
{
	int got = receive_source(packets);
	for (int j = 0; j < got; j++)
		for (int i = 0; i < s->receiver_count; i++) {
			int k = s->device_of[i];
			struct tpacket2_hdr *slot = (void *)(ring[k].slots + (ring[k].at++ % SLOTS) * SLOT);
			uint8_t *to = (uint8_t *)slot + TPACKET_ALIGN(sizeof *slot);
			while (__atomic_load_n(&slot->tp_status, __ATOMIC_ACQUIRE) != TP_STATUS_AVAILABLE)
				send_rings(s);
			memcpy(to, &headers[i], HEADERS);
			memcpy(to + HEADERS, packets[j], PAYLOAD);
			slot->tp_len = FRAME;
			__atomic_store_n(&slot->tp_status, TP_STATUS_SEND_REQUEST, __ATOMIC_RELEASE);
		}
	send_rings(s);
	return got;
}

int by_super(struct setup *s)
{
	int got = receive_source(packets);
	if (!got)
		return 0;
	for (int i = 0; i < s->receiver_count; i++) {
		struct headers *h = &super[i].headers;
		*h = headers[i];
		h->length = htons(28 + got * PAYLOAD);
		h->udp_length = htons(8 + got * PAYLOAD);
		uint32_t sum = 0x4500 + 28 + got * PAYLOAD + 0x4011;
		const uint16_t *words = (void *)&h->src;
		for (int j = 0; j < 4; j++)
			sum += ntohs(words[j]);
		uint32_t pseudo = sum - 0x4500 - 28 - 0x4011 + 8 + 17;
		h->check = ~htons((sum & 0xffff) + (sum >> 16));
		h->udp_check = htons((pseudo & 0xffff) + (pseudo >> 16));
		super[i].offload = (struct virtio_net_hdr){VIRTIO_NET_HDR_F_NEEDS_CSUM, VIRTIO_NET_HDR_GSO_UDP_L4, HEADERS, PAYLOAD,
							   34, 6};
		pieces[i][0] = (struct iovec){&super[i], sizeof super[i].offload + HEADERS};
		for (int j = 0; j < got; j++)
			pieces[i][j + 1] = (struct iovec){packets[j], PAYLOAD};
		messages[i].msg_hdr = (struct msghdr){.msg_iov = pieces[i], .msg_iovlen = got + 1};
	}
	for (int i = 0, next; i < s->receiver_count; i = next) {
		for (next = i; next < s->receiver_count && s->device_of[next] == s->device_of[i];)
			next++;
		for (int done = i; done < next; s->calls++)
			done += need(sendmmsg(ring[s->device_of[i]].fd, messages + done, next - done, 0));
	}
	return got;
}

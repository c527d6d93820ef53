/* Receivers, the source, and one turn of source and system. */
#include "fanout.h"
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/socket.h>

static uint32_t sum_of(const void *data, int bytes, uint32_t sum)
{
	for (const uint8_t *p = data; bytes > 1; p += 2, bytes -= 2) {
		uint16_t word;
		memcpy(&word, p, 2);
		sum += word;
	}
	return sum;
}

static uint16_t fold(uint32_t sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return sum + (sum >> 16);
}

static void headers_of_source(struct headers *h)
{
	static const uint8_t box[6] = {2, 0, 0, 0, 0, 1}, source[6] = {2, 0, 0, 0, 0, 2};
	memset(h, 0, sizeof *h);
	memcpy(h->to, box, 6);
	memcpy(h->from, source, 6);
	h->type = htons(0x0800);
	h->version = 0x45;
	h->length = htons(FRAME - 14);
	h->ttl = 64;
	h->protocol = 17;
	h->src = htonl(0x0a000001);
	h->dst = htonl(0x0a000002);
	h->check = ~fold(sum_of(&h->version, 20, 0));
	h->sport = h->dport = htons(5004);
	h->udp_length = htons(PAYLOAD + 8);
}

static uint32_t pseudo(const struct headers *h)
{
	return sum_of(&h->src, 8, 0) + h->sport + h->dport;
}

void make_headers(struct headers *h, const struct receiver *r)
{
	static const uint8_t from[4] = {2, 0, 0, 2};
	headers_of_source(h);
	memcpy(h->to, r->mac, 6);
	memcpy(h->from, from, 4);
	h->from[4] = r->mac[4];
	h->from[5] = 1;
	h->src = htonl((ntohl(r->address) & ~0xffu) | 1);
	h->dst = r->address;
	h->check = 0;
	h->check = ~fold(sum_of(&h->version, 20, 0));
	h->dport = r->port;
}

void make_receivers(struct setup *s, int count)
{
	s->receiver_count = count;
	s->devices_used = count <= EACH ? 1 : count <= 2 * EACH ? 2 : DEVICES;
	s->each = (count + s->devices_used - 1) / s->devices_used;
	struct headers source;
	headers_of_source(&source);
	memset(s->receivers, 0, sizeof s->receivers);
	for (int i = 0; i < count; i++) {
		struct receiver *r = &s->receivers[i];
		int k = i / s->each, host = i % s->each + 2;
		uint8_t mac[6] = {2, 0, 0, 1, k, host};
		memcpy(r->mac, mac, 6);
		r->address = htonl(0x0a010000 | k << 8 | host);
		r->port = htons(5004);
		r->device = s->out[k];
		s->device_of[i] = k;
		struct headers h;
		make_headers(&h, r);
		r->ip_check = h.check;
		r->udp_delta = fold(pseudo(&h) + (uint16_t)~fold(pseudo(&source)));
	}
}

static uint8_t frame[FRAME];
static int first_receiver;

void open_first_receiver(void)
{
	enter("fan-sink");
	struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons(5004)};
	int bytes = 1 << 24;
	first_receiver = need(socket(AF_INET, SOCK_DGRAM, 0));
	need(setsockopt(first_receiver, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes));
	need(bind(first_receiver, (void *)&own, sizeof own));
}

int got_by_first_receiver(void)
{
	uint8_t packet[2048];
	int count = 0;
	while (recv(first_receiver, packet, sizeof packet, MSG_DONTWAIT) == PAYLOAD)
		count += !memcmp(packet, frame + HEADERS, PAYLOAD);
	return count;
}

void make_source(struct setup *s)
{
	struct headers *h = (void *)frame;
	headers_of_source(h);
	uint8_t *payload = (void *)(h + 1);
	for (int i = 0; i < PAYLOAD; i++)
		payload[i] = i * 7 + (i >> 8);
	h->udp_check = ~fold(sum_of(payload, PAYLOAD, pseudo(h) + htons(17) + 2 * h->udp_length));
	enter("fan-source");
	s->source = need(socket(AF_PACKET, SOCK_RAW, 0));
	struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_ifindex = if_nametoindex("s")};
	need(bind(s->source, (void *)&at, sizeof at));
	int on = 1;
	need(setsockopt(s->source, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof on));
	s->batch = 250 / s->each;
	s->batch = s->batch > 32 ? 32 : s->batch;
}

void step(struct setup *s, const struct system *system)
{
	static struct mmsghdr messages[64];
	static struct iovec piece = {frame, FRAME};
	int count = system->batch ? system->batch : s->batch;
	for (int i = 0; i < count; i++)
		messages[i].msg_hdr = (struct msghdr){.msg_iov = &piece, .msg_iovlen = 1};
	uint64_t arrived = s->counts[COUNTS];
	if (need(sendmmsg(s->source, messages, count, 0)) != count)
		fail("source");
	uint64_t expected = (uint64_t)count * (system->fans ? s->receiver_count : 1);
	for (int fanned = 0, i = 0; system->fan_out && fanned < count && i < 1000; i++) {
		fanned += system->fan_out(s);
		if (fanned < count)
			sched_yield();
	}
	s->sent += expected;
	/* What is left to the kernel's threads gets the CPU now. */
	for (int i = 0; i < 30 && s->counts[COUNTS] - arrived < expected; i++)
		sched_yield();
	if (s->counts[COUNTS] - arrived < expected)
		s->lost += expected - (s->counts[COUNTS] - arrived);
}

int send_bursts(struct setup *s)
{
	struct {
		struct headers headers;
		uint8_t unused[2];
		uint32_t device;
	} sample;
	uint32_t zero = 0;
	memcpy(&sample.headers, frame, HEADERS);
	enter("fan-source");
	sample.device = if_nametoindex("s");
	set(map_fd(&s->object, "sample"), &zero, &sample);
	struct xdp_md context = {.data_end = FRAME, .ingress_ifindex = sample.device};
	int program = load(&s->object, "burst", BPF_PROG_TYPE_XDP, BPF_XDP, 0);
	union bpf_attr attr = {.test = {.prog_fd = program, .data_in = (uintptr_t)frame, .data_size_in = FRAME,
					.ctx_in = (uintptr_t)&context, .ctx_size_in = sizeof context, .repeat = 64 * 200,
					.flags = BPF_F_TEST_XDP_LIVE_FRAMES, .batch_size = 64}};
	if (bpf(BPF_PROG_TEST_RUN, &attr))
		fail("test run");
	return attr.test.repeat;
}

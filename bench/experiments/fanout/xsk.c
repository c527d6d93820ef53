/* Fan-out by AF_XDP: a frame for each receiver, or a header for each and one payload that all descriptors name. */
#include "fanout.h"
#include "../common/xsk.h"

#define CHUNK 2048
#define CHUNKS 16384
#define SLOT 64 /* of a header */
#define SLOTS 65536
#define RECEIVED 1024

static uint8_t *region;
static struct xsk in, out[DEVICES];
static uint64_t chunks[CHUNKS], slots[SLOTS];
static int chunk_count, slot_count;
static int holders[CHUNKS];
static struct headers headers[MOST];

static void start(struct setup *s, int budget)
{
	size_t bytes = (size_t)CHUNK * CHUNKS;
	region = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (region == MAP_FAILED)
		fail("region");
	open_xsk(&in, s->in, region, bytes, CHUNK, NULL);
	set_word(map_fd(&s->object, "sockets"), 0, in.fd);
	attach(load(&s->object, "receive", BPF_PROG_TYPE_XDP, BPF_XDP, 1 << 5), s->in, BPF_XDP, DRIVER_MODE);
	for (int k = 0; k < s->devices_used; k++) {
		open_xsk(&out[k], s->out[k], region, bytes, CHUNK, &in);
		if (budget)
			need(setsockopt(out[k].fd, SOL_XDP, MAX_TX_SKB_BUDGET, &budget, sizeof budget));
	}
	/* Chunks for what is received, then slots of headers, then copies. */
	int at = 0;
	for (; at < RECEIVED; at++)
		push_fill(&in, (uint64_t)at * CHUNK);
	for (int i = 0; i < SLOTS; i++)
		slots[slot_count++] = (uint64_t)at * CHUNK + (uint64_t)i * SLOT;
	for (at += SLOTS * SLOT / CHUNK; at < CHUNKS; at++)
		chunks[chunk_count++] = (uint64_t)at * CHUNK;
	for (int i = 0; i < s->receiver_count; i++)
		make_headers(&headers[i], &s->receivers[i]);
}

void start_xsk(struct setup *s)
{
	start(s, 0);
}

void start_xsk_budget(struct setup *s)
{
	start(s, 1024);
}

static void write_header(uint8_t *at, struct setup *s, int receiver, uint16_t check)
{
	struct headers *h = (void *)at;
	uint32_t sum = (uint16_t)~check + s->receivers[receiver].udp_delta;
	memcpy(h, &headers[receiver], HEADERS);
	sum = (sum & 0xffff) + (sum >> 16);
	h->udp_check = ~(uint16_t)(sum + (sum >> 16));
}

static void let_go(uint64_t address)
{
	int chunk = address / CHUNK;
	if (!--holders[chunk])
		push_fill(&in, (uint64_t)chunk * CHUNK);
}

/* Sends what was pushed, and takes back what the kernel is done with. */
static void flush(struct setup *s)
{
	for (int k = 0; k < s->devices_used; k++) {
		struct xsk *x = &out[k];
		s->calls += kick(x);
		for (uint32_t left = completed(x); left; left--) {
			uint64_t address = pop_completed(x);
			if (address < (uint64_t)RECEIVED * CHUNK)
				let_go(address);
			else if (address < (uint64_t)RECEIVED * CHUNK + SLOTS * SLOT)
				slots[slot_count++] = address;
			else
				chunks[chunk_count++] = address;
		}
		free_completed(x);
	}
}

int by_xsk_copies(struct setup *s)
{
	struct xdp_desc packet;
	int got = 0;
	for (; pop_received(&in, &packet); got++) {
		uint8_t *from = region + packet.addr;
		uint16_t check = ((struct headers *)from)->udp_check;
		for (int i = 0; i < s->receiver_count; i++) {
			uint64_t to = chunks[--chunk_count];
			struct xsk *x = &out[s->device_of[i]];
			memcpy(region + to + HEADERS, from + HEADERS, PAYLOAD);
			write_header(region + to, s, i, check);
			push_desc(x, to, FRAME, 0);
			if (tx_room(x) < 2 || chunk_count < 2)
				flush(s);
		}
		push_fill(&in, packet.addr / CHUNK * CHUNK);
	}
	flush(s);
	return got;
}

int by_xsk_shared(struct setup *s)
{
	struct xdp_desc packet;
	int got = 0;
	for (; pop_received(&in, &packet); got++) {
		uint16_t check = ((struct headers *)(region + packet.addr))->udp_check;
		holders[packet.addr / CHUNK] = s->receiver_count;
		for (int i = 0; i < s->receiver_count; i++) {
			uint64_t to = slots[--slot_count];
			struct xsk *x = &out[s->device_of[i]];
			write_header(region + to, s, i, check);
			push_desc(x, to, HEADERS, CONTINUED);
			push_desc(x, packet.addr + HEADERS, PAYLOAD, 0);
			if (tx_room(x) < 2 || slot_count < 2)
				flush(s);
		}
	}
	flush(s);
	return got;
}

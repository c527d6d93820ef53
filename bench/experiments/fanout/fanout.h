/* The network of the fan-out experiment as its systems see it, and the systems. */
#ifndef FANOUT_H
#define FANOUT_H

#include "../common/load.h"
#include "../common/packet.h"
#include "../common/util.h"
#include <arpa/inet.h>

#define DEVICES 16
#define EACH 63 /* most receivers of a device: four packets to each fit in a veth's ring of 256 */
#define COUNTS 4096
#define MOST 1000

struct setup {
	struct object object;
	volatile uint64_t *counts; /* by address; then all */
	bool usual;		   /* links as the kernel sets them up */
	int in, out[DEVICES];	   /* the box's devices */
	int receiver_count, devices_used, each;
	struct receiver receivers[MOST + 1];
	int device_of[MOST];
	int batch; /* packets of the source at a time */
	int source;
	uint64_t sent, lost, calls;
};

/* A system takes what has come in and sends it to all receivers; it returns how many packets have come in. */
struct system {
	const char *name;
	void (*start)(struct setup *);
	int (*fan_out)(struct setup *);
	bool fans;
	int batch; /* packets of the source at a time, 0: as many as rings hold */
};

extern const struct system systems[];

void make_receivers(struct setup *s, int count);
void make_source(struct setup *s);

/* Sends packets of the source in bursts of 64, so that as many are in a poll; returns how many. */
int send_bursts(struct setup *s);
void step(struct setup *s, const struct system *system);

/* A socket of the first receiver, and how many right packets it has got: the kernel has checked their checksums. */
void open_first_receiver(void);
int got_by_first_receiver(void);

/* A packet's headers for a receiver, but for the UDP checksum. */
void make_headers(struct headers *h, const struct receiver *r);

/* Packets that have come in to the UDP socket, at most 32. */
int receive_source(uint8_t packets[32][2048]);
void start_sendmmsg(struct setup *s);
int by_sendmmsg(struct setup *s);
int by_sendmmsg_gso(struct setup *s);
void start_packet(struct setup *s);
int by_packet(struct setup *s);
void start_rings(struct setup *s);
int by_rings(struct setup *s);
void start_super(struct setup *s);
int by_super(struct setup *s);
void start_xsk(struct setup *s);
void start_xsk_budget(struct setup *s);
int by_xsk_copies(struct setup *s);
int by_xsk_shared(struct setup *s);

#endif

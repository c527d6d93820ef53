/* An L3 switch in C, by hand: the peers that Millrace's compiled apps/l3switch is measured against. They do the same
 * work on the same batches, over the same tables: straight.c packet by packet, staged.c over the batch, dpdk.c as that
 * with DPDK's look-up of routes. `L3` puts the build's name in front of a symbol, so that builds for several processors
 * fit into one program. */
#ifndef L3_H
#define L3_H

#define L3_JOIN(build, name) l3_##build##_##name
#define L3_EXPAND(build, name) L3_JOIN(build, name)
#define L3(name) L3_EXPAND(L3_BUILD, name)
#define hash_init L3(hash_init)
#define hash_free L3(hash_free)
#define hash_put L3(hash_put)
#define table_memory L3(table_memory)

#include "hash.h"

#define MAX_BATCH 64
#define NEXT_HOPS 65536
#define FIB_GROUP (1u << 31)

/* codegen::abi, as the data plane lays it out. */
struct output {
	uint32_t frame, end;
};
enum { END_TX, END_HOST };
struct context {
	uint8_t *region, *descriptors;
	uint64_t *counters;
	uint8_t *const *tables;
	uint32_t *free;
	struct output *outputs;
	uint32_t free_len, output_len;
	uint64_t frame_size, now; /* in ns */
};
struct descriptor {
	uint64_t addr;
	uint32_t len, frame;
	uint32_t rest, held; /* not used here: all bytes of a packet are in its frame */
	uint8_t rx_port, tx_port; /* the metadata that is the data plane's */
	uint8_t unused[38];
};
_Static_assert(sizeof(struct descriptor) == 64, "one cache line each");

/* Ethernet addresses are kept as the low 48 bits of a little-endian load, so that they need no swapping. */
struct port {
	uint64_t mac; /* the router's on this port; 0: none */
	uint8_t domain;
};
struct next_hop {
	uint32_t gateway; /* 0: directly connected */
	uint8_t domain;
	uint64_t src;
};
struct fdb { /* of a station */
	uint8_t port;
	uint32_t heard; /* second in which a frame came from there; 0: set, not learned */
};
struct fib { /* DIR-24-8 */
	uint32_t *tbl24, *tbl8, default_slot, groups;
	uint8_t *depth24, *depth8;
};

enum reason {
	NONE, TRUNCATED, NO_DOMAIN, GROUP_SOURCE, BAD_VERSION, BAD_HEADER_LENGTH, BAD_TOTAL_LENGTH, BAD_CHECKSUM,
	MARTIAN_SOURCE, MARTIAN_DESTINATION, NO_NEXT_HOP, LINK_LOCAL, SAME_PORT, TOO_BIG, NOWHERE_TO_FLOOD, REASONS
};
struct counters {
	uint64_t rx[256], tx[256], host, drops[REASONS];
};

struct l3_config {
	uint32_t neighbours, stations, local_addrs, groups;
};

struct l3 {
	struct l3_config config;
	struct fib fib;
	struct hash stations, neighbours, local_addrs;
	struct counters counters;
	struct port ports[256];
	uint64_t members[256];
	uint32_t mtu[256]; /* of each port; 0: there is none */
	struct next_hop next_hops[NEXT_HOPS];
	struct rte_lpm *dpdk; /* the routes once more, where they are looked up there */
};

/* Domain and address of a station, in 56 bits. */
static inline uint64_t station_key(uint8_t domain, uint64_t mac) { return (uint64_t)domain << 48 | mac; }

/* An FDB entry as a hash table's value. */
static inline struct fdb fdb_of(uint64_t value) { return (struct fdb){ (uint8_t)value, value >> 32 }; }
static inline uint64_t fdb_value(struct fdb fdb) { return fdb.port | (uint64_t)fdb.heard << 32; }

/* Memory for a table, zero, in large pages where there are any; NULL: none. */
void *table_memory(size_t bytes);

typedef void run(struct l3 *s, struct context *ctx, const uint32_t *frames, uint32_t n);
run L3(run_staged), L3(run_straight), L3(run_dpdk);

/* Makes DPDK's table of the routes; false: no memory. */
bool L3(dpdk_fill)(struct l3 *s);
void L3(dpdk_free)(struct l3 *s);

/* What the bench calls. Those that fill tables give false where one is full or a number out of range. */
struct l3_functions {
	run *staged, *straight, *dpdk; /* dpdk: NULL where DPDK's headers were not there */
	struct l3 *(*new)(const struct l3_config *config); /* NULL: no memory */
	void (*free)(struct l3 *s);
	void (*port)(struct l3 *s, uint8_t port, uint8_t domain, uint64_t mac);
	void (*members)(struct l3 *s, uint8_t domain, uint64_t ports);
	bool (*next_hop)(struct l3 *s, uint32_t index, uint8_t domain, uint32_t gateway, uint64_t src);
	bool (*route)(struct l3 *s, uint32_t prefix, uint8_t len, uint32_t next_hop);
	bool (*neighbour)(struct l3 *s, uint32_t address, uint64_t mac);
	bool (*local)(struct l3 *s, uint32_t address);
	bool (*station)(struct l3 *s, uint8_t domain, uint64_t mac, uint8_t port);
	/* When all routes are there; before `dpdk`. */
	bool (*dpdk_fill)(struct l3 *s);
	const struct counters *(*counters)(const struct l3 *s);
	/* Key and value of the station with this number; false: there are no more. */
	bool (*station_at)(const struct l3 *s, uint32_t number, struct entry *to);
};
extern const struct l3_functions L3(functions);

#endif

/* The control plane's side of the C peers: allocation, insertion. Nothing here is on the measured path but the
 * insertion of a station that is not known yet. */
#include "l3.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

void *table_memory(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return NULL;
	madvise(at, bytes, MADV_HUGEPAGE);
	return at;
}

static size_t bucket_bytes(const struct hash *h) { return ((size_t)h->mask + 1) * sizeof *h->buckets; }

bool hash_init(struct hash *h, uint32_t capacity)
{
	uint32_t buckets = 1;
	while (capacity > SLOTS && buckets < capacity / 3)
		buckets *= 2;
	*h = (struct hash){ .mask = buckets - 1, .capacity = capacity };
	h->buckets = table_memory(bucket_bytes(h));
	h->entries = table_memory(capacity * sizeof *h->entries);
	if (getrandom(h->seed, sizeof h->seed, 0) != sizeof h->seed)
		return false;
	h->seed[1] |= 1;
	return h->buckets && h->entries;
}

void hash_free(struct hash *h)
{
	if (h->buckets)
		munmap(h->buckets, bucket_bytes(h));
	if (h->entries)
		munmap(h->entries, h->capacity * sizeof *h->entries);
}

static unsigned bucket_len(const struct bucket *b)
{
	unsigned len = 0;
	for (int i = 0; i < SLOTS; i++)
		len += b->entries[i] != 0;
	return len;
}

bool hash_put(struct hash *h, uint64_t key, uint64_t value)
{
	uint64_t hash = hash_of(h, key);
	struct entry *known = hash_find(h, hash, key);
	if (known) {
		known->value = value;
		return true;
	}
	if (h->used >= h->capacity)
		return false;
	struct bucket *first = hash_first(h, hash), *second = hash_second(h, hash), *b = first;
	if (bucket_len(first) >= PREFER_FIRST && bucket_len(second) < bucket_len(first))
		b = second;
	for (int i = 0; i < SLOTS; i++) {
		if (b->entries[i])
			continue;
		h->entries[h->used] = (struct entry){ key, value };
		b->tags[i] = hash >> 48;
		b->entries[i] = ++h->used;
		first->spilled += b != first;
		return true;
	}
	return false;
}

static void destroy(struct l3 *s)
{
#ifdef HAVE_DPDK
	L3(dpdk_free)(s);
#endif
	void *maps[] = { s->fib.tbl24, s->fib.depth24, s->fib.tbl8, s->fib.depth8 };
	size_t groups = (size_t)s->config.groups * 256;
	size_t bytes[] = { sizeof(uint32_t) << 24, 1 << 24, groups * sizeof(uint32_t), groups };
	for (int i = 0; i < 4; i++)
		if (maps[i])
			munmap(maps[i], bytes[i]);
	hash_free(&s->neighbours);
	hash_free(&s->stations);
	hash_free(&s->local_addrs);
	free(s);
}

static struct l3 *new(const struct l3_config *config)
{
	struct l3 *s = aligned_alloc(64, (sizeof *s + 63) / 64 * 64);
	if (!s)
		return NULL;
	memset(s, 0, sizeof *s);
	s->config = *config;
	s->fib.tbl24 = table_memory(sizeof(uint32_t) << 24);
	s->fib.depth24 = table_memory(1 << 24);
	s->fib.tbl8 = table_memory((size_t)config->groups * 256 * sizeof(uint32_t));
	s->fib.depth8 = table_memory((size_t)config->groups * 256);
	bool ok = s->fib.tbl24 && s->fib.depth24 && s->fib.tbl8 && s->fib.depth8;
	ok = hash_init(&s->neighbours, config->neighbours) && ok;
	ok = hash_init(&s->stations, config->stations) && ok;
	ok = hash_init(&s->local_addrs, config->local_addrs) && ok;
	if (!ok) {
		destroy(s);
		return NULL;
	}
	return s;
}

static void port(struct l3 *s, uint8_t port, uint8_t domain, uint64_t mac)
{
	s->ports[port].domain = domain;
	s->ports[port].mac = mac;
	s->mtu[port] = 1500;
}

static void members(struct l3 *s, uint8_t domain, uint64_t ports) { s->members[domain] = ports; }

static bool next_hop(struct l3 *s, uint32_t index, uint8_t domain, uint32_t gateway, uint64_t src)
{
	if (index >= NEXT_HOPS)
		return false;
	s->next_hops[index] = (struct next_hop){ .gateway = gateway, .domain = domain, .src = src };
	return true;
}

/* Routes may come in any order: a slot belongs to the longest prefix so far. */
static bool route(struct l3 *s, uint32_t prefix, uint8_t len, uint32_t next_hop)
{
	struct fib *f = &s->fib;
	uint32_t value = next_hop + 1;
	if (value == 0 || value >= FIB_GROUP || len > 32)
		return false;
	if (len == 0) {
		f->default_slot = value;
		return true;
	}
	uint32_t last = prefix | (uint32_t)(0xffffffffull >> len);
	for (uint32_t i = prefix >> 8; i <= last >> 8; i++) {
		if (len > 24 && !(f->tbl24[i] & FIB_GROUP)) {
			if (f->groups == s->config.groups)
				return false;
			for (int j = 0; j < 256; j++) {
				f->tbl8[f->groups * 256 + j] = f->tbl24[i];
				f->depth8[f->groups * 256 + j] = f->depth24[i];
			}
			f->tbl24[i] = FIB_GROUP | f->groups++;
		}
		if (!(f->tbl24[i] & FIB_GROUP)) {
			if (f->depth24[i] <= len) {
				f->tbl24[i] = value;
				f->depth24[i] = len;
			}
			continue;
		}
		uint32_t group = (f->tbl24[i] & ~FIB_GROUP) * 256;
		for (uint32_t j = len > 24 ? prefix & 255 : 0; j <= (len > 24 ? last & 255 : 255); j++)
			if (f->depth8[group + j] <= len) {
				f->tbl8[group + j] = value;
				f->depth8[group + j] = len;
			}
	}
	return true;
}

static bool neighbour(struct l3 *s, uint32_t address, uint64_t mac) { return hash_put(&s->neighbours, address, mac); }
static bool local(struct l3 *s, uint32_t address) { return hash_put(&s->local_addrs, address, 1); }
static bool station(struct l3 *s, uint8_t domain, uint64_t mac, uint8_t port)
{
	return hash_put(&s->stations, station_key(domain, mac), fdb_value((struct fdb){ port, 0 }));
}

static bool station_at(const struct l3 *s, uint32_t number, struct entry *to)
{
	if (number >= s->stations.used)
		return false;
	*to = s->stations.entries[number];
	return true;
}

static const struct counters *counters(const struct l3 *s) { return &s->counters; }

const struct l3_functions L3(functions) = {
	.staged = L3(run_staged), .straight = L3(run_straight), .new = new, .free = destroy, .port = port,
	.members = members, .next_hop = next_hop, .route = route, .neighbour = neighbour, .local = local,
	.station = station, .counters = counters, .station_at = station_at,
#ifdef HAVE_DPDK
	.dpdk = L3(run_dpdk), .dpdk_fill = L3(dpdk_fill),
#endif
};

/* Exact match, keys of up to 64 bits: two-choice hashing into buckets of one cache line, as in the data plane's tables.
 * A bucket holds eight tags and eight entry numbers; keys and values lie in entries. The hash is keyed at random, so
 * that nobody can choose stations that collide. */
#ifndef L3_HASH_H
#define L3_HASH_H

#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SLOTS 8
#define PREFER_FIRST 4

struct bucket {
	uint16_t tags[SLOTS];
	uint32_t entries[SLOTS]; /* number + 1; 0: empty */
	uint32_t spilled;	 /* keys that have this as their first bucket and lie in their second */
} __attribute__((aligned(64)));

struct entry {
	uint64_t key, value;
};

struct hash {
	struct bucket *buckets;
	struct entry *entries;
	uint32_t mask, used, capacity;
	uint64_t seed[2];
};

/* Folded multiplication, as in wyhash and aHash's fallback. */
static inline uint64_t hash_of(const struct hash *h, uint64_t key)
{
	__uint128_t product = (__uint128_t)(key ^ h->seed[0]) * h->seed[1];
	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline struct bucket *hash_first(const struct hash *h, uint64_t hash)
{
	return &h->buckets[(uint32_t)hash & h->mask];
}

static inline struct bucket *hash_second(const struct hash *h, uint64_t hash)
{
	return &h->buckets[(uint32_t)(hash >> 24) & h->mask];
}

static inline struct entry *hash_in(const struct hash *h, const struct bucket *b, uint64_t hash, uint64_t key)
{
	__m128i tags = _mm_load_si128((const __m128i *)b->tags);
	uint32_t same = _mm_movemask_epi8(_mm_cmpeq_epi16(tags, _mm_set1_epi16((short)(hash >> 48))));
	while (same) {
		uint32_t bit = __builtin_ctz(same), number = b->entries[bit / 2];
		if (number && h->entries[number - 1].key == key)
			return &h->entries[number - 1];
		same &= same - 1;
		same &= same - 1; /* two bits per tag */
	}
	return NULL;
}

static inline struct entry *hash_find(const struct hash *h, uint64_t hash, uint64_t key)
{
	const struct bucket *first = hash_first(h, hash);
	struct entry *found = hash_in(h, first, hash, key);
	if (__builtin_expect(!found && first->spilled, 0))
		found = hash_in(h, hash_second(h, hash), hash, key);
	return found;
}

bool hash_init(struct hash *h, uint32_t capacity);
void hash_free(struct hash *h);
/* Inserts or replaces; false where the table is full. */
bool hash_put(struct hash *h, uint64_t key, uint64_t value);

#endif

/* The staged C peer: see staged.h. */
#include "packet.h"

static inline void expect_route(const struct l3 *s, uint32_t address)
{
	__builtin_prefetch(&s->fib.tbl24[address >> 8]);
}

static inline void find_routes(const struct l3 *s, const uint32_t *addresses, uint32_t *found, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t slot = found[i] = s->fib.tbl24[addresses[i] >> 8];
		if (unlikely(slot & FIB_GROUP))
			__builtin_prefetch(&s->fib.tbl8[(slot & ~FIB_GROUP) * 256 + (addresses[i] & 255)]);
	}
}

static inline uint32_t found_route(const struct l3 *s, uint32_t found, uint32_t address)
{
	return route_of(&s->fib, found, address);
}

#define STAGED L3(run_staged)
#include "staged.h"

/* The staged C peers' order of work. A batch goes through in four passes, so that the memory that one pass needs was
 * prefetched by the pass before for all packets of the batch: parse; learn and validate; forward; deliver.
 *
 * Who includes it says how routes are looked up: `expect_route` when an address is seen; `find_routes` for the
 * addresses of a batch, which gives a number for each; `found_route`, which makes a slot of the peer's table of that
 * number. */
#include "packet.h"

void STAGED(struct l3 *s, struct context *ctx, const uint32_t *frames, uint32_t n)
{
	struct work work[MAX_BATCH];
	uint8_t routed[MAX_BATCH];
	uint32_t addresses[MAX_BATCH], found[MAX_BATCH], routes = 0, now = now_s(ctx);

	for (uint32_t i = 0; i < n; i++) {
		struct work *w = &work[i];
		parse(s, ctx, frames[i], w);
		if (unlikely(w->reason))
			continue;
		w->hash = hash_of(&s->stations, w->key);
		__builtin_prefetch(hash_first(&s->stations, w->hash));
		if (w->routed) {
			addresses[routes] = destination(w->p);
			expect_route(s, addresses[routes]);
			routed[routes++] = i;
		}
	}

	for (uint32_t i = 0; i < n; i++) {
		struct work *w = &work[i];
		if (unlikely(w->reason))
			continue;
		learn(s, w, now);
		if (w->routed) {
			w->reason = validate(w->p + ETHER, w->d->len - ETHER);
		} else {
			bridge_to(s, w, dst_mac(w->p));
			__builtin_prefetch(hash_first(&s->stations, w->hash));
		}
	}
	find_routes(s, addresses, found, routes);

	for (uint32_t r = 0; r < routes; r++) {
		struct work *w = &work[routed[r]];
		if (unlikely(w->reason))
			continue;
		forward(s, w, found_route(s, found[r], addresses[r]));
		__builtin_prefetch(hash_first(&s->stations, w->hash));
	}

	for (uint32_t i = 0; i < n; i++)
		deliver(s, ctx, &work[i]);
}

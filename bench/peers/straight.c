/* The straightforward C peer: each packet runs to completion before the next one begins. */
#include "packet.h"

void L3(run_straight)(struct l3 *s, struct context *ctx, const uint32_t *frames, uint32_t n)
{
	uint32_t now = now_s(ctx);
	for (uint32_t i = 0; i < n; i++) {
		struct work w;
		parse(s, ctx, frames[i], &w);
		if (likely(!w.reason)) {
			w.hash = hash_of(&s->stations, w.key);
			learn(s, &w, now);
			if (w.routed) {
				uint32_t dst = destination(w.p);
				w.reason = validate(w.p + ETHER, w.d->len - ETHER);
				if (likely(!w.reason))
					forward(s, &w, route_of(&s->fib, s->fib.tbl24[dst >> 8], dst));
			} else {
				bridge_to(s, &w, dst_mac(w.p));
			}
		}
		deliver(s, ctx, &w);
	}
}

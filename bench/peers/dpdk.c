/* The staged C peer with DPDK's rte_lpm bulk look-up in place of its own: see staged.h. Built where DPDK's headers are.
 *
 * The look-up is DPDK's own code. The table is not filled by rte_lpm_add, which compares a prefix with all others of
 * its length, more than a minute for a million of them: it is converted from the peer's own, which has the same form,
 * and lies in memory of the same kind. A next hop is a slot of the peer's table; it has 24 bits. rte_lpm looks a batch
 * up in one call and prefetches nothing: its loads do not wait for each other. */
#include "packet.h"

#include <rte_lpm.h>
#include <sys/mman.h>

static inline void expect_route(const struct l3 *s, uint32_t address) { (void)s, (void)address; }

/* Eight at a time, as rte_lpm_lookup_bulk wants it: a constant number. */
static inline void find_routes(const struct l3 *s, const uint32_t *addresses, uint32_t *found, uint32_t n)
{
	uint32_t i = 0;
	for (; i + 8 <= n; i += 8)
		rte_lpm_lookup_bulk(s->dpdk, addresses + i, found + i, 8);
	for (; i < n; i++)
		rte_lpm_lookup_bulk(s->dpdk, addresses + i, found + i, 1);
}

static inline uint32_t found_route(const struct l3 *s, uint32_t found, uint32_t address)
{
	(void)address;
	return likely(found & RTE_LPM_LOOKUP_SUCCESS) ? found & 0xffffff : s->fib.default_slot;
}

#define STAGED L3(run_dpdk)
#include "staged.h"

static struct rte_lpm_tbl_entry entry(uint32_t slot, uint8_t depth, bool second)
{
	bool group = slot & FIB_GROUP;
	return (struct rte_lpm_tbl_entry){
		.next_hop = slot & ~FIB_GROUP, .valid = slot != 0, .valid_group = group || second, .depth = depth,
	};
}

static size_t groups_bytes(const struct l3 *s)
{
	return (size_t)s->config.groups * 256 * sizeof(struct rte_lpm_tbl_entry);
}

bool L3(dpdk_fill)(struct l3 *s)
{
	struct rte_lpm *lpm = s->dpdk = table_memory(sizeof *lpm);
	if (!lpm)
		return false;
	lpm->tbl8 = table_memory(groups_bytes(s));
	if (!lpm->tbl8)
		return false;
	for (uint32_t i = 0; i < RTE_LPM_TBL24_NUM_ENTRIES; i++)
		if (s->fib.tbl24[i])
			lpm->tbl24[i] = entry(s->fib.tbl24[i], s->fib.depth24[i], false);
	for (uint32_t i = 0; i < s->fib.groups * 256; i++)
		lpm->tbl8[i] = entry(s->fib.tbl8[i], s->fib.depth8[i], true);
	return true;
}

void L3(dpdk_free)(struct l3 *s)
{
	if (!s->dpdk)
		return;
	if (s->dpdk->tbl8)
		munmap(s->dpdk->tbl8, groups_bytes(s));
	munmap(s->dpdk, sizeof *s->dpdk);
}

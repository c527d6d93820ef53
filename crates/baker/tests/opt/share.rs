//! How much of a packet copies need for themselves.

use baker::opt::share::copies;
use baker::opt::{Level, optimise};

use super::compiled;

/// What the copies of the first PPF need, in order; `None`: all. With every level a bound, or none, as without one.
fn of(body: &str) -> Vec<Option<u32>> {
    let program = compiled(&format!(
        "import \"net/ether\";\nimport \"net/ipv4\";\nmodule m {{\n in ether input;\n out ether output;\n out ipv4 inner;\n ppf \
         p(ether_packet_t *pkt) from input {{\n{body}\n}}\n}}\nprogram {{ rx -> m.input; m.output -> tx; m.inner -> n.input; \
         n.output -> tx; }}\nmodule n {{\n in ipv4 input; out ether output;\n ppf q(ipv4_packet_t *ip) from input {{ ip->ttl = 1; \
         channel_put(output, packet_encap(ip)); }}\n}}\n"
    ));
    let found = |program: &baker::ir::Program| -> Vec<Option<u32>> {
        let own = copies(program);
        let insts = program.ppfs[0].body.blocks.iter().flat_map(|block| &block.insts);
        let copies = insts.filter(|inst| matches!(inst.op, baker::ir::Op::Copy { .. }));
        copies.map(|inst| own.of_ppf(0).get(&inst.result.unwrap()).copied()).collect()
    };
    let plain = found(&program);
    for level in Level::ALL {
        for optimised in found(&optimise(&program, level)) {
            let like = |plain: &Option<u32>| match (plain, optimised) {
                // Whole units may be loaded for a part of one.
                (Some(plain), Some(optimised)) => optimised <= plain + 16,
                (plain, optimised) => plain.is_none() && optimised.is_none(),
            };
            assert!(plain.iter().any(like), "{level:?}: {optimised:?} of {plain:?}");
        }
    }
    plain
}

#[test]
fn what_is_only_handed_on_is_shared() {
    assert_eq!(of("channel_put(output, packet_copy(pkt)); channel_put(output, pkt);"), [Some(0)]);
    let reads = "channel_put(output, packet_copy(pkt)); if (pkt->type == 5) { packet_drop(pkt, malformed); return; } \
                 channel_put(output, pkt);";
    assert_eq!(of(reads), [Some(0)], "the original may be read where it is shared");
}

#[test]
fn what_either_writes_is_the_copy_s_own() {
    let copy = "ether_packet_t *copy = packet_copy(pkt);";
    let put = "channel_put(output, copy); channel_put(output, pkt);";
    assert_eq!(of(&format!("{copy} copy->src = 1; {put}")), [Some(12)]);
    assert_eq!(of(&format!("{copy} pkt->type = 1; {put}")), [Some(14)]);
    assert_eq!(of(&format!("{copy} if (copy->type == 9) pkt->dst = 1; {put}")), [Some(14)]);
    // The TTL is byte 22 of the frame, the checksum that follows it ends at 26.
    let inner = "ipv4_packet_t *ip = packet_peek(copy); ip->ttl = 1;";
    assert_eq!(
        of(&format!("ipv4_packet_t *first = packet_peek(pkt); first->ttl = 5; {copy} {inner} {put}")),
        [Some(26)]
    );
}

#[test]
fn a_head_may_move() {
    // The header in front of what was taken off lies over it.
    let inner =
        "ether_packet_t *copy = packet_copy(pkt); channel_put(inner, packet_decap(copy)); channel_put(output, pkt);";
    assert_eq!(of(inner), [Some(26)]);
    let twice =
        "ether_packet_t *copy = packet_copy(pkt); channel_put(inner, packet_decap(pkt)); channel_put(output, copy);";
    assert_eq!(of(twice), [Some(26)]);
}

#[test]
fn copies_of_copies_find_their_bytes_where_the_first_copy_has_them() {
    let body = "ether_packet_t *one = packet_copy(pkt); ether_packet_t *two = packet_copy(one); two->src = 1; \
                one->dst = 2; channel_put(output, two); channel_put(output, one); channel_put(output, pkt);";
    assert_eq!(of(body), [Some(12), Some(12)]);
}

#[test]
fn what_has_no_bound_is_copied() {
    let copy = "ether_packet_t *copy = packet_copy(pkt); u32 at = packet_length(pkt) - 4;";
    let put = "channel_put(output, copy); channel_put(output, pkt);";
    for changes in ["pkt", "copy"] {
        let store = format!("{copy} if (!packet_store({changes}, at, (u32) 1)) copy->dst = 1; {put}");
        assert_eq!(of(&store), [None], "{changes}");
        let grow = format!("{copy} if (!packet_grow_tail({changes}, 4)) copy->dst = 1; {put}");
        assert_eq!(of(&grow), [None], "{changes}");
    }
    let load =
        |from: &str| format!("{copy} u32 *last = packet_load({from}, at); if (last != null) pkt->dst = *last; {put}");
    assert_eq!(of(&load("copy")), [None]);
    assert_eq!(of(&load("pkt")), [Some(6)]);
}

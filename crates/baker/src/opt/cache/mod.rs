//! Packet caching: headers, heads, lengths and metadata of packets are held in registers from where a packet enters a
//! body to where it leaves.
//!
//! ```text
//! v1 = load v0 ether.type              w0 = load_at v0 [0..64]       w1 = load_at v0 [64..112]
//! v2 = pull v0, 14                     w2 = load_at v0 [112..176] …
//! v3 = load v2 ipv4.ttl                …fields are shifts of w0, w1, w2…
//! store v2 ipv4.ttl, v4          →     w3 = w2 & … | v4 << …
//! v5 = push v2, 14
//! store v5 ether.dst, v6               w4 = …
//! put v5 -> m.out                      store_at v0 [0..64], w4; …; put v0 -> m.out
//! ```
//!
//! The body is built anew, block by block, with a abstract state ([`state::AbstractState`]) of each packet: how far the
//! handle's head is from where the packet's head was first, which bytes are in registers, and how long the packet is at
//! least. A block is copied for each abstract state it is reached with, so offsets are constants along every path
//! (static offset resolution); beyond `COPIES` copies the packet is put back into memory and the block works there.
//! So it does after an operation whose place is known at run time only. A computed header length is tested for its
//! expected value (see [`super::expected`]); the test's other side works in memory.
//!
//! Headers are loaded ahead, at the start of an aggregate, behind one test of the packet's length. How far: as far as
//! any path looks within Ethernet's least frame; with a profile, as far as costs its packets least ([`cost`]), of that
//! and all places that a tenth of them look to.
//!
//! Which bytes and metadata may differ from memory where a block begins depends on all edges to it. Copies are built in
//! the order of the original body's blocks, each after those that lead to it, so that is known when a copy is built;
//! but for loops, for which the body is built with an assumption that is widened until it holds.

mod cost;
mod options;
mod packets;
mod report;
mod rewriter;
mod state;
mod window;

use std::collections::{BTreeSet, HashMap};
use std::convert::Infallible;

use self::cost::Cost;
pub use self::options::CacheOptions;
pub use self::report::{Fallback, Reason, Report};
use self::rewriter::{Built, Rewriter, Source};
use super::expected::Expected;
use crate::ir::analysis::{Cfg, Liveness};
use crate::ir::*;
use crate::parallel;

/// Caches in all bodies of the scope.
pub fn cache(program: &Program, options: &CacheOptions) -> (Program, Report) {
    let mut cached = program.clone();
    let mut report = Report::default();
    let all = program.ppfs.iter().enumerate().map(|(index, ppf)| (PpfId(index as u32), &ppf.body));
    let chosen: Vec<(PpfId, &Body)> =
        all.filter(|(id, _)| options.only.as_ref().is_none_or(|only| only.contains(id))).collect();
    let built = |(id, body): &(PpfId, &Body)| Ok::<_, Infallible>((*id, cache_body(program, options, *id, body)));
    let Ok(all) = parallel::each(&chosen, |(_, body)| body.size(), built);
    for (id, (body, own)) in all {
        cached.ppfs[id.0 as usize].body = body;
        report.fallbacks.extend(own.fallbacks);
        report.ahead.extend(own.ahead);
    }
    (cached, report)
}

fn cache_body(program: &Program, options: &CacheOptions, id: PpfId, body: &Body) -> (Body, Report) {
    let (cfg, expected) = (Cfg::new(body), Expected::new(program, body));
    let live = Liveness::new(body, &cfg);
    let source = Source { program, options, id, body, live: &live, expected: &expected, cfg: &cfg };
    let first = source.rebuild(0);
    let candidates = if options.ahead { first.worth_loading() } else { BTreeSet::from([0]) };
    let first = candidates.contains(&0).then_some(first);
    let others = candidates.into_iter().filter(|ahead| *ahead > 0).map(|ahead| source.rebuild(ahead));
    let bodies = first.into_iter().chain(others).map(Rewriter::finish);
    let cheaper = |best: Built, other: Built| {
        if Cost::of(&other.body).compare(&Cost::of(&best.body)).is_lt() { other } else { best }
    };
    let mut best = bodies.reduce(cheaper).expect("at least one way");
    let fallbacks = std::mem::take(&mut best.fallbacks);
    (best.body, Report { fallbacks, ahead: HashMap::from([(id, best.ahead)]) })
}

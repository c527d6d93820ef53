//! Rendezvous hashing: all proxies that know the same names and weights find the same one for a stream, without asking
//! each other, and when one of them goes its streams alone go elsewhere (Thaler and Ravishankar, "Using name-based
//! mappings to increase hit rates", 1998; with weights: Schindelhauer and Schomaker, "Weighted distributed hash
//! tables", 2005).

use std::hash::Hasher;

use siphasher::sip::SipHasher24;

/// What a stream costs at a proxy of a name: the one where it costs least has it, so that each has its weight's share.
pub fn cost(stream: &str, name: &str, weight: u32) -> f64 {
    // SipHash-2-4 with a key of zeros: the same in all versions, on all machines.
    let mut hash = SipHasher24::new();
    hash.write(stream.as_bytes());
    hash.write(&[0]);
    hash.write(name.as_bytes());
    // Between 0 and 1, both excluded.
    let unit = ((hash.finish() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    -unit.ln() / f64::from(weight)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(stream: usize, names: &[(&'static str, u32)]) -> &'static str {
        let cost = |own: &&(&'static str, u32)| cost(&format!("stream {stream}"), own.0, own.1);
        names.iter().min_by(|a, b| cost(a).total_cmp(&cost(b))).unwrap().0
    }

    #[test]
    fn weights_are_shares_and_who_goes_moves_nobody_else() {
        const STREAMS: usize = 12_000;
        let all = [("a", 1), ("b", 2), ("c", 3), ("d", 0)];
        let without: Vec<_> = all.iter().copied().filter(|own| own.0 != "b").collect();
        let mut counts = std::collections::BTreeMap::new();
        for stream in 0..STREAMS {
            let own = of(stream, &all);
            *counts.entry(own).or_insert(0) += 1;
            let then = of(stream, &without);
            assert!(own == "b" || then == own, "{stream} goes from {own} to {then}");
        }
        for (name, share) in [("a", 2000i32), ("b", 4000), ("c", 6000)] {
            assert!((counts[name] - share).abs() < share / 15, "{counts:?}");
        }
        assert_eq!(counts.get("d"), None);
    }

    /// Computed apart from this, by the reference implementation's algorithm in Python: other versions must agree.
    #[test]
    fn it_is_the_same_for_ever() {
        let found = ["edge1", "edge2", "edge3"].map(|name| (cost("hall", name, 1) * 1e6).round());
        assert_eq!(found, EXPECTED);
    }

    const EXPECTED: [f64; 3] = [569_394.0, 1_311_990.0, 377_320.0];
}

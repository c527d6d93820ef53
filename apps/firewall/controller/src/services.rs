//! Classes of ports, and of ports of entry with protocols.

use std::collections::HashMap;

use super::rule::{Range, Rule};

/// Ports of entry that rules can tell apart.
pub const ENTRIES: usize = 64;

/// Ports that the same ranges of the rules hold are one class.
#[derive(Debug)]
pub struct Ports {
    /// The class of each port.
    pub classes: Vec<u16>,
    /// How many there are.
    pub count: u32,
    ranges: HashMap<Range, Vec<u16>>,
}

impl Ports {
    /// For these ranges. Class 0 is that of the ports in none, where there are such.
    pub fn new<'r>(ranges: impl Iterator<Item = &'r Range>) -> Ports {
        let mut ranges: HashMap<Range, Vec<u16>> = ranges.map(|range| (range.clone(), Vec::new())).collect();
        // What is exclusive-or'd where a range begins and behind its end is, at any port, the sum of numbers of the
        // ranges that hold it: sets of ranges differ by it, but for chances of 2^-128.
        let mut changes = vec![0u128; 1 << 16 | 1];
        for range in ranges.keys() {
            let number = number_of(range);
            changes[usize::from(*range.start())] ^= number;
            changes[usize::from(*range.end()) + 1] ^= number;
        }
        let mut known: HashMap<u128, u16> = [(0, 0)].into();
        let (mut set, mut class, mut classes) = (0u128, 0, Vec::with_capacity(1 << 16));
        // Where another class begins.
        let mut starts = Vec::new();
        for (port, change) in changes[..1 << 16].iter().enumerate() {
            set ^= change;
            if port == 0 || *change != 0 {
                starts.push(port as u16);
                let next = known.len() as u16;
                class = *known.entry(set).or_insert(next);
            }
            classes.push(class);
        }
        for (range, within) in &mut ranges {
            let first = starts.partition_point(|start| start < range.start());
            let end = starts.partition_point(|start| start <= range.end());
            *within = starts[first..end].iter().map(|start| classes[usize::from(*start)]).collect();
            within.sort_unstable();
            within.dedup();
        }
        Ports { classes, count: known.len() as u32, ranges }
    }

    /// The classes of some ranges, or of all ports where there are no ranges.
    pub fn of(&self, ranges: &[Range]) -> Vec<u16> {
        if ranges.is_empty() {
            return (0..self.count as u16).collect();
        }
        let mut classes: Vec<u16> = ranges.iter().flat_map(|range| &self.ranges[range]).copied().collect();
        classes.sort_unstable();
        classes.dedup();
        classes
    }
}

/// A number of 128 bits for a range, as good as drawn by lot (the finalizer of SplitMix64, twice).
fn number_of(range: &Range) -> u128 {
    let mix = |seed: u64| {
        let mut z = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    };
    let range = u64::from(*range.start()) << 16 | u64::from(*range.end());
    u128::from(mix(range + 1)) << 64 | u128::from(mix(range + (1 << 40)))
}

/// Ports of entry and protocols that the same rules match are one class.
#[derive(Debug)]
pub struct Entries {
    /// The class at `port of entry << 8 | protocol`.
    pub classes: Vec<u16>,
    /// How many there are.
    pub count: u32,
    kinds: HashMap<(u64, Option<u8>), Vec<u16>>,
}

impl Entries {
    /// For these rules.
    pub fn new(rules: &[Rule]) -> Entries {
        let mut kinds: HashMap<(u64, Option<u8>), Vec<u16>> = HashMap::new();
        for rule in rules {
            kinds.entry((rule.entry, rule.protocol)).or_default();
        }
        let mut keys: Vec<(u64, Option<u8>)> = kinds.keys().copied().collect();
        keys.sort_unstable();
        // Ports that no rule tells apart, and protocols that none names, are looked at once.
        let named = |protocol: u8| keys.iter().any(|(_, own)| *own == Some(protocol));
        let protocols: Vec<Option<u8>> = (0..=255).map(|protocol| named(protocol).then_some(protocol)).collect();
        let mut known: HashMap<Vec<usize>, u16> = HashMap::new();
        let mut seen: HashMap<(Vec<bool>, Option<u8>), u16> = HashMap::new();
        let mut classes = Vec::with_capacity(ENTRIES << 8);
        for port in 0..ENTRIES {
            let here: Vec<bool> = keys.iter().map(|(entry, _)| entry >> port & 1 == 1).collect();
            for protocol in &protocols {
                let class = *seen.entry((here.clone(), *protocol)).or_insert_with(|| {
                    let holds = |index: &usize| here[*index] && keys[*index].1.is_none_or(|own| Some(own) == *protocol);
                    let holders: Vec<usize> = (0..keys.len()).filter(holds).collect();
                    let next = known.len() as u16;
                    let class = *known.entry(holders.clone()).or_insert(next);
                    if class == next {
                        holders.iter().for_each(|index| kinds.get_mut(&keys[*index]).expect("it is a key").push(class));
                    }
                    class
                });
                classes.push(class);
            }
        }
        Entries { classes, count: known.len() as u32, kinds }
    }

    /// The classes that a rule matches.
    pub fn of(&self, rule: &Rule) -> &[u16] {
        &self.kinds[&(rule.entry, rule.protocol)]
    }
}

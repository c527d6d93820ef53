//! Which PPFs become aggregates, and what belongs to each.
//!
//! ```text
//! rx ─▶ a ─▶ b ─▶ d ─▶ …      a: a, b, d, …
//!       └copy▶ c ─▶ d         c: c, d, …      c is entered by a put that something follows
//! ```
//!
//! A PPF is an *aggregate root* where packets enter it otherwise than by a jump: from `rx` or a controller, from a
//! timer's put, from a put that something follows. A PPF behind puts at ends belongs to the aggregates that these are
//! in, a copy to each; but to [`PARTS`] at most: one that more would have stays apart, a root that is called. So code
//! grows with the program, not with the number of its aggregates times that of the PPFs behind them. Nor does an
//! aggregate have more than [`LARGEST`] instructions: compilers take more than time in proportion to the length of a
//! function.
//!
//! Where an aggregate must be smaller still, copies counted, PPFs stay apart that would make it too large:
//! [`Division::within`].

use std::collections::{BTreeSet, HashMap};

use crate::ir::*;

/// Aggregates that a PPF belongs to at most.
const PARTS: usize = 8;
/// Instructions of an aggregate's PPFs, each counted once, at most.
const LARGEST: usize = 4000;

/// A program's aggregates.
pub struct Division<'p> {
    program: &'p Program,
    /// Roots, in order.
    pub roots: BTreeSet<PpfId>,
    /// Roots that no aggregate takes in.
    apart: BTreeSet<PpfId>,
}

impl<'p> Division<'p> {
    /// Divides a program that was not aggregated yet.
    pub fn of(program: &'p Program) -> Self {
        let entered = program.entries().filter_map(|entry| ppf_behind(program, entry));
        let timers = program.timers.iter().flat_map(|timer| puts(program, &timer.body)).map(|(target, _)| target);
        let mut roots: BTreeSet<PpfId> = entered.chain(timers).collect();
        // What each PPF that packets come to is followed by, without a copy.
        let mut followers: HashMap<PpfId, BTreeSet<PpfId>> = HashMap::new();
        let mut incoming: HashMap<PpfId, usize> = HashMap::new();
        let mut work: Vec<PpfId> = roots.iter().copied().collect();
        while let Some(ppf) = work.pop() {
            if followers.contains_key(&ppf) {
                continue;
            }
            let mut behind = BTreeSet::new();
            for (target, last) in puts(program, &program.ppfs[ppf.0 as usize].body) {
                if !last {
                    roots.insert(target);
                } else if behind.insert(target) {
                    *incoming.entry(target).or_default() += 1;
                }
                work.push(target);
            }
            followers.insert(ppf, behind);
        }
        // Each PPF after all that lead to it: wiring has no circles.
        let mut ready: Vec<PpfId> = followers.keys().copied().filter(|ppf| !incoming.contains_key(ppf)).collect();
        ready.sort();
        let mut parts: HashMap<PpfId, BTreeSet<PpfId>> = HashMap::new();
        let mut apart = BTreeSet::new();
        // Instructions of each root's PPFs so far.
        let mut sizes: HashMap<PpfId, usize> = HashMap::new();
        while let Some(ppf) = ready.pop() {
            let mut belongs_to = parts.remove(&ppf).unwrap_or_default();
            let size = program.ppfs[ppf.0 as usize].body.size();
            let is_full = |root: &PpfId| sizes.get(root).is_some_and(|others| others + size > LARGEST);
            if belongs_to.len() > PARTS || belongs_to.iter().any(is_full) {
                belongs_to.clear();
                apart.insert(ppf);
                roots.insert(ppf);
            }
            if roots.contains(&ppf) {
                belongs_to.insert(ppf);
            }
            belongs_to.iter().for_each(|root| *sizes.entry(*root).or_default() += size);
            for follower in &followers[&ppf] {
                let of_follower = parts.entry(*follower).or_default();
                // More than too many make no difference.
                of_follower.extend(belongs_to.iter().copied().take(PARTS + 1));
                if let Some(left) = incoming.get_mut(follower) {
                    *left -= 1;
                    if *left == 0 {
                        ready.push(*follower);
                    }
                }
            }
        }
        Division { program, roots, apart }
    }

    /// Divides so that no aggregate has more than `largest` instructions, copies counted, but for PPFs that have more
    /// by themselves.
    pub fn within(program: &'p Program, largest: usize) -> Self {
        let mut division = Division::of(program);
        let mut sizes = vec![None; program.ppfs.len()];
        // Recursion as deep as wiring: it has no circles.
        for root in division.roots.clone() {
            division.size_within(root, largest, &mut sizes);
        }
        division
    }

    /// Keeps PPFs behind this one apart, the largest first, until what it takes in is not too much; instructions of all
    /// that.
    fn size_within(&mut self, ppf: PpfId, largest: usize, sizes: &mut Vec<Option<usize>>) -> usize {
        if let Some(size) = sizes[ppf.0 as usize] {
            return size;
        }
        let body = &self.program.ppfs[ppf.0 as usize].body;
        let mut size: usize = body.blocks.iter().map(|block| block.insts.len()).sum();
        let mut behind: HashMap<PpfId, usize> = HashMap::new();
        for (target, last) in puts(self.program, body) {
            let of_target = self.size_within(target, largest, sizes);
            if last && !self.apart.contains(&target) {
                size = size.saturating_add(of_target);
                *behind.entry(target).or_default() += of_target;
            }
        }
        let mut behind: Vec<(usize, PpfId)> = behind.into_iter().map(|(ppf, size)| (size, ppf)).collect();
        behind.sort();
        while size > largest
            && let Some((of_target, target)) = behind.pop()
        {
            self.apart.insert(target);
            self.roots.insert(target);
            size = size.saturating_sub(of_target);
        }
        sizes[ppf.0 as usize] = Some(size);
        size
    }

    /// The PPF that an instruction puts a packet into, where an aggregate takes it in if nothing follows.
    pub(super) fn takes_in(&self, op: &Op) -> Option<PpfId> {
        put_into(self.program, op).filter(|target| !self.apart.contains(target))
    }

    /// The PPFs that an aggregate with this root consists of.
    pub fn members(&self, root: PpfId) -> Vec<PpfId> {
        let (mut members, mut seen) = (vec![root], BTreeSet::from([root]));
        let mut next = 0;
        while let Some(&ppf) = members.get(next) {
            let inside = |(target, last): &(PpfId, bool)| *last && !self.apart.contains(target);
            let targets = puts(self.program, &self.program.ppfs[ppf.0 as usize].body).filter(inside);
            members.extend(targets.map(|(target, _)| target).filter(|target| seen.insert(*target)));
            next += 1;
        }
        members
    }
}

/// The PPFs that a body puts packets into, and whether nothing follows the put.
fn puts<'a>(program: &'a Program, body: &'a Body) -> impl Iterator<Item = (PpfId, bool)> + 'a {
    body.blocks.iter().enumerate().flat_map(move |(b, block)| {
        let put = move |(i, inst): (usize, &Inst)| Some((put_into(program, &inst.op)?, is_last(body, b, i)));
        block.insts.iter().enumerate().filter_map(put)
    })
}

/// The PPF that an instruction puts a packet into.
fn put_into(program: &Program, op: &Op) -> Option<PpfId> {
    let Op::Put { channel, .. } = op else { return None };
    ppf_behind(program, *channel)
}

fn ppf_behind(program: &Program, channel: ChannelId) -> Option<PpfId> {
    match program.channels[channel.0 as usize].target {
        Target::Ppf(ppf) => Some(ppf),
        _ => None,
    }
}

/// Whether nothing follows an instruction but the end of the body.
pub fn is_last(body: &Body, block: usize, inst: usize) -> bool {
    let mut at = &body.blocks[block];
    if inst + 1 != at.insts.len() {
        return false;
    }
    // A chain of empty blocks ends, for a body has a return that every path reaches.
    for _ in 0..body.blocks.len() {
        match &at.term {
            Terminator::Return => return true,
            Terminator::Jump(dest) => at = &body.blocks[dest.block.0 as usize],
            Terminator::Branch(..) => return false,
        }
        if !at.insts.is_empty() {
            return false;
        }
    }
    false
}

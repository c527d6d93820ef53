//! Aggregation: PPFs joined by channels become one body.
//!
//! ```text
//! ppf m.a(v0):                      ppf m.a(v0):
//!   …                                 …
//!   put v0 -> m.c                     pass m.c
//!   return                            jump b7(v0)
//! ppf m.b(v0):            →         b7(v8):              was ppf m.b
//!   …                                 …
//! ```
//!
//! A put is replaced where nothing follows it (`channel_put` runs the receiver at once, so a put at the end is a jump);
//! see [`super::division`]. Each put gets a copy of the PPF, so that what is known at the put is known in the copy,
//! until the aggregate has [`COPIED`] instructions, or fewer where a program has many aggregates; from then on puts
//! share one copy, and so do those that no packet came by, where a profile says that of a put. PPFs that were merged
//! wherever they are used stay in the program, unused.

use std::collections::{HashMap, VecDeque};

use super::division::{Division, is_last};
use crate::ir::*;

/// Instructions of an aggregate up to which each put gets a copy of its own.
const COPIED: usize = 500;
/// The same for all aggregates of a program together.
const ALL_COPIED: usize = 8 * COPIED;

/// Merges PPFs.
pub fn aggregate(program: &Program) -> Program {
    merge(program, &Division::of(program))
}

/// Merges PPFs to aggregates that are not large: see [`Division::within`].
pub fn aggregate_within(program: &Program, largest: usize) -> Program {
    merge(program, &Division::within(program, largest))
}

fn merge(program: &Program, division: &Division) -> Program {
    let mut merged = program.clone();
    for &root in &division.roots {
        merged.ppfs[root.0 as usize].body = Aggregate::new(program, division).build(root);
    }
    merged
}

struct Aggregate<'p> {
    program: &'p Program,
    division: &'p Division<'p>,
    body: Body,
    /// PPFs to be copied, and the index of the copy's first block.
    queue: VecDeque<PpfId>,
    /// First block of the copy that puts share, once they do: one for those that packets come by, one for the others.
    shared: HashMap<(PpfId, bool), BlockId>,
    /// Blocks that the copies in the queue will take up.
    reserved: u32,
    instructions: usize,
    /// Up to so many each put gets a copy.
    copied: usize,
}

impl<'p> Aggregate<'p> {
    fn new(program: &'p Program, division: &'p Division<'p>) -> Self {
        Aggregate {
            program,
            division,
            body: Body::default(),
            queue: VecDeque::new(),
            shared: HashMap::new(),
            reserved: 0,
            instructions: 0,
            copied: COPIED.min(ALL_COPIED / division.roots.len().max(1)),
        }
    }

    fn build(mut self, root: PpfId) -> Body {
        self.enqueue(root);
        while let Some(ppf) = self.queue.pop_front() {
            self.copy(ppf);
        }
        super::straighten::straighten(&mut self.body);
        self.body
    }

    /// The first block of a copy that will be made: copies are made in the order of the queue.
    fn enqueue(&mut self, ppf: PpfId) -> BlockId {
        let body = &self.program.ppfs[ppf.0 as usize].body;
        let first = BlockId(self.reserved);
        self.reserved += body.blocks.len() as u32;
        self.instructions += body.size();
        self.queue.push_back(ppf);
        first
    }

    /// The first block that a put jumps to; `used`: for all that is known, packets come by it.
    fn entry_of(&mut self, ppf: PpfId, used: bool) -> BlockId {
        if used && self.instructions < self.copied {
            return self.enqueue(ppf);
        }
        if let Some(&block) = self.shared.get(&(ppf, used)) {
            return block;
        }
        let block = self.enqueue(ppf);
        self.shared.insert((ppf, used), block);
        block
    }

    fn copy(&mut self, ppf: PpfId) {
        let program = self.program;
        let body = &program.ppfs[ppf.0 as usize].body;
        let (first_value, first_block) = (self.body.values.len() as u32, self.body.blocks.len() as u32);
        self.body.values.extend(&body.values);
        if let Some(usage) = &body.usage {
            // The first is the root, which packets enter.
            let all =
                self.body.usage.get_or_insert_with(|| Usage { lengths: usage.lengths.clone(), ..Usage::default() });
            all.expected.extend(usage.expected.iter().map(|(value, number)| (Value(value.0 + first_value), *number)));
        }
        for (b, block) in body.blocks.iter().enumerate() {
            let mut block = block.clone();
            let merged = block.insts.last().and_then(|inst| self.division.takes_in(&inst.op));
            if let Some(target) = merged
                && is_last(body, b, block.insts.len() - 1)
                && let Some(put) = block.insts.last_mut()
                && let Op::Put { packet, channel } = put.op
            {
                put.op = Op::Pass { channel };
                let renumbered = self.entry_of(target, block.counts.is_none_or(|counts| counts.runs > 0));
                // Made relative, for it is shifted below with the others.
                let to = BlockId(renumbered.0.wrapping_sub(first_block));
                block.term = Terminator::Jump(Dest { block: to, args: vec![packet] });
            }
            let shift = |value: &mut Value| value.0 += first_value;
            block
                .params
                .iter_mut()
                .chain(block.insts.iter_mut().filter_map(|inst| inst.result.as_mut()))
                .for_each(shift);
            block.uses_mut(shift);
            for dest in block.term.dests_mut() {
                dest.block.0 = dest.block.0.wrapping_add(first_block);
            }
            self.body.blocks.push(block);
        }
    }
}

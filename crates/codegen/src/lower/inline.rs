//! Which PPFs are inlined where they are called.
//!
//! In line, what a PPF stored and the next one loads again stays in registers, which is worth more than the call. So a
//! PPF is inlined where one place calls it, and also where several do as long as all copies together stay short.

use baker::ir::{Op, PpfId, Program, Target};

use super::Res;
use crate::internal;

/// IR instructions of all copies of a PPF that several places call, with what is inlined into them.
const COPIES: usize = 600;

/// IR instructions of a PPF that one place calls, with what is inlined into it: LLVM takes more than time in proportion
/// to the length of a function. The one that packets enter is inlined however long it is.
const ALONE: usize = 2000;

/// For each PPF, whether it is inlined. Only those that packets come to call others.
pub(super) fn inlined(program: &Program, reached: &[bool]) -> Res<Vec<bool>> {
    let ppfs = program.ppfs.len();
    let mut plan = Plan { program, sites: vec![0; ppfs], entries: vec![false; ppfs], sizes: vec![Size::Unknown; ppfs] };
    for entry in program.entries() {
        plan.count(entry.0)?;
    }
    plan.entries = plan.sites.iter().map(|sites| *sites > 0).collect();
    let ppfs = program.ppfs.iter().zip(reached).filter(|(_, reached)| **reached).map(|(ppf, _)| &ppf.body);
    for body in ppfs.chain(program.timers.iter().map(|timer| &timer.body)) {
        for channel in body.puts() {
            plan.count(channel.0)?;
        }
    }
    Ok((0..program.ppfs.len()).map(|index| plan.is_inlined(index)).collect())
}

#[derive(Clone, Copy)]
enum Size {
    Unknown,
    /// Being sized: where wiring leads back here, which the verifier refuses.
    Open,
    /// Instructions with what is inlined.
    Known(usize),
}

struct Plan<'p> {
    program: &'p Program,
    /// Places that call each PPF: puts, and the starts of the batch loops.
    sites: Vec<usize>,
    /// Whether packets enter by it.
    entries: Vec<bool>,
    sizes: Vec<Size>,
}

impl Plan<'_> {
    fn count(&mut self, channel: u32) -> Res<()> {
        match self.program.channels.get(channel as usize).map(|channel| channel.target) {
            Some(Target::Ppf(PpfId(ppf))) => match self.sites.get_mut(ppf as usize) {
                Some(count) => *count += 1,
                None => return internal(format!("there is no PPF {ppf}")),
            },
            Some(Target::Tx | Target::Host | Target::Controller(_) | Target::Queue(..) | Target::Group(..)) => {}
            None => return internal(format!("there is no channel {channel}")),
        }
        Ok(())
    }

    fn is_inlined(&mut self, index: usize) -> bool {
        if self.sites[index] == 1 {
            return self.entries[index] || self.size(index) <= ALONE;
        }
        self.size(index).saturating_mul(self.sites[index]) <= COPIES
    }

    fn size(&mut self, index: usize) -> usize {
        match self.sizes[index] {
            Size::Known(size) => return size,
            Size::Open => return usize::MAX,
            Size::Unknown => self.sizes[index] = Size::Open,
        }
        let mut size = 0usize;
        for inst in self.program.ppfs[index].body.blocks.iter().flat_map(|block| &block.insts) {
            size = size.saturating_add(1);
            if let Op::Put { channel, .. } = inst.op
                && let Some(Target::Ppf(next)) = self.program.channels.get(channel.0 as usize).map(|c| c.target)
                && self.is_inlined(next.0 as usize)
            {
                size = size.saturating_add(self.size(next.0 as usize));
            }
        }
        self.sizes[index] = Size::Known(size);
        size
    }
}

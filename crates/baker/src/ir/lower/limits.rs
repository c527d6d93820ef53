//! Static bounds over all paths: how much is pushed in front of a packet. How many copies it becomes, the checker knows.

use std::collections::HashMap;

use crate::check::hir;
use crate::ir::{ChannelId, Limits, Op, PpfId, Program, Target, Value};

/// The bounds of a program. The graph of channels has no cycle.
pub(super) fn limits(typed: &hir::Program, program: &Program) -> Limits {
    let mut headroom = Headroom { program, entry: vec![i64::MIN; program.ppfs.len()], most: 0 };
    headroom.put(Program::RX, 0);
    Limits { headroom: headroom.most as u32, copies: typed.copies }
}

/// How far in front of the received packet's first byte a head may come to lie, in bytes.
struct Headroom<'p> {
    program: &'p Program,
    /// Greatest value seen at each PPF's entry.
    entry: Vec<i64>,
    most: i64,
}

impl Headroom<'_> {
    fn put(&mut self, channel: ChannelId, offset: i64) {
        if let Target::Ppf(ppf) = self.program.channels[channel.0 as usize].target
            && offset > self.entry[ppf.0 as usize]
        {
            self.entry[ppf.0 as usize] = offset;
            self.ppf(ppf, offset);
        }
    }

    /// Blocks are visited until nothing changes. Handles are never assigned, so a loop cannot push without end.
    fn ppf(&mut self, ppf: PpfId, offset: i64) {
        let program = self.program;
        let body = &program.ppfs[ppf.0 as usize].body;
        let mut offsets: HashMap<Value, i64> = HashMap::new();
        offsets.insert(body.blocks[0].params[0], offset);
        let mut constants = HashMap::new();
        let mut puts = Vec::new();
        let mut changed = true;
        while std::mem::take(&mut changed) {
            puts.clear();
            for block in &body.blocks {
                for inst in &block.insts {
                    let made = match &inst.op {
                        Op::Const(value) => {
                            constants.insert(inst.result, *value);
                            None
                        }
                        Op::Push { packet, bytes } => offsets.get(packet).map(|o| o + *bytes as i64),
                        Op::Pull { packet, bytes } => {
                            let least = constants.get(&Some(*bytes)).map_or(0, |&c| c as i64);
                            offsets.get(packet).map(|o| o - least)
                        }
                        Op::Copy { packet } => offsets.get(packet).copied(),
                        Op::Put { packet, channel } => {
                            puts.extend(offsets.get(packet).map(|&o| (*channel, o)));
                            None
                        }
                        _ => None,
                    };
                    if let (Some(made), Some(result)) = (made, inst.result) {
                        changed |= offsets.insert(result, made) != Some(made);
                        self.most = self.most.max(made);
                    }
                }
                for dest in block.term.dests() {
                    for (param, arg) in body.blocks[dest.block.0 as usize].params.iter().zip(&dest.args) {
                        if let Some(&passed) = offsets.get(arg)
                            && offsets.get(param).is_none_or(|&o| passed > o)
                        {
                            offsets.insert(*param, passed);
                            changed = true;
                        }
                    }
                }
            }
        }
        for (channel, offset) in puts {
            self.put(channel, offset);
        }
    }
}

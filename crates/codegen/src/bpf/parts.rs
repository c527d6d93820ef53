//! A program as several, joined by tail calls: for programs that as one are too much for the kernel's verifier.
//!
//! ```text
//! ppf m.a: …; put v0 -> m.c; return          part m.a: …; store head's offset; tail call m.b
//! ppf m.b: …                                 part m.b: reload pointers, head = data + offset; …
//! ```
//!
//! Each part is an aggregate that is not large, and what follows its puts that are not at an end, which it runs itself.
//! The verifier goes through each part once, whatever came before it: a part takes nothing along in registers or on the
//! stack. The head's offset, the time and the metadata lie in the memory of the CPU ([`crate::kernel::Carried`]).

use std::collections::HashMap;

use baker::ir::{Op, PpfId, Program, Target};
use baker::opt::division::is_last;
use baker::opt::{Level, optimise_within};

use crate::{CodegenError, internal};

/// Tail calls in a row that the kernel makes (`MAX_TAIL_CALL_CNT`).
const MOST_CALLS: usize = 33;

/// A program divided into parts.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    program: Program,
    roots: Vec<PpfId>,
}

impl Parts {
    /// Divides a program, all of whose PPFs run in the kernel; PPFs are joined up to `largest` instructions of the IR.
    pub fn new(program: &Program, packets: Level, largest: usize) -> Result<Parts, CodegenError> {
        let program = optimise_within(program, packets, largest);
        let Some(first) = rx_ppf(&program) else { return internal("a program without PPFs has no parts") };
        let mut roots = vec![first];
        let mut next = 0;
        while let Some(&root) = roots.get(next) {
            for (target, last) in puts(&program, root) {
                if last && !roots.contains(&target) {
                    roots.push(target);
                }
            }
            next += 1;
        }
        Ok(Parts { program, roots })
    }

    /// The PPF that each part begins with; that of the first is entered by received packets.
    pub fn roots(&self) -> &[PpfId] {
        &self.roots
    }

    /// The program as it was optimised.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Where a packet may go through more parts than the kernel lets it, the first that is too far.
    pub fn too_deep(&self) -> Option<PpfId> {
        let mut depths = HashMap::new();
        let mut at = self.roots[0];
        let mut calls = 0;
        while calls + depth(&self.program, at, &mut depths) > MOST_CALLS {
            if calls > MOST_CALLS {
                return Some(at);
            }
            let next = puts(&self.program, at).into_iter().filter(|(_, last)| *last).map(|(target, _)| target);
            at = next.max_by_key(|target| depth(&self.program, *target, &mut depths))?;
            calls += 1;
        }
        None
    }

    /// The PPF of a part that has most code.
    pub fn largest(&self, root: PpfId) -> PpfId {
        let size = |ppf: &PpfId| {
            let blocks = &self.program.ppfs[ppf.0 as usize].body.blocks;
            blocks.iter().map(|block| block.insts.len()).sum::<usize>()
        };
        let needed = needed(&self.program, root).into_iter().zip(0..).filter(|(needed, _)| *needed);
        needed.map(|(_, ppf)| PpfId(ppf)).max_by_key(size).unwrap_or(root)
    }
}

/// Tail calls behind a part.
fn depth(program: &Program, root: PpfId, depths: &mut HashMap<PpfId, usize>) -> usize {
    if let Some(depth) = depths.get(&root) {
        return *depth;
    }
    let next = puts(program, root).into_iter().filter(|(_, last)| *last);
    let behind = next.map(|(target, _)| depth(program, target, depths) + 1).max().unwrap_or(0);
    depths.insert(root, behind);
    behind
}

/// The PPFs that a PPF puts packets into, and whether nothing follows the put.
fn puts(program: &Program, ppf: PpfId) -> Vec<(PpfId, bool)> {
    let body = &program.ppfs[ppf.0 as usize].body;
    let mut found = Vec::new();
    for (b, block) in body.blocks.iter().enumerate() {
        for (i, inst) in block.insts.iter().enumerate() {
            if let Op::Put { channel, .. } = inst.op
                && let Some(Target::Ppf(target)) = program.channels.get(channel.0 as usize).map(|c| c.target)
            {
                found.push((target, is_last(body, b, i)));
            }
        }
    }
    found
}

/// For each PPF, whether its code belongs to a part: the root's, and that of all behind puts that something follows.
pub(super) fn needed(program: &Program, root: PpfId) -> Vec<bool> {
    let mut needed = vec![false; program.ppfs.len()];
    let inside = puts(program, root).into_iter().filter(|(_, last)| !*last);
    let mut work: Vec<PpfId> = inside.map(|(target, _)| target).collect();
    while let Some(ppf) = work.pop() {
        if !std::mem::replace(&mut needed[ppf.0 as usize], true) {
            work.extend(puts(program, ppf).into_iter().map(|(target, _)| target));
        }
    }
    needed[root.0 as usize] = true;
    needed
}

/// Instructions of the IR that a program has as one function, in which each put is a copy of what is behind it.
pub(super) fn expanded(program: &Program) -> usize {
    rx_ppf(program).map_or(0, |first| size(program, first, &mut HashMap::new()))
}

/// The PPF that received packets enter.
pub(super) fn rx_ppf(program: &Program) -> Option<PpfId> {
    match program.channels.get(Program::RX.0 as usize)?.target {
        Target::Ppf(first) => Some(first),
        _ => None,
    }
}

fn size(program: &Program, ppf: PpfId, sizes: &mut HashMap<PpfId, usize>) -> usize {
    if let Some(size) = sizes.get(&ppf) {
        return *size;
    }
    let own: usize = program.ppfs[ppf.0 as usize].body.blocks.iter().map(|block| block.insts.len()).sum();
    let behind = puts(program, ppf).into_iter().map(|(target, _)| size(program, target, sizes));
    let all = behind.fold(own, usize::saturating_add);
    sizes.insert(ppf, all);
    all
}

//! A program that measures how long packets are in each PPF, and how often look-ups find nothing.
//!
//! A PPF notes the time when a packet enters it ([`Op::Time`]): what has passed since the last note was spent in the
//! PPF that was noted then. Where a PPF goes on behind a put, which has taken the packet through others, it notes that
//! it is its turn again; such a packet has several intervals there. Engines note the end of a packet. So the times of
//! all PPFs add up to that of the program. A packet that the kernel hands over to workers, which begin the PPF again,
//! is there twice.
//!
//! Behind each look-up in a hash table or among routes there is a note of what it has found ([`Op::Found`]). Arrays
//! have all of their entries.
//!
//! Notes are effects as counters are: no pass moves or joins them, and what stands between them stays between them,
//! but for arithmetic and look-ups that need not be where they are written.

use super::division::is_last;
use crate::ir::{Inst, Op, PpfId, Program, TableKind, Target};

/// The program with notes. It is not optimised yet.
pub fn timed(program: &Program) -> Program {
    let mut timed = Program { timed: true, ..program.clone() };
    for (ppf, to) in (0..).map(PpfId).zip(&mut timed.ppfs) {
        let body = &program.ppfs[ppf.0 as usize].body;
        let note = Inst { result: None, op: Op::Time { ppf }, span: None };
        let is_left = |block: usize, inst: usize| {
            let Op::Put { channel, .. } = body.blocks[block].insts[inst].op else { return false };
            let target = program.channels.get(channel.0 as usize).map(|channel| channel.target);
            matches!(target, Some(Target::Ppf(_))) && !is_last(body, block, inst)
        };
        for (block, insts) in to.body.blocks.iter_mut().map(|block| &mut block.insts).enumerate() {
            for inst in (0..insts.len()).rev() {
                if is_left(block, inst) {
                    insts.insert(inst + 1, note.clone());
                } else if let Some(op) = found(program, &insts[inst]) {
                    insts.insert(inst + 1, Inst { result: None, op, span: None });
                }
            }
        }
        to.body.blocks[0].insts.insert(0, note);
    }
    timed
}

/// The note of a look-up that may find nothing.
fn found(program: &Program, inst: &Inst) -> Option<Op> {
    let (Op::Lookup { table, .. }, Some(entry)) = (&inst.op, inst.result) else { return None };
    let may_miss = program.tables[table.0 as usize].kind != TableKind::Array;
    may_miss.then_some(Op::Found { table: *table, entry })
}

//! What cannot be done in the kernel, and why: the placer goes by it.

use std::collections::BTreeMap;

use baker::ir::{Inst, Op, PacketEnd, PpfId, Program};
use baker::place::Limits;

use super::resize::SHORTEST;
use super::state::Fields;
use crate::kernel::{Obstacle, Punt, Reason};

/// Bytes in front of a received frame that a program may use: drivers keep 256 free (`XDP_PACKET_HEADROOM`), of which
/// the kernel takes some for a frame on its way to another device.
const HEADROOM: u32 = 192;

/// Bytes of the packet's state, metadata included, that the stack has room for.
const STATE: u32 = 256;

/// What keeps the whole program from the kernel.
fn whole(program: &Program) -> Vec<Reason> {
    let rx = program.channels.get(Program::RX.0 as usize);
    let frame = rx.and_then(|rx| program.protocols.get(rx.protocol.0 as usize)).map_or(0, |protocol| protocol.size);
    let limits = program.limits;
    let short = (frame < SHORTEST).then_some(Reason::ShortFrames);
    let headroom = (limits.headroom.max(limits.encap) > HEADROOM).then_some(Reason::Headroom);
    let metadata = (Fields::new(program).size > STATE).then_some(Reason::Metadata);
    let channels = (program.channels.len() > Punt::CHANNELS).then_some(Reason::Channels);
    [short, headroom, metadata, channels].into_iter().flatten().collect()
}

/// Why an operation cannot be done there.
fn operation(inst: &Inst) -> Option<Reason> {
    match &inst.op {
        Op::TakeDeadline { .. } => Some(Reason::Deadlines),
        Op::Copy { .. } => Some(Reason::Copies),
        Op::Create => Some(Reason::Creates),
        Op::HoldPut { .. } | Op::HoldGet { .. } | Op::Discard { .. } => Some(Reason::Holds),
        Op::Extern { .. } => Some(Reason::CallsController),
        _ => None,
    }
}

/// Why one may fail there that would not on workers.
fn unsure(inst: &Inst) -> Option<Reason> {
    matches!(inst.op, Op::Grow { end: PacketEnd::Tail, .. }).then_some(Reason::Grows)
}

/// What the placer goes by.
pub fn limits(program: &Program) -> Limits<'_> {
    let text = |reason: Reason| reason.to_string();
    Limits {
        whole: whole(program).into_iter().map(text).collect(),
        operation: Box::new(move |inst| operation(inst).map(text)),
        unsure: Box::new(move |inst| unsure(inst).map(text)),
        ppfs: BTreeMap::new(),
    }
}

/// For each PPF, whether received packets come to it. What controllers and timers send is the workers'.
pub(super) fn reached(program: &Program) -> Vec<bool> {
    program.reached_from([Program::RX])
}

/// What keeps PPFs that packets come to from running in the kernel, in their order; of each PPF the first place of each
/// reason.
pub fn obstacles(program: &Program) -> Vec<Obstacle> {
    let mut found: Vec<Obstacle> = Vec::new();
    let whole = whole(program);
    let reached = reached(program);
    for ((ppf, index), _) in program.ppfs.iter().zip(0u32..).zip(reached).filter(|(_, reached)| *reached) {
        let of_all = whole.iter().map(|reason| (*reason, ppf.span));
        let insts = ppf.body.blocks.iter().flat_map(|block| &block.insts);
        let of_insts = insts.filter_map(|inst| Some((operation(inst)?, inst.span)));
        for (reason, span) in of_all.chain(of_insts) {
            let obstacle = Obstacle { ppf: PpfId(index), reason, span };
            if !found.iter().any(|other| other.ppf == obstacle.ppf && other.reason == reason) {
                found.push(obstacle);
            }
        }
    }
    found
}

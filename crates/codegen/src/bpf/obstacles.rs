//! What cannot be done in the kernel, and why: the placer goes by it.

use baker::ir::{Inst, Op, PacketEnd, PpfId, Program, Sums};
use baker::place::Limits;
use baker::source::Span;

use super::resize::SHORTEST;
use super::state::Fields;
use crate::kernel::{Hook, Obstacle, Punt, Reason};

/// Bytes in front of a received frame that a program may use: drivers keep 256 free (`XDP_PACKET_HEADROOM`), of which
/// the kernel takes some for a frame on its way to another device.
const HEADROOM: u32 = 192;

/// Bytes of the packet's state, metadata included, that the stack has room for.
const STATE: u32 = 256;

/// What keeps the whole program from the kernel.
fn whole(program: &Program, hook: Hook) -> Vec<Reason> {
    let rx = program.channels.get(Program::RX.0 as usize);
    let frame = rx.and_then(|rx| program.protocols.get(rx.protocol.0 as usize)).map_or(0, |protocol| protocol.size);
    let limits = program.limits;
    let short = (frame < SHORTEST).then_some(Reason::ShortFrames);
    let headroom = (limits.headroom.max(limits.encap) > HEADROOM).then_some(Reason::Headroom);
    let metadata = (Fields::new(program).size > STATE).then_some(Reason::Metadata);
    let channels = (program.channels.len() > Punt::CHANNELS).then_some(Reason::Channels);
    let covers_pseudo = || program.protocols.iter().filter_map(|protocol| protocol.checksum).any(|sum| sum.pseudo);
    let sums = hook == Hook::Tc && program.sums == Sums::Arithmetic && covers_pseudo();
    let sums = sums.then_some(Reason::Sums);
    [short, headroom, metadata, channels, sums].into_iter().flatten().collect()
}

/// Why an operation cannot be done there.
fn operation(inst: &Inst, hook: Hook) -> Option<Reason> {
    match &inst.op {
        Op::Trim { .. } | Op::Grow { .. } if hook == Hook::Tc => Some(Reason::Resizes),
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

/// PPFs that take checksums as numbers which devices may still have to compute, and where.
fn whole_sums(program: &Program, hook: Hook) -> &[(PpfId, Option<Span>)] {
    match &program.sums {
        Sums::Operations { whole } if hook == Hook::Tc => whole,
        _ => &[],
    }
}

/// What the placer goes by, at the driver.
pub fn limits(program: &Program) -> Limits<'_> {
    limits_at(program, Hook::Xdp)
}

/// What the placer goes by, at this hook.
pub fn limits_at(program: &Program, hook: Hook) -> Limits<'_> {
    let text = |reason: Reason| reason.to_string();
    let sums = whole_sums(program, hook).iter().map(|(ppf, _)| (*ppf, Reason::WholeSums.to_string()));
    Limits {
        whole: whole(program, hook).into_iter().map(text).collect(),
        operation: Box::new(move |inst| operation(inst, hook).map(text)),
        unsure: Box::new(move |inst| unsure(inst).map(text)),
        ppfs: sums.collect(),
    }
}

/// For each PPF, whether received packets come to it. What controllers and timers send is the workers'.
pub(super) fn reached(program: &Program) -> Vec<bool> {
    program.reached_from([Program::RX])
}

/// What keeps PPFs that packets come to from running in the kernel, in their order; of each PPF the first place of each
/// reason.
pub fn obstacles(program: &Program) -> Vec<Obstacle> {
    obstacles_at(program, Hook::Xdp)
}

/// The same at a hook.
pub(super) fn obstacles_at(program: &Program, hook: Hook) -> Vec<Obstacle> {
    let mut found: Vec<Obstacle> = Vec::new();
    let whole = whole(program, hook);
    let reached = reached(program);
    for ((ppf, index), _) in program.ppfs.iter().zip(0u32..).zip(reached).filter(|(_, reached)| *reached) {
        let of_all = whole.iter().map(|reason| (*reason, ppf.span));
        let insts = ppf.body.blocks.iter().flat_map(|block| &block.insts);
        let of_insts = insts.filter_map(|inst| Some((operation(inst, hook)?, inst.span)));
        let of_sums = whole_sums(program, hook).iter().filter(|(ppf, _)| ppf.0 == index);
        let of_sums = of_sums.map(|(_, span)| (Reason::WholeSums, *span));
        for (reason, span) in of_all.chain(of_insts).chain(of_sums) {
            let obstacle = Obstacle { ppf: PpfId(index), reason, span };
            if !found.iter().any(|other| other.ppf == obstacle.ppf && other.reason == reason) {
                found.push(obstacle);
            }
        }
    }
    found
}

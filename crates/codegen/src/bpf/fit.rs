//! Which PPFs cannot run in the kernel, and why: the placer goes by it.

use baker::ir::{Inst, Op, PpfId, Program, TableKind};

use crate::abi::is_dir_24_8;

use super::resize::SHORTEST;
use super::state::Fields;
use crate::kernel::{Obstacle, Reason};

/// Bytes in front of a received frame that a program may use: drivers keep 256 free (`XDP_PACKET_HEADROOM`), of which the kernel
/// takes some for a frame on its way to another device.
const HEADROOM: u32 = 192;

/// Bytes of metadata that the stack has room for.
const METADATA: u32 = 256;

/// What keeps PPFs from running in the kernel, in their order; of each PPF the first place of each reason.
pub fn obstacles(program: &Program) -> Vec<Obstacle> {
    let mut found: Vec<Obstacle> = Vec::new();
    for (ppf, index) in program.ppfs.iter().zip(0u32..) {
        let mut add = |reason: Reason, span| {
            let obstacle = Obstacle { ppf: PpfId(index), reason, span };
            if !found.iter().any(|other| other.ppf == obstacle.ppf && other.reason == reason) {
                found.push(obstacle);
            }
        };
        for reason in whole(program) {
            add(reason, ppf.span);
        }
        for inst in ppf.body.blocks.iter().flat_map(|block| &block.insts) {
            if let Some(reason) = operation(program, inst) {
                add(reason, inst.span);
            }
        }
    }
    found
}

/// What keeps all PPFs from it.
fn whole(program: &Program) -> impl Iterator<Item = Reason> {
    let rx = program.channels.get(Program::RX.0 as usize);
    let frame = rx.and_then(|rx| program.protocols.get(rx.protocol.0 as usize)).map_or(0, |protocol| protocol.size);
    let limits = program.limits;
    let short = (frame < SHORTEST).then_some(Reason::ShortFrames);
    let headroom = (limits.headroom.max(limits.encap) > HEADROOM).then_some(Reason::Headroom);
    let metadata = (Fields::new(program).size > METADATA).then_some(Reason::Metadata);
    [short, headroom, metadata].into_iter().flatten()
}

fn operation(program: &Program, inst: &Inst) -> Option<Reason> {
    match &inst.op {
        Op::Copy { .. } => Some(Reason::Copies),
        Op::Create => Some(Reason::Creates),
        Op::Extern { .. } => Some(Reason::CallsController),
        Op::Lookup { table, .. } => {
            let table = program.tables.get(table.0 as usize)?;
            (table.kind == TableKind::Lpm && !is_dir_24_8(program, table)).then_some(Reason::WideLpm)
        }
        _ => None,
    }
}

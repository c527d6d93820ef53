//! Copies that lead out of the kernel, and need not be packets there.
//!
//! ```text
//! v1 = copy v0; meta_store v1 mark, v7; put v1 -> m.media          tap v0 + 0, mark v7 -> m.media
//! ```
//!
//! A copy is one where nothing but its metadata and its first byte is made different from the packet, and nothing of
//! the packet is changed between the copy and its put. Then the packet at the put is what the copy would be.

use crate::ir::{Body, ChannelId, Inst, MetaId, Op, Ty, Value};
use crate::source::Span;

/// A copy that leaves the kernel by a ring while the packet stays there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tap {
    /// The channel that it is put to.
    pub channel: ChannelId,
    /// Where it is made.
    pub span: Option<Span>,
}

/// A copy and its put in a block.
pub(super) struct Found {
    /// Index of the instruction that copies.
    pub copy: usize,
    /// That of the one that puts.
    pub put: usize,
    /// Those between that give the copy what the packet has not.
    own: Vec<usize>,
    packet: Value,
    skip: Option<Value>,
    metadata: Vec<(MetaId, Value)>,
    /// The channel.
    pub channel: ChannelId,
}

/// The copies of a block that are to be put to channels which lead out of the kernel.
pub(super) fn of_block(insts: &[Inst], mut leads_out: impl FnMut(ChannelId) -> bool) -> Vec<Found> {
    let copies = insts.iter().enumerate().filter_map(|(at, inst)| match inst.op {
        Op::Copy { packet } => found(insts, at, packet, inst.result?),
        _ => None,
    });
    copies.filter(|found| leads_out(found.channel)).collect()
}

fn found(insts: &[Inst], copy: usize, packet: Value, result: Value) -> Option<Found> {
    let (mut handle, mut skip, mut own) = (result, None, Vec::new());
    let mut metadata: Vec<(MetaId, Value)> = Vec::new();
    for (at, inst) in insts.iter().enumerate().skip(copy + 1) {
        match inst.op {
            Op::MetaStore { packet, field, value } if packet == handle => {
                metadata.retain(|(known, _)| *known != field);
                metadata.push((field, value));
                own.push(at);
            }
            Op::Pull { packet, bytes } if packet == handle && skip.is_none() => {
                (handle, skip) = (inst.result?, Some(bytes));
                own.push(at);
            }
            Op::Put { packet: put, channel } if put == handle => {
                return Some(Found { copy, put: at, own, packet, skip, metadata, channel });
            }
            _ if inst.op.operands().contains(&handle) => return None,
            // What the packet is may be another thing from here on.
            Op::Copy { .. } => {}
            _ if inst.op.packet() == Some(packet) && !inst.op.is_pure() => return None,
            _ => {}
        }
    }
    // It goes on in another block.
    None
}

/// Makes taps of such copies.
pub(super) fn make(body: &mut Body, mut leads_out: impl FnMut(ChannelId) -> bool) {
    for block in 0..body.blocks.len() {
        let all = of_block(&body.blocks[block].insts, &mut leads_out);
        if all.is_empty() {
            continue;
        }
        let insts = std::mem::take(&mut body.blocks[block].insts);
        let gone = |at: usize| all.iter().any(|found| found.copy == at || found.own.contains(&at));
        let mut made = Vec::with_capacity(insts.len());
        for (at, inst) in insts.into_iter().enumerate() {
            let Some(found) = all.iter().find(|found| found.put == at) else {
                made.extend((!gone(at)).then_some(inst));
                continue;
            };
            let skip = found.skip.unwrap_or_else(|| {
                let zero = Value(body.values.len() as u32);
                body.values.push(Ty::Int(32));
                made.push(Inst { result: Some(zero), op: Op::Const(0), span: inst.span });
                zero
            });
            let Found { packet, channel, ref metadata, .. } = *found;
            let op = Op::Tap { packet, skip, metadata: metadata.clone(), channel };
            made.push(Inst { result: None, op, span: inst.span });
        }
        body.blocks[block].insts = made;
    }
}

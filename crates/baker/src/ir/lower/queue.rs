//! Paced puts: a put into a channel that leads to a queue, with line and time in the packet's metadata, and a channel
//! by which the packet enters again.
//!
//! ```text
//! channel_put_at(output, line[i], pkt, t)
//!
//!                             →      meta_store v0 queue.line, v1
//!                                    meta_store v0 queue.time, v2
//!                                    put v0 -> m.output in m.line          to the queue m.line
//!                                    m.line -> m.output                    from there to where m.output leads
//! ```

use super::{Lowering, group};
use crate::check::hir::{self, Expr, Stmt, StmtKind};
use crate::ir::{Channel, ChannelId, MetaField, MetaId, Op, Program, QueueId, Source, Target, storage_size};

/// The puts into queues of a program, each once, in order.
fn paced(program: &hir::Program) -> Vec<(ChannelId, QueueId)> {
    fn search(statements: &[Stmt], found: &mut Vec<(ChannelId, QueueId)>) {
        for Stmt { kind, .. } in statements {
            if let StmtKind::PutAt(channel, queue, ..) = kind
                && !found.contains(&(*channel, *queue))
            {
                found.push((*channel, *queue));
            }
            kind.nested().into_iter().for_each(|nested| search(nested, found));
        }
    }
    let mut found = Vec::new();
    program.bodies().for_each(|code| search(&code.body, &mut found));
    found
}

/// Where the metadata of queues begins.
fn metadata(program: &hir::Program) -> u32 {
    program.metadata.len() as u32 + group::added_metadata(program)
}

/// Adds the channels into queues and out of them, and the metadata.
pub(super) fn declare(program: &hir::Program, lowered: &mut Program) {
    if lowered.queues.is_empty() {
        return;
    }
    for (name, width) in [("queue.line", 32), ("queue.time", 64)] {
        let size = storage_size(width);
        let offset = lowered.metadata_size.next_multiple_of(size);
        lowered.metadata.push(MetaField { name: name.into(), type_name: format!("u{width}"), width, offset });
        lowered.metadata_size = offset + size;
    }
    for (channel, queue) in paced(program) {
        let Channel { name, protocol, target, batch, .. } = program.channels[channel.0 as usize].clone();
        let queue_name = &program.queues[queue.0 as usize].name;
        let on = ChannelId(lowered.channels.len() as u32 + 1);
        let into = format!("{name} in {queue_name}");
        let waits = Target::Queue(queue, on);
        lowered.channels.push(Channel { name: into, from: None, protocol, target: waits, batch: None });
        let from = Some(Source::Queue(queue));
        lowered.channels.push(Channel { name: format!("{queue_name} -> {name}"), from, protocol, target, batch });
    }
}

impl<'p> Lowering<'p> {
    /// `channel_put_at`
    pub(super) fn put_at(&mut self, ids: (ChannelId, QueueId), packet: &'p Expr, line: &'p Expr, at: &'p Expr) {
        let (line, at) = (self.value(line), self.value(at));
        let packet = self.consume(packet);
        let first = metadata(self.program);
        for (field, value) in [(first, line), (first + 1, at)] {
            self.b.effect(Op::MetaStore { packet, field: MetaId(field), value });
        }
        let index = paced(self.program).iter().position(|known| *known == ids).expect("each was found");
        let channel = ChannelId((self.program.channels.len() + group::added_channels(self.program) + 2 * index) as u32);
        self.b.effect(Op::Put { packet, channel });
    }
}

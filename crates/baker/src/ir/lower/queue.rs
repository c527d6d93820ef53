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

use super::{Lowering, group, waiting};
use crate::check::hir::{self, Expr, StmtKind};
use crate::ir::{ChannelId, MetaId, Op, Program, QueueId, Source, Target};

/// The puts into queues of a program, each once, in order.
fn paced(program: &hir::Program) -> Vec<(ChannelId, QueueId)> {
    waiting::puts(program, |kind| match kind {
        StmtKind::PutAt(channel, queue, ..) => Some((*channel, *queue)),
        _ => None,
    })
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
        waiting::add_metadata(lowered, name, width);
    }
    let name = |queue: QueueId| program.queues[queue.0 as usize].name.as_str();
    waiting::declare(program, lowered, paced(program), |queue| (name(queue), Target::Queue, Source::Queue));
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

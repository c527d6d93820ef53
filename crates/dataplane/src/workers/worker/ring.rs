//! What the kernel tells a worker by its ring: copies, deadlines, and at traffic control packets that it hands over.
//!
//! A packet of traffic control is as its sender has left it. It becomes those of the network here, each behind what the
//! kernel has put in front of it. A super-packet that a batch has no room for stays in the ring until the next one.

use baker::ir::DropId;
use codegen::kernel::{Armed, Punt, Tap};

use super::Worker;
use super::{Access, Received, RxBatch, add};
use crate::counters::WorkerCounters;
use crate::packets::{Segments, inferred};
use crate::xdp::{Resume, Taken};

/// Deadlines that the kernel has set, at a time.
const ARMED_AT_ONCE: u32 = 1024;

impl Worker {
    /// A batch of the copies and packets that the kernel has put there, and the deadlines that it has set meanwhile;
    /// whether there was anything.
    pub(super) fn run_ring(&mut self) -> bool {
        let Worker { now, old, ring, segments, ports, .. } = self;
        let Some(ring) = ring.as_ref().filter(|ring| !ring.is_empty()) else { return false };
        now.context.quiescent();
        old.iter().for_each(|old| old.context.quiescent());
        let (generation, resume) = (now.generation, now.resume.clone());
        let mut received = Received::default();
        let mut batch = RxBatch::new(&mut now.context, &mut received, 0);
        let before = ring.read();
        // Others wait between two slices of these.
        let mut armed = 0;
        let (mut refused, mut at_ports) = (0, 0);
        if batch.room() > 0 {
            ring.take_each(|record| {
                if let Some(deadline) = Armed::read(record) {
                    armed += 1;
                    let deadlines = match old {
                        Some(old) if u32::from(old.generation) == deadline.generation => old.context.deadlines(),
                        _ if deadline.generation == u32::from(generation) => batch.deadlines(),
                        _ => None,
                    };
                    deadlines.into_iter().for_each(|own| own.arm(deadline.table, deadline.entry));
                } else if let Some(copy) = Tap::read(record) {
                    let of = Punt::of(copy).map(|punt| punt.generation);
                    let resume = match old {
                        Some(old) if Some(old.generation) == of => old.resume.as_ref(),
                        _ => resume.as_ref(),
                    };
                    // Without it, what enters is as in front of a packet that the kernel hands over.
                    let Some(handed) =
                        resume.filter(|resume| resume.is_at_tc()).and_then(|r| Resume::handed(r, record))
                    else {
                        batch.push(&[copy]);
                        return more(&batch, armed);
                    };
                    let begun = segments.take().map_or_else(
                        || Segments::new(handed.packet, &inferred(handed.packet, handed.segment)?, None),
                        Ok,
                    );
                    let Ok(mut left) = begun else {
                        refused += 1;
                        return more(&batch, armed);
                    };
                    let (_, _, oversize) = batch.totals();
                    let is_done = batch.push_segments_behind(handed.front, handed.packet, &mut left);
                    let oversize = batch.totals().2 - oversize;
                    if oversize > 0 {
                        let port = ports.all.iter().find(|port| port.number == handed.port);
                        port.into_iter().for_each(|port| add(&port.counters.oversize, oversize));
                        at_ports += oversize;
                    }
                    if !is_done {
                        *segments = Some(left);
                        return Taken::Stays;
                    }
                }
                more(&batch, armed)
            });
        }
        let (packets, _, oversize) = batch.totals();
        now.count_drops(DropId::TAP_FULL, oversize - at_ports);
        now.count_drops(DropId::MALFORMED, refused);
        if packets > 0 {
            WorkerCounters::add(&self.counters.packets, packets);
            self.resume(received.frames(), Access::InPlace);
        }
        packets > 0 || self.ring.as_ref().is_some_and(|ring| ring.read() != before)
    }
}

/// Whether there is room for more.
fn more(batch: &RxBatch<'_>, armed: u32) -> Taken {
    if batch.room() > 0 && armed < ARMED_AT_ONCE { Taken::More } else { Taken::Enough }
}

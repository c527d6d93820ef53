//! What packets cost: accesses to packet memory and to descriptors, and instructions, counted from what was
//! executed.

use std::ops::AddAssign;

use super::super::{ChannelId, DropId, Op, Program};
use super::record::{Recording, Touched};

/// Bytes that packet memory moves at least, and to whose multiples an access is widened: those of the DRAM of the network
/// processors (Intel IXP1200 and IXP2400).
const UNIT: u64 = 8;

/// Sums over packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Accesses to packet memory. Loads of bytes that follow each other, with nothing but arithmetic between them, are one
    /// access where bursts are counted, and so are stores.
    pub accesses: u64,
    /// Bytes that those move: of whole units of 8 bytes, counted from the frame's start of the first header.
    pub bytes: u64,
    /// Accesses to the packet's descriptor and metadata: where the head is, how long the packet is, metadata.
    pub descriptor: u64,
    /// Instructions of the intermediate representation, without constants.
    pub instructions: u64,
}

impl AddAssign for Costs {
    fn add_assign(&mut self, other: Costs) {
        self.accesses += other.accesses;
        self.bytes += other.bytes;
        self.descriptor += other.descriptor;
        self.instructions += other.instructions;
    }
}

/// A station on a packet's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// It, or a copy of it, was put into a channel.
    Channel(ChannelId),
    /// It, or a copy of it, was dropped.
    Drop(DropId),
}

/// What a received packet cost, and the stations on its way. `bursts`: accesses to bytes that follow each other count as one.
pub fn costs(program: &Program, recording: &Recording, bursts: bool) -> (Costs, Vec<Step>) {
    let mut meter = Meter { bursts, ..Meter::default() };
    let mut trail: Vec<Step> = recording.entry.map(Step::Channel).into_iter().collect();
    for executed in &recording.executed {
        let Some(inst) = executed.inst(program) else { continue };
        match inst.op {
            // The end of a body's work on a packet, which is there at every level alike: it is not counted.
            Op::Put { channel, .. } => trail.push(Step::Channel(channel)),
            Op::Pass { channel } => trail.push(Step::Channel(channel)),
            Op::Drop { reason, .. } => trail.push(Step::Drop(reason)),
            _ => {}
        }
        meter.charge(&inst.op, executed.touched);
    }
    (meter.costs, trail)
}

#[derive(Default)]
struct Meter {
    costs: Costs,
    bursts: bool,
    /// The access before, where the next one may belong to it.
    last: Option<Access>,
}

#[derive(Clone, Copy, Debug)]
struct Access {
    packet: u32,
    store: bool,
    /// Bytes from the packet buffer's start: the first one, and the one after the last.
    from: u64,
    end: u64,
}

impl Meter {
    fn charge(&mut self, op: &Op, touched: Touched) {
        if matches!(op, Op::Const(_) | Op::Put { .. }) {
            return;
        }
        self.costs.instructions += 1;
        match *op {
            Op::Load { .. } | Op::LoadAt { .. } | Op::Sum { .. } => self.access(touched, false),
            Op::Store { .. } | Op::StoreAt { .. } | Op::Push { .. } => self.access(touched, true),
            Op::Copy { .. } => {
                self.access(touched, false);
                self.last = None;
                self.access(touched, true);
                self.last = None;
            }
            Op::Has { .. }
            | Op::Len { .. }
            | Op::Pull { .. }
            | Op::Move { .. }
            | Op::Trim { .. }
            | Op::Grow { .. }
            | Op::Create
            | Op::MetaLoad { .. }
            | Op::MetaStore { .. } => {
                self.costs.descriptor += 1;
                self.last = None;
            }
            Op::Bin(..) | Op::Cmp(..) | Op::Cast(..) | Op::Select(..) => {}
            _ => self.last = None,
        }
    }

    fn access(&mut self, touched: Touched, store: bool) {
        let Touched::Packet { packet, from, end } = touched else { return };
        let (from, end) = (u64::from(from), u64::from(end));
        if from >= end {
            return;
        }
        let units = |from: u64, end: u64| end.div_ceil(UNIT) - from / UNIT;
        match &mut self.last {
            Some(last) if self.bursts && last.packet == packet && last.store == store && last.end == from => {
                self.costs.bytes += (units(last.from, end) - units(last.from, last.end)) * UNIT;
                last.end = end;
            }
            last => {
                *last = Some(Access { packet, store, from, end });
                self.costs.accesses += 1;
                // The handle is resolved.
                self.costs.descriptor += 1;
                self.costs.bytes += units(from, end) * UNIT;
            }
        }
    }
}

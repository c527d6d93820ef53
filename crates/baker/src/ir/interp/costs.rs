//! What packets cost: accesses to packet memory and to descriptors, and instructions, counted while the interpreter
//! runs.

use std::ops::AddAssign;

use super::super::{ChannelId, DropId, How, Op, PpfId, Touches, Value};

/// Bytes that packet memory moves at least, and to whose multiples an access is widened: those of the DRAM of the
/// network processors (Intel IXP1200 and IXP2400).
const UNIT: u64 = 8;

/// What a header's length and a place behind one are taken for where they are found at run time.
const HEADER: u128 = 20;
/// Where heads are taken to be, and how long packets: a whole number of units.
const HEADROOM: u64 = 64 * UNIT;

/// Sums over packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Accesses to packet memory. Loads of bytes that follow each other, with nothing but arithmetic between them, are
    /// one access where bursts are counted, and so are stores.
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

/// A step of a packet's execution path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// It, or a copy of it, was put into a channel.
    Channel(ChannelId),
    /// It, or a copy of it, was dropped.
    Drop(DropId),
}

/// What a received packet did and cost.
#[derive(Clone, Debug, Default)]
pub struct Metered {
    /// What it cost.
    pub costs: Costs,
    /// Of that, in each PPF of the program. In an aggregate a PPF's code begins where its channel is passed.
    pub ppfs: Vec<Costs>,
    /// Its execution path.
    pub steps: Vec<Step>,
}

/// Counts one received packet.
#[derive(Clone, Debug, Default)]
pub(super) struct Meter {
    pub found: Metered,
    /// The PPF that is running.
    pub at: Option<PpfId>,
    bursts: bool,
    /// The access before, where the next one may belong to it.
    last: Option<Access>,
}

#[derive(Clone, Copy, Debug)]
struct Access {
    packet: u128,
    store: bool,
    /// Bytes from the packet buffer's start: the first one, and the one after the last.
    from: u64,
    end: u64,
}

/// What a run of operations costs, bursts counted as one access. `number` gives values that are known; a packet's own
/// one names it.
pub(crate) fn in_line<'a>(ops: impl Iterator<Item = &'a Op>, number: impl Fn(Value) -> Option<u128>) -> Costs {
    let mut meter = Meter::new(true, 0);
    for op in ops {
        let packet = match op.touches() {
            Touches::Bytes { packet, .. } => Some(packet),
            _ => None,
        };
        let get = |value: Value| match number(value) {
            _ if Some(value) == packet => value.0.into(),
            Some(number) => number,
            // As long as most headers.
            None => HEADER,
        };
        meter.charge(op, get, |_| (HEADROOM, HEADROOM));
    }
    meter.found.costs
}

impl Meter {
    pub fn new(bursts: bool, ppfs: usize) -> Meter {
        let found = Metered { ppfs: vec![Costs::default(); ppfs], ..Metered::default() };
        Meter { bursts, found, ..Meter::default() }
    }

    fn add(&mut self, costs: Costs) {
        self.found.costs += costs;
        if let Some(ppf) = self.at.and_then(|ppf| self.found.ppfs.get_mut(ppf.0 as usize)) {
            *ppf += costs;
        }
    }

    /// Counts an operation. `get` gives operands, `head` where a packet's head is in its buffer.
    pub fn charge(&mut self, op: &Op, get: impl Fn(Value) -> u128, head: impl Fn(u128) -> (u64, u64)) {
        if matches!(op, Op::Const(_)) {
            return;
        }
        self.add(Costs { instructions: 1, ..Costs::default() });
        match op.touches() {
            Touches::Bytes { packet, span, how } => {
                let packet = get(packet);
                let (head, len) = head(packet);
                let bytes = span.bytes(head, len, get);
                match how {
                    How::Load => self.access(packet, false, bytes),
                    How::Store => self.access(packet, true, bytes),
                    How::Copy => {
                        for store in [false, true] {
                            self.access(packet, store, bytes);
                            self.last = None;
                        }
                    }
                }
            }
            Touches::Descriptor => {
                self.add(Costs { descriptor: 1, ..Costs::default() });
                self.last = None;
            }
            Touches::Nothing => {}
            Touches::Other => self.last = None,
        }
    }

    fn access(&mut self, packet: u128, store: bool, (from, end): (u64, u64)) {
        if from >= end {
            return;
        }
        let units = |from: u64, end: u64| end.div_ceil(UNIT) - from / UNIT;
        match &mut self.last {
            Some(last) if self.bursts && last.packet == packet && last.store == store && last.end == from => {
                let bytes = (units(last.from, end) - units(last.from, last.end)) * UNIT;
                last.end = end;
                self.add(Costs { bytes, ..Costs::default() });
            }
            last => {
                *last = Some(Access { packet, store, from, end });
                // The handle is resolved.
                self.add(Costs { accesses: 1, bytes: units(from, end) * UNIT, descriptor: 1, instructions: 0 });
            }
        }
    }
}

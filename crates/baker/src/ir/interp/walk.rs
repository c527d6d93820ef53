//! What a packet does on its way through a program, step by step, for people who ask why it went where it did. Noted
//! while the interpreter runs the program as it was written, before it is optimised.

use std::sync::Arc;

use super::exec::entry_of;
use super::tables::Store;
use super::{End, Machine, RunError};
use crate::ir::{BitRange, Body};
use crate::ir::{
    ChannelId, CounterId, DropId, Inst, MetaId, Op, PpfId, Program, ProtocolId, TableId, Target, Ty, Value,
};

/// Steps that are noted of one packet at most: what a program has bounds, but loops over long packets are long.
const MOST: usize = 4096;

/// One step. A packet is named by its number among those made of the received one, which is 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WalkStep {
    /// A packet of so many bytes is put to a channel. Where that leads to a PPF, the next steps are that one's.
    Put {
        /// The packet.
        packet: u32,
        /// The channel.
        channel: ChannelId,
        /// From the head to the end.
        bytes: u32,
    },
    /// A PPF goes on behind what it has put somewhere.
    Resumed(PpfId),
    /// A field of a header is read or written.
    Field {
        /// The packet.
        packet: u32,
        /// The header.
        protocol: ProtocolId,
        /// Index of the field.
        field: usize,
        /// What is there, or is then.
        value: u128,
        /// Whether it is written.
        written: bool,
    },
    /// Bytes at a place that the program has computed are read or written.
    Bytes {
        /// The packet.
        packet: u32,
        /// Where: from the first byte of the packet as it came in, if that is not in front of it.
        from_start: Option<BitRange>,
        /// Where: from the head.
        bits: BitRange,
        /// What is there, or is then.
        value: u128,
        /// Whether they are written.
        written: bool,
    },
    /// Metadata of a packet is read or set.
    Meta {
        /// The packet.
        packet: u32,
        /// The field.
        field: MetaId,
        /// What it is, or becomes.
        value: u128,
        /// Whether it is set.
        written: bool,
    },
    /// The packet's head is another header: one is taken off, or put in front.
    Header {
        /// The packet.
        packet: u32,
        /// The header.
        protocol: ProtocolId,
        /// Whether it was put in front.
        added: bool,
    },
    /// A table is asked.
    Lookup {
        /// The table.
        table: TableId,
        /// One number per field of the key.
        key: Vec<u128>,
        /// One per field of the value that the control plane sees; none where nothing is found.
        found: Option<Vec<u128>>,
    },
    /// A field of an entry is set.
    EntryField {
        /// The table.
        table: TableId,
        /// Index of the field of the value.
        field: u32,
        /// What it becomes.
        value: u128,
    },
    /// An entry is made or removed.
    Change {
        /// The table.
        table: TableId,
        /// One number per field of the key.
        key: Vec<u128>,
        /// One per field of the value; none where it is removed.
        value: Option<Vec<u128>>,
        /// Whether that could be done.
        done: bool,
    },
    /// The program counts.
    Count {
        /// The counter.
        counter: CounterId,
        /// Its cell.
        index: u128,
        /// How much is added.
        amount: u128,
    },
    /// A copy is made of a packet, or a packet of nothing.
    Made {
        /// The packet.
        packet: u32,
        /// Of which.
        of: Option<u32>,
    },
    /// A packet is held until it is asked for.
    Held {
        /// The packet.
        packet: u32,
        /// The table.
        table: TableId,
    },
    /// A packet is dropped.
    Dropped {
        /// The packet.
        packet: u32,
        /// Why.
        reason: DropId,
    },
    /// A packet leaves the program.
    Left {
        /// The packet.
        packet: u32,
        /// Where to.
        end: End,
        /// Metadata `tx.port`, which names the port where it is sent.
        port: u8,
    },
}

/// All steps of a packet, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// The steps.
    pub steps: Vec<WalkStep>,
    /// Whether there were more than are noted.
    pub is_cut: bool,
    /// Why the program could not be run to its end.
    pub failed: Option<RunError>,
}

impl Walk {
    fn note(&mut self, step: WalkStep) {
        match self.steps.len() < MOST {
            true => self.steps.push(step),
            false => self.is_cut = true,
        }
    }
}

/// Tables elsewhere, whose entries a machine uses as they are then. It changes nothing there.
pub trait TableSource: std::fmt::Debug + Send + Sync {
    /// What a packet's look-up finds: one number per field of the value that the control plane sees.
    fn find(&self, table: TableId, key: &[u128]) -> Option<Vec<u128>>;
}

impl Machine {
    /// A program whose tables are elsewhere: an entry is read there when an instruction first uses its key. It has none
    /// of its own, and so takes little memory.
    ///
    /// # Panics
    /// As [`Machine::new`].
    pub fn over(program: impl Into<Arc<Program>>, source: Arc<dyn TableSource>) -> Machine {
        Machine { source: Some(source), ..Self::with_stores(program.into(), Store::sparse) }
    }

    /// Hands a packet to a channel as [`Machine::inject`] does, and notes each step.
    pub fn walk(&mut self, channel: ChannelId, packet: &[u8], metadata: &[u128]) -> Walk {
        self.walking = Some(Box::default());
        let failed = self.enter(channel, packet, metadata).err();
        let walk = self.walking.take().map(|walk| *walk).unwrap_or_default();
        Walk { failed, ..walk }
    }

    /// Notes a step, if a walk is on the way.
    pub(super) fn note(&mut self, step: impl FnOnce(&Machine) -> WalkStep) {
        if self.walking.is_none() {
            return;
        }
        let step = step(self);
        if let Some(walk) = &mut self.walking {
            walk.note(step);
        }
    }

    /// Notes that a packet was put to a channel that leads to a PPF, or out of the program.
    pub(super) fn note_put(&mut self, channel: ChannelId, packet: usize) {
        let number = packet as u32;
        self.note(|own| WalkStep::Put { packet: number, channel, bytes: own.packets[packet].len() as u32 });
        let end = match self.program.channels[channel.0 as usize].target {
            Target::Ppf(_) => return,
            Target::Tx => End::Tx,
            Target::Host => End::Host,
            Target::Controller(_) | Target::Queue(..) | Target::Group(..) => End::Controller(channel),
        };
        self.note(|own| {
            let port = own.packets[packet].metadata.get(1).map_or(0, |port| *port as u8);
            WalkStep::Left { packet: number, end, port }
        });
    }

    /// Takes the entry of a key out of the source before an instruction uses it.
    pub(super) fn fetch(&mut self, table: TableId, key: &[u128]) {
        let Some(source) = self.source.clone() else { return };
        let store = &mut self.tables[table.0 as usize];
        if store.lookup(key).is_some() {
            return;
        }
        let Some(value) = source.find(table, key) else { return };
        // The whole key is a prefix, too, and leads to the same entry.
        let length = store.prefix_width();
        let _ = store.set(key, length, &value);
    }

    /// Notes what an instruction has done, of the walk that is on the way. `frame` holds its operands, and its result.
    pub(super) fn note_inst(&mut self, body: &Body, frame: &[u128], inst: &Inst) {
        let get = |value: Value| frame[value.0 as usize];
        let number = |value: Value| frame[value.0 as usize] as u32;
        let keys = |key: &[Value]| key.iter().map(|value| get(*value)).collect::<Vec<_>>();
        let result = inst.result.map_or(0, get);
        let step = match &inst.op {
            Op::Load { packet, bits } => self.field(body, *packet, number(*packet), *bits, result, false),
            Op::Store { packet, bits, value } => self.field(body, *packet, number(*packet), *bits, get(*value), true),
            Op::LoadAt { packet, offset, bits } => {
                let bits = BitRange { offset: bits.offset + 8 * number(*offset), ..*bits };
                Some(self.bytes(number(*packet), bits, result, false))
            }
            Op::StoreAt { packet, offset, bits, value } => {
                let bits = BitRange { offset: bits.offset + 8 * number(*offset), ..*bits };
                Some(self.bytes(number(*packet), bits, get(*value), true))
            }
            Op::MetaLoad { packet, field } => {
                Some(WalkStep::Meta { packet: number(*packet), field: *field, value: result, written: false })
            }
            Op::MetaStore { packet, field, value } => {
                Some(WalkStep::Meta { packet: number(*packet), field: *field, value: get(*value), written: true })
            }
            Op::Pull { .. } | Op::Push { .. } => match inst.result.map(|value| body.ty(value)) {
                Some(Ty::Packet(protocol)) => {
                    let added = matches!(inst.op, Op::Push { .. });
                    Some(WalkStep::Header { packet: result as u32, protocol, added })
                }
                _ => None,
            },
            Op::Copy { packet } => Some(WalkStep::Made { packet: result as u32, of: Some(number(*packet)) }),
            Op::Create => Some(WalkStep::Made { packet: result as u32, of: None }),
            Op::HoldPut { packet, table, .. } => Some(WalkStep::Held { packet: number(*packet), table: *table }),
            Op::Drop { packet, reason } => Some(WalkStep::Dropped { packet: number(*packet), reason: *reason }),
            Op::Lookup { table, key } => {
                let found = entry_of(result).and_then(|(table, slot)| self.tables[table].shown_values(slot));
                Some(WalkStep::Lookup { table: *table, key: keys(key), found })
            }
            Op::EntryStore { entry, field, value } => entry_of(get(*entry)).map(|(table, _)| WalkStep::EntryField {
                table: TableId(table as u32),
                field: *field,
                value: get(*value),
            }),
            Op::Insert { table, key, value, .. } => {
                Some(WalkStep::Change { table: *table, key: keys(key), value: Some(keys(value)), done: result == 1 })
            }
            Op::Remove { table, key } => {
                Some(WalkStep::Change { table: *table, key: keys(key), value: None, done: result == 1 })
            }
            Op::Count { counter, index, amount } => {
                Some(WalkStep::Count { counter: *counter, index: get(*index), amount: get(*amount) })
            }
            _ => None,
        };
        if let (Some(step), Some(walk)) = (step, &mut self.walking) {
            walk.note(step);
        }
    }

    /// An access to a field of a packet's header, or to other bytes of it.
    fn field(
        &self,
        body: &Body,
        handle: Value,
        packet: u32,
        bits: BitRange,
        value: u128,
        written: bool,
    ) -> Option<WalkStep> {
        let Ty::Packet(protocol) = body.ty(handle) else { return None };
        let fields = &self.program.protocols[protocol.0 as usize].fields;
        Some(match fields.iter().position(|field| field.bits == bits) {
            Some(field) => WalkStep::Field { packet, protocol, field, value, written },
            None => self.bytes(packet, bits, value, written),
        })
    }

    /// An access to bytes that are no field of the header at the packet's head.
    fn bytes(&self, packet: u32, bits: BitRange, value: u128, written: bool) -> WalkStep {
        let (head, _) = self.packets[packet as usize].extent();
        let moved = head.checked_sub(self.layout.headroom.into());
        let from_start = moved.map(|moved| BitRange { offset: bits.offset + 8 * moved as u32, ..bits });
        WalkStep::Bytes { packet, from_start, bits, value, written }
    }
}

//! The operations of the IR, one row each: the types of their operands and result, what they do, and what they touch.
//!
//! The verifier, the printer, passes, costs and models go by these rows. A new operation is a variant of [`Op`], a row
//! in [`Op::row`], its operands in [`Op::operands_mut`], and its meaning in the interpreter and in each code generator.

use super::inst::{Op, Value};

/// Type of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A packet. It is the first operand of all operations that have one.
    Packet,
    /// A pointer to an entry.
    Entry,
    /// An integer of any width.
    Number,
    /// An integer of so many bits.
    Bits(u32),
    /// The type of the operand with this index.
    As(usize),
    /// What the declaration that the operation names says: a field, a table, a function.
    Declared,
}

/// Type of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There is none.
    None,
    /// An integer of so many bits.
    Bits(u32),
    /// The type of the operand with this index.
    As(usize),
    /// A packet.
    Packet,
    /// What the declaration that the operation names says, or the operation itself.
    Declared,
}

/// What an operation reads or writes beside its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Nothing: the result is computed from the operands.
    Nothing,
    /// The packet's bytes.
    Bytes,
    /// The packet's descriptor or metadata.
    Descriptor,
    /// Something else: a table, a counter, the clock, what becomes of a packet.
    Other,
}

/// What there is to know of an operation.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its name in printed IR; of operations with several forms, that of all of them.
    pub name: &'static str,
    /// Types of its operands, in order. Those of keys, values and arguments come behind and are [`Operand::Declared`].
    pub operands: &'static [Operand],
    /// Type of its result.
    pub outcome: Outcome,
    /// It does nothing but compute its result, so that it may go when the result is not used.
    pub pure: bool,
    /// It may stand between [`Op::Lock`] and [`Op::Unlock`].
    pub while_locked: bool,
    /// It consumes the packet.
    pub consumes: bool,
    /// What it reads or writes.
    pub memory: Memory,
}

impl Row {
    /// What has an effect, and stays out of critical sections.
    const fn effect(name: &'static str, operands: &'static [Operand], outcome: Outcome, memory: Memory) -> Row {
        Row { name, operands, outcome, pure: false, while_locked: false, consumes: false, memory }
    }

    /// What computes its result, also while an entry is locked.
    const fn value(name: &'static str, operands: &'static [Operand], outcome: Outcome, memory: Memory) -> Row {
        Row { pure: true, ..Row::effect(name, operands, outcome, memory) }.while_locked()
    }

    const fn while_locked(self) -> Row {
        Row { while_locked: true, ..self }
    }

    const fn not_while_locked(self) -> Row {
        Row { while_locked: false, ..self }
    }

    const fn consumes(self) -> Row {
        Row { consumes: true, ..self }
    }
}

impl Op {
    /// Its row.
    pub fn row(&self) -> &'static Row {
        use Memory::*;
        use Operand::{As, Bits, Declared, Entry, Number, Packet};
        use Outcome as To;
        match self {
            Op::Const(_) => const { &Row::value("const", &[], To::Declared, Nothing) },
            Op::Bin(..) => const { &Row::value("bin", &[Number, As(0)], To::As(0), Nothing) },
            Op::Cmp(..) => const { &Row::value("cmp", &[Number, As(0)], To::Bits(1), Nothing) },
            Op::Cast(..) => const { &Row::value("cast", &[Number], To::Declared, Nothing) },
            Op::Select(..) => const { &Row::value("select", &[Bits(1), Declared, As(1)], To::As(1), Nothing) },
            Op::Now => const { &Row::value("now", &[], To::Bits(64), Other) },

            Op::Load { .. } => const { &Row::value("load", &[Packet], To::Declared, Bytes) },
            Op::Store { .. } => const { &Row::effect("store", &[Packet, Declared], To::None, Bytes).while_locked() },
            Op::LoadAt { .. } => const { &Row::value("load_at", &[Packet, Bits(32)], To::Declared, Bytes) },
            Op::StoreAt { .. } => {
                const { &Row::effect("store_at", &[Packet, Bits(32), Declared], To::None, Bytes).while_locked() }
            }
            Op::Sum { .. } => {
                const { &Row::value("sum", &[Packet, Bits(32), Bits(32)], To::Bits(16), Bytes).not_while_locked() }
            }
            Op::Checksum { .. } => {
                const { &Row::effect("checksum", &[Packet, Bits(32), Bits(32), Bits(32)], To::None, Bytes) }
            }
            Op::Has { .. } => const { &Row::value("has", &[Packet, Bits(32)], To::Bits(1), Descriptor) },
            Op::Len { .. } => const { &Row::value("len", &[Packet], To::Bits(32), Descriptor) },
            Op::Trim { .. } => const { &Row::effect("trim", &[Packet, Bits(32)], To::None, Descriptor) },
            Op::Grow { .. } => const { &Row::effect("grow", &[Packet, Bits(32)], To::Bits(1), Descriptor) },
            Op::Pull { .. } => const { &Row::effect("pull", &[Packet, Bits(32)], To::Packet, Descriptor).consumes() },
            Op::Push { .. } => const { &Row::effect("push", &[Packet], To::Packet, Bytes).consumes() },
            // The optimiser may put a head into memory at a use of it.
            Op::Move { .. } => {
                const { &Row::effect("move", &[Packet], To::Packet, Descriptor).consumes().while_locked() }
            }
            Op::Copy { .. } => const { &Row::effect("copy", &[Packet], To::As(0), Bytes) },
            Op::Create => const { &Row::effect("create", &[], To::Packet, Descriptor) },
            Op::MetaLoad { .. } => const { &Row::value("meta_load", &[Packet], To::Declared, Descriptor) },
            Op::MetaStore { .. } => {
                const { &Row::effect("meta_store", &[Packet, Declared], To::None, Descriptor).while_locked() }
            }
            Op::Put { .. } => const { &Row::effect("put", &[Packet], To::None, Other).consumes() },
            Op::Tap { .. } => const { &Row::effect("tap", &[Packet, Bits(32)], To::None, Bytes) },
            Op::Pass { .. } => const { &Row::effect("pass", &[], To::None, Other) },
            Op::Time { .. } => const { &Row::effect("time", &[], To::None, Other) },
            Op::Drop { .. } => const { &Row::effect("drop", &[Packet], To::None, Other).consumes() },

            Op::Discard { .. } => const { &Row::effect("discard", &[Packet], To::None, Other).consumes() },
            Op::HoldPut { .. } => const { &Row::effect("hold_put", &[Packet, Bits(64)], To::None, Other).consumes() },
            Op::HoldGet { .. } => const { &Row::effect("hold_get", &[Bits(64)], To::Packet, Other) },

            Op::Lookup { .. } => const { &Row::value("lookup", &[], To::Declared, Other).not_while_locked() },
            Op::Found { .. } => const { &Row::effect("found", &[Entry], To::None, Other) },
            Op::IsNull(_) => const { &Row::value("is_null", &[Entry], To::Bits(1), Other) },
            Op::EntryLoad { .. } => const { &Row::value("entry_load", &[Entry], To::Declared, Other) },
            Op::EntryStore { .. } => {
                const { &Row::effect("entry_store", &[Entry, Declared], To::None, Other).while_locked() }
            }
            Op::Lock { .. } => const { &Row::effect("lock", &[Entry], To::None, Other) },
            Op::Fence => const { &Row::effect("fence", &[], To::None, Other) },
            Op::Unlock { .. } => const { &Row::effect("unlock", &[Entry], To::None, Other) },
            Op::Insert { .. } => const { &Row::effect("insert", &[], To::Bits(1), Other) },
            Op::Remove { .. } => const { &Row::effect("remove", &[], To::Bits(1), Other) },
            Op::SetDeadline { .. } => const { &Row::effect("set_deadline", &[Bits(64)], To::Bits(1), Other) },
            Op::TakeDeadline { .. } => const { &Row::effect("take_deadline", &[], To::Bits(1), Other) },
            Op::Extern { .. } => const { &Row::effect("extern", &[], To::Declared, Other) },
            Op::Take { .. } => const { &Row::effect("take", &[Entry, Bits(64)], To::Bits(1), Other) },
            Op::Count { .. } => const { &Row::effect("count", &[Bits(32), Bits(64)], To::None, Other) },
        }
    }

    /// The values that it uses.
    pub fn operands(&self) -> Vec<Value> {
        let mut copy = self.clone();
        let mut values = Vec::new();
        copy.operands_mut(|v| values.push(*v));
        values
    }

    /// Visits the values that it uses, to change them.
    pub fn operands_mut(&mut self, mut visit: impl FnMut(&mut Value)) {
        match self {
            Op::Const(_) | Op::Now | Op::Create | Op::Pass { .. } | Op::Time { .. } | Op::Fence => {}
            Op::Cast(_, a) | Op::IsNull(a) | Op::Found { entry: a, .. } => visit(a),
            Op::Bin(_, a, b) | Op::Cmp(_, a, b) => {
                visit(a);
                visit(b);
            }
            Op::Select(a, b, c) => {
                visit(a);
                visit(b);
                visit(c);
            }
            Op::Load { packet, .. }
            | Op::Len { packet }
            | Op::Push { packet, .. }
            | Op::Move { packet, .. }
            | Op::Copy { packet }
            | Op::MetaLoad { packet, .. }
            | Op::Put { packet, .. }
            | Op::Discard { packet }
            | Op::Drop { packet, .. } => visit(packet),
            Op::HoldPut { packet, key, .. } => {
                visit(packet);
                visit(key);
            }
            Op::Tap { packet, skip, metadata, .. } => {
                visit(packet);
                visit(skip);
                metadata.iter_mut().for_each(|(_, value)| visit(value));
            }
            Op::HoldGet { key, .. } => visit(key),
            Op::Has { packet, bytes }
            | Op::Pull { packet, bytes }
            | Op::Trim { packet, bytes }
            | Op::Grow { packet, bytes, .. } => {
                visit(packet);
                visit(bytes);
            }
            Op::Store { packet, value, .. } | Op::MetaStore { packet, value, .. } => {
                visit(packet);
                visit(value);
            }
            Op::LoadAt { packet, offset, .. } => {
                visit(packet);
                visit(offset);
            }
            Op::StoreAt { packet, offset, value, .. } => {
                visit(packet);
                visit(offset);
                visit(value);
            }
            Op::Sum { packet, offset, bytes } => {
                visit(packet);
                visit(offset);
                visit(bytes);
            }
            Op::Checksum { packet, at, covered, pseudo, .. } => {
                [packet, at, covered, pseudo].into_iter().for_each(visit);
            }
            Op::EntryLoad { entry, .. } | Op::Lock { entry } | Op::Unlock { entry } => visit(entry),
            Op::EntryStore { entry, value, .. } => {
                visit(entry);
                visit(value);
            }
            Op::Lookup { key: values, .. }
            | Op::Remove { key: values, .. }
            | Op::TakeDeadline { key: values, .. }
            | Op::Extern { args: values, .. } => values.iter_mut().for_each(visit),
            Op::SetDeadline { key, at, .. } => [at].into_iter().chain(key).for_each(visit),
            Op::Insert { key, value, .. } => key.iter_mut().chain(value).for_each(visit),
            Op::Count { index: first, amount, .. } | Op::Take { entry: first, amount } => {
                visit(first);
                visit(amount);
            }
        }
    }

    /// The packet that it works on: its first operand, where that is one.
    pub fn packet(&self) -> Option<Value> {
        let is_packet = matches!(self.row().operands, [Operand::Packet, ..]);
        is_packet.then(|| self.operands()[0])
    }

    /// The packet that it consumes.
    pub(crate) fn consumed(&self) -> Option<Value> {
        self.packet().filter(|_| self.row().consumes)
    }

    /// Whether it does nothing but compute its result, so that it may go when the result is not used.
    pub fn is_pure(&self) -> bool {
        self.row().pure
    }

    /// Whether it computes its result from its operands alone.
    pub fn is_arithmetic(&self) -> bool {
        self.row().memory == Memory::Nothing
    }
}

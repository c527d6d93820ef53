//! Types of operands, results and block arguments; ids and bit ranges in instructions.

use super::{Errors, blocks};
use crate::ir::arith::mask;
use crate::ir::*;

pub(super) fn check(program: &Program, body: &Body, errors: &mut Errors) {
    for (id, block) in blocks(body) {
        let mut checker = Checker { program, body, errors, block: id };
        for inst in &block.insts {
            checker.inst(inst);
        }
        if let Terminator::Branch(condition, ..) = &block.term {
            checker.expect(*condition, Ty::Int(1));
        }
        for dest in block.term.dests() {
            body.passed(dest).for_each(|(param, arg)| checker.expect(arg, body.ty(param)));
        }
    }
}

/// Bytes that a head moves at most in one step.
const MOVE: u32 = 1024;

struct Checker<'a> {
    program: &'a Program,
    body: &'a Body,
    errors: &'a mut Errors,
    block: BlockId,
}

impl<'a> Checker<'a> {
    fn error(&mut self, message: String) {
        self.errors.at(self.block, message);
    }

    fn expect(&mut self, value: Value, ty: Ty) {
        let found = self.body.ty(value);
        if found != ty {
            self.error(format!("v{} is {} where {} is needed", value.0, describe(found), describe(ty)));
        }
    }

    fn int(&mut self, value: Value) {
        let ty = self.body.ty(value);
        if !matches!(ty, Ty::Int(_)) {
            self.error(format!("v{} is {} where bits are needed", value.0, describe(ty)));
        }
    }

    fn packet(&mut self, value: Value) {
        if self.protocol(value).is_none() {
            self.error(format!("v{} is {} where a packet is needed", value.0, describe(self.body.ty(value))));
        }
    }

    /// The protocol of a packet.
    fn protocol(&self, value: Value) -> Option<&'a Protocol> {
        match self.body.ty(value) {
            Ty::Packet(id) => Some(&self.program.protocols[id.0 as usize]),
            _ => None,
        }
    }

    fn entry(&mut self, value: Value) {
        let ty = self.body.ty(value);
        if !matches!(ty, Ty::Entry(_)) {
            self.error(format!("v{} is {} where an entry is needed", value.0, describe(ty)));
        }
    }

    fn result(&mut self, inst: &Inst) -> Option<Ty> {
        if inst.result.is_none() {
            self.error(format!("{:?} has no result", inst.op));
        }
        inst.result.map(|value| self.body.ty(value))
    }

    fn expect_result(&mut self, inst: &Inst, ty: Ty) {
        if self.result(inst).is_some_and(|found| found != ty) {
            self.error(format!("the result of {:?} is not {}", inst.op, describe(ty)));
        }
    }

    fn no_result(&mut self, inst: &Inst) {
        if let Some(result) = inst.result {
            self.error(format!("v{} is the result of an operation without one", result.0));
        }
    }

    fn inst(&mut self, inst: &Inst) {
        let row = inst.op.row();
        let values = inst.op.operands();
        for (value, operand) in values.iter().zip(row.operands) {
            match *operand {
                Operand::Packet => self.packet(*value),
                Operand::Entry => self.entry(*value),
                Operand::Number => self.int(*value),
                Operand::Bits(width) => self.expect(*value, Ty::Int(width)),
                Operand::As(other) => self.expect(*value, self.body.ty(values[other])),
                Operand::Declared => {}
            }
        }
        match row.outcome {
            Outcome::None => self.no_result(inst),
            Outcome::Bits(width) => self.expect_result(inst, Ty::Int(width)),
            Outcome::As(operand) => self.expect_result(inst, self.body.ty(values[operand])),
            Outcome::Packet => self.packet_result(inst),
            Outcome::Declared => {}
        }
        self.declared(inst);
    }

    /// What the row of an operation leaves to declarations and to the operation itself.
    fn declared(&mut self, inst: &Inst) {
        match &inst.op {
            Op::Const(number) => match self.result(inst) {
                Some(Ty::Int(width)) if number & !mask(width) != 0 => {
                    self.error(format!("the constant {number} does not fit {width} bits"))
                }
                // 0 as an entry is null.
                Some(Ty::Entry(_)) if *number == 0 => {}
                Some(ty @ (Ty::Packet(_) | Ty::Entry(_))) => {
                    self.error(format!("the constant {number} cannot be {}", describe(ty)))
                }
                _ => {}
            },
            Op::Cast(op, a) => self.cast(inst, *op, *a),
            Op::Select(_, a, _) => {
                if let Ty::Packet(_) = self.body.ty(*a) {
                    self.error(format!("packet v{} cannot be selected", a.0));
                }
            }
            Op::Load { packet, bits } => {
                self.header_bits(*packet, *bits);
                self.expect_result(inst, Ty::Int(bits.width));
            }
            Op::Store { packet, bits, value } => {
                self.header_bits(*packet, *bits);
                self.expect(*value, Ty::Int(bits.width));
            }
            Op::LoadAt { bits, .. } => {
                self.dynamic_bits(*bits);
                self.expect_result(inst, Ty::Int(bits.width));
            }
            Op::StoreAt { bits, value, .. } => {
                self.dynamic_bits(*bits);
                self.expect(*value, Ty::Int(bits.width));
            }
            Op::Push { bytes, .. } => {
                if let Some(protocol) = inst.result.and_then(|result| self.protocol(result))
                    && protocol.size != *bytes
                {
                    let (name, size) = (&protocol.name, protocol.size);
                    self.error(format!("push of {bytes} bytes for {name}, whose fixed header has {size}"));
                }
            }
            Op::Move { by, .. } => {
                if by.unsigned_abs() > MOVE {
                    self.error(format!("a head moved by {by} bytes"));
                }
            }
            Op::MetaLoad { field, .. } => {
                if let Some(width) = self.meta(*field) {
                    self.expect_result(inst, Ty::Int(width));
                }
            }
            Op::MetaStore { field, value, .. } => {
                if let Some(width) = self.meta(*field) {
                    self.expect(*value, Ty::Int(width));
                }
            }
            Op::Put { packet, channel } => match self.program.channels.get(channel.0 as usize) {
                None => self.error(format!("there is no channel {}", channel.0)),
                Some(_) if *channel == Program::RX => self.error("put to rx, which only ports do".into()),
                Some(channel) if channel.from.is_some() => {
                    self.error(format!("put to {}, which only a controller does", channel.name))
                }
                Some(channel) => self.expect(*packet, Ty::Packet(channel.protocol)),
            },
            Op::Tap { metadata, channel, .. } => {
                match self.program.channels.get(channel.0 as usize).map(|channel| channel.target) {
                    None => self.error(format!("there is no channel {}", channel.0)),
                    Some(Target::Ppf(_)) => self.error("a tap of a channel that leads to a PPF".into()),
                    Some(_) => {}
                }
                for (field, value) in metadata {
                    if let Some(width) = self.meta(*field) {
                        self.expect(*value, Ty::Int(width));
                    }
                }
            }
            Op::Pass { channel } => {
                if channel.0 as usize >= self.program.channels.len() {
                    self.error(format!("there is no channel {}", channel.0));
                }
            }
            Op::Time { ppf } => {
                if !self.program.timed || ppf.0 as usize >= self.program.ppfs.len() {
                    self.error(format!("the time of PPF {}, which is not measured", ppf.0));
                }
            }
            Op::Drop { reason, .. } => {
                if reason.0 as usize >= self.program.drop_reasons.len() {
                    self.error(format!("there is no drop reason {}", reason.0));
                }
            }
            Op::HoldPut { packet, table, .. } => {
                if let Some(protocol) = self.held(*table) {
                    self.expect(*packet, Ty::Packet(protocol));
                }
            }
            Op::HoldGet { table, .. } => {
                if let Some(protocol) = self.held(*table) {
                    self.expect_result(inst, Ty::Packet(protocol));
                }
            }
            Op::Lookup { table, key } => {
                if let Some(table) = self.table(*table) {
                    self.fields(key, table.key);
                    self.expect_result(inst, Ty::Entry(table.value));
                }
            }
            Op::Found { table, entry } => match self.program.tables.get(table.0 as usize) {
                Some(table) if self.program.timed => self.expect(*entry, Ty::Entry(table.value)),
                _ => self.error(format!("look-ups in table {}, which are not counted", table.0)),
            },
            Op::EntryLoad { entry, field } => {
                if let Some(width) = self.entry_field(*entry, *field) {
                    self.expect_result(inst, Ty::Int(width));
                }
            }
            Op::EntryStore { entry, field, value } => {
                if let Some(width) = self.entry_field(*entry, *field) {
                    self.expect(*value, Ty::Int(width));
                }
            }
            Op::Lock { entry } | Op::Unlock { entry } => {
                if let Ty::Entry(layout) = self.body.ty(*entry) {
                    let of_layout = |table: &&Table| table.value == layout;
                    if !self.program.tables.iter().filter(of_layout).all(|table| table.locked) {
                        self.error(format!("v{} leads into a table whose entries have no lock", entry.0));
                    }
                }
            }
            Op::Insert { table, key, value, new } => {
                if let Some(table) = self.table(*table) {
                    // Where nothing is removed all entries are there.
                    if !table.kind_row().inserts || *new && !table.kind_row().removes {
                        self.error(format!("insert into {} {}", table.kind_row().name, table.name));
                    }
                    self.fields(key, table.key);
                    self.some_fields(value, table.value, usize::from(table.locked));
                }
            }
            Op::Remove { table, key } => {
                if let Some(table) = self.table(*table) {
                    if !table.kind_row().removes {
                        self.error(format!("remove from {}, which is not a hash", table.name));
                    }
                    self.fields(key, table.key);
                }
            }
            Op::SetDeadline { table, key, .. } | Op::TakeDeadline { table, key } => {
                let timer = self.program.deadline_timer(*table).is_some();
                if let Some(table) = self.table(*table) {
                    if !timer {
                        self.error(format!("deadline in {}, whose entries have none", table.name));
                    }
                    self.fields(key, table.key);
                }
            }
            Op::Extern { function, args } => self.call(inst, *function, args),
            Op::Take { entry, .. } => {
                if let Ty::Entry(layout) = self.body.ty(*entry) {
                    let of_layout = |table: &&Table| table.value == layout;
                    if !self.program.tables.iter().filter(of_layout).all(|table| table.meter.is_some()) {
                        self.error(format!("v{} leads into a table whose values are no meters", entry.0));
                    }
                }
            }
            Op::Count { counter, .. } => {
                if counter.0 as usize >= self.program.counters.len() {
                    self.error(format!("there is no counter {}", counter.0));
                }
            }
            // Their rows say it all.
            Op::Bin(..)
            | Op::Cmp(..)
            | Op::Now
            | Op::Sum { .. }
            | Op::Checksum { .. }
            | Op::Has { .. }
            | Op::Len { .. }
            | Op::Trim { .. }
            | Op::Grow { .. }
            | Op::Pull { .. }
            | Op::Copy { .. }
            | Op::Create
            | Op::Fence
            | Op::Discard { .. }
            | Op::IsNull(_) => {}
        }
    }

    fn call(&mut self, inst: &Inst, function: ExternId, args: &[Value]) {
        let Some(Extern { name, params, result, .. }) = self.program.externs.get(function.0 as usize) else {
            return self.error(format!("there is no extern {}", function.0));
        };
        if params.len() != args.len() {
            return self.error(format!("extern {name} takes {} arguments and gets {}", params.len(), args.len()));
        }
        args.iter().zip(params).for_each(|(arg, width)| self.expect(*arg, Ty::Int(*width)));
        match result {
            Some(width) => self.expect_result(inst, Ty::Int(*width)),
            None => self.no_result(inst),
        }
    }

    /// Bits at a place found at run time.
    fn dynamic_bits(&mut self, bits: BitRange) {
        // What is addressed lies in a header or is a number, so the bits are near.
        if !(1..=128).contains(&bits.width) || bits.offset > 8 * 512 {
            self.error(format!("bits [{}..{}] of a header", bits.offset, bits.offset as u64 + bits.width as u64));
        }
    }

    fn cast(&mut self, inst: &Inst, op: CastOp, operand: Value) {
        let (Ty::Int(from), Some(ty)) = (self.body.ty(operand), self.result(inst)) else { return };
        let right = match (op, ty) {
            (CastOp::ZExt | CastOp::SExt, Ty::Int(to)) => to > from,
            (CastOp::Trunc, Ty::Int(to)) => to < from,
            _ => false,
        };
        if !right {
            self.error(format!("{op:?} cannot make {} of {from} bits", describe(ty)));
        }
    }

    fn header_bits(&mut self, packet: Value, bits: BitRange) {
        if let Some(protocol) = self.protocol(packet) {
            let end = bits.offset as u64 + bits.width as u64;
            if !(1..=128).contains(&bits.width) || end > protocol.size as u64 * 8 {
                let name = &protocol.name;
                self.error(format!("bits [{}..{end}] are not within the fixed header of {name}", bits.offset));
            }
        }
    }

    fn packet_result(&mut self, inst: &Inst) {
        if let Some(ty) = self.result(inst)
            && !matches!(ty, Ty::Packet(_))
        {
            self.error(format!("the result of {:?} is {}, not a packet", inst.op, describe(ty)));
        }
    }

    fn meta(&mut self, field: MetaId) -> Option<u32> {
        let width = self.program.metadata.get(field.0 as usize).map(|field| field.width);
        if width.is_none() {
            self.error(format!("there is no metadata field {}", field.0));
        }
        width
    }

    fn table(&mut self, table: TableId) -> Option<&'a Table> {
        let found = self.program.tables.get(table.0 as usize);
        if found.is_none() {
            self.error(format!("there is no table {}", table.0));
        }
        found
    }

    /// What a hold table holds.
    fn held(&mut self, table: TableId) -> Option<ProtocolId> {
        let table = self.table(table)?;
        if table.hold.is_none() {
            self.error(format!("{} holds no packets", table.name));
        }
        table.hold.map(|hold| hold.protocol)
    }

    fn entry_field(&mut self, entry: Value, field: u32) -> Option<u32> {
        let Ty::Entry(id) = self.body.ty(entry) else { return None };
        let layout = &self.program.layouts[id.0 as usize];
        let width = layout.fields.get(field as usize).map(|field| field.width);
        if width.is_none() {
            self.error(format!("layout {} has no field {field}", layout.name));
        }
        width
    }

    /// One value of the right width per field of a layout.
    fn fields(&mut self, values: &[Value], layout: LayoutId) {
        self.some_fields(values, layout, 0);
    }

    /// As [`Checker::fields`] but for the last `without` fields.
    fn some_fields(&mut self, values: &[Value], layout: LayoutId, without: usize) {
        let layout = &self.program.layouts[layout.0 as usize];
        let fields = layout.fields.len() - without;
        if values.len() != fields {
            self.error(format!("{} has {fields} fields and gets {} values", layout.name, values.len()));
            return;
        }
        for (value, field) in values.iter().zip(&layout.fields) {
            self.expect(*value, Ty::Int(field.width));
        }
    }
}

fn describe(ty: Ty) -> String {
    match ty {
        Ty::Int(width) => format!("u{width}"),
        Ty::Entry(layout) => format!("an entry of layout {}", layout.0),
        Ty::Packet(protocol) => format!("a packet of protocol {}", protocol.0),
    }
}

//! Runs PPFs and timers, instruction by instruction.

use super::{Code, End, Machine, RunError, STEP_LIMIT, Step, WalkStep};
use crate::ir::arith::mask;
use crate::ir::deadline::deadline;
use crate::ir::*;

/// A PPF or timer that is under way: where it goes on, and where its values lie.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    code: Code,
    block: usize,
    next: usize,
    /// First of its registers.
    base: usize,
    /// The PPF that it came to: in an aggregate the last one whose channel it passed.
    ppf: Option<PpfId>,
}

/// Why an instruction could not be done.
enum Fault {
    BeyondEnd,
    NullEntry,
    NoExterns,
}

impl Machine {
    /// Hands a packet to a channel and runs all that follows from it.
    pub(super) fn run(&mut self, program: &Program, channel: ChannelId, packet: usize) -> Result<(), RunError> {
        self.calls.clear();
        let mut registers = std::mem::take(&mut self.registers);
        self.put(program, &mut registers, channel, packet as u128, 0);
        self.resume_all(program, registers)
    }

    /// Runs a timer for one key, and all that follows from it.
    pub(super) fn run_timer(&mut self, program: &Program, timer: TimerId, key: &[u128]) -> Result<(), RunError> {
        self.calls.clear();
        let mut registers = std::mem::take(&mut self.registers);
        self.call(program, &mut registers, Code::Timer(timer), key, 0);
        self.resume_all(program, registers)
    }

    /// Puts a call on top; `base` is where free registers begin.
    fn call(&mut self, program: &Program, registers: &mut Vec<u128>, code: Code, arguments: &[u128], base: usize) {
        let (_, body) = code.of(program);
        if registers.len() < base + body.values.len() {
            registers.resize(base + body.values.len(), 0);
        }
        for (param, argument) in body.blocks[0].params.iter().zip(arguments) {
            registers[base + param.0 as usize] = *argument;
        }
        if let (Some(recording), Code::Ppf(ppf), [packet]) = (&mut self.recording, code, arguments) {
            recording.enter(ppf, self.packets[*packet as usize].len());
        }
        let ppf = if let Code::Ppf(ppf) = code { Some(ppf) } else { None };
        self.calls.push(Call { code, block: 0, next: 0, base, ppf });
    }

    fn resume_all(&mut self, program: &Program, mut registers: Vec<u128>) -> Result<(), RunError> {
        let mut steps = 0;
        let mut result = Ok(());
        while let (Some(call), Ok(())) = (self.calls.pop(), &result) {
            result = self.resume(program, &mut registers, call, &mut steps);
        }
        self.registers = registers;
        result
    }

    /// Counts the packet on the channel, then makes it an output or puts a call on top; `base` is where free registers
    /// begin.
    fn put(&mut self, program: &Program, registers: &mut Vec<u128>, channel: ChannelId, packet: u128, base: usize) {
        self.count_channel(channel);
        self.note_put(channel, packet as usize);
        match program.channels[channel.0 as usize].target {
            Target::Tx => self.output(End::Tx, packet as usize),
            Target::Host => self.output(End::Host, packet as usize),
            Target::Controller(_) | Target::Queue(..) | Target::Group(..) => {
                self.output(End::Controller(channel), packet as usize);
            }
            Target::Ppf(id) => self.call(program, registers, Code::Ppf(id), &[packet], base),
        }
    }

    /// Runs a call until it ends or puts a packet into another PPF, which then goes first.
    fn resume(
        &mut self,
        program: &Program,
        registers: &mut Vec<u128>,
        mut call: Call,
        steps: &mut u64,
    ) -> Result<(), RunError> {
        let (name, body) = call.code.of(program);
        let ppf = || name.to_string();
        if let Some(meter) = &mut self.meter {
            meter.at = call.ppf;
        }
        if let (Some(ppf), true) = (call.ppf, call.next > 0) {
            self.note(|_| WalkStep::Resumed(ppf));
        }
        loop {
            let block = &body.blocks[call.block];
            if call.next == 0 {
                *steps += block.insts.len() as u64 + 1;
                if *steps > STEP_LIMIT {
                    return Err(RunError::StepLimit { ppf: ppf() });
                }
                if let (Some(recording), Code::Ppf(ppf)) = (&mut self.recording, call.code) {
                    recording.block(ppf, call.block);
                }
            }
            while let Some(inst) = block.insts.get(call.next) {
                if let Some(execution) = &mut self.execution {
                    let frame = &registers[call.base..];
                    let get = |value: Value| frame[value.0 as usize];
                    let extent = |packet: usize| self.packets[packet].extent();
                    execution.operation((call.code, call.block, call.next), &inst.op, get, extent);
                }
                call.next += 1;
                if let Op::Put { packet, channel } = inst.op {
                    let packet = registers[call.base + packet.0 as usize];
                    if !matches!(program.channels[channel.0 as usize].target, Target::Ppf(_)) {
                        self.put(program, registers, channel, packet, 0);
                        continue;
                    }
                    self.calls.push(call);
                    self.put(program, registers, channel, packet, call.base + body.values.len());
                    return Ok(());
                }
                if let Op::Tap { packet, skip, metadata, channel } = &inst.op {
                    let frame = &registers[call.base..];
                    let get = |value: &Value| frame[value.0 as usize];
                    let copy = self.copy_of(get(packet) as usize);
                    self.packets[copy].pull(get(skip)).ok_or_else(|| RunError::BeyondEnd { ppf: ppf() })?;
                    for (field, value) in metadata {
                        self.packets[copy].metadata[field.0 as usize] = get(value);
                    }
                    // It leads out of the program.
                    self.put(program, registers, *channel, copy as u128, 0);
                    continue;
                }
                if let (Some(meter), Op::Pass { channel }) = (&mut self.meter, &inst.op)
                    && let Target::Ppf(next) = program.channels[channel.0 as usize].target
                {
                    call.ppf = Some(next);
                    meter.at = call.ppf;
                }
                let frame = &mut registers[call.base..call.base + body.values.len()];
                if let (Some(recording), Code::Ppf(ppf)) = (&mut self.recording, call.code) {
                    recording.inst(ppf, &inst.op, |value| frame[value.0 as usize]);
                }
                self.step(program, body, frame, inst).map_err(|fault| match fault {
                    Fault::BeyondEnd => RunError::BeyondEnd { ppf: ppf() },
                    Fault::NullEntry => RunError::NullEntry { ppf: ppf() },
                    Fault::NoExterns => RunError::NoExterns { ppf: ppf() },
                })?;
                if self.walking.is_some() {
                    self.note_inst(body, &registers[call.base..], inst);
                }
            }
            if let Some(execution) = &mut self.execution {
                execution.block(call.code, call.block, call.next);
            }
            let frame = &mut registers[call.base..call.base + body.values.len()];
            let dest = match &block.term {
                Terminator::Jump(dest) => dest,
                Terminator::Branch(condition, then, other) => {
                    let edge = usize::from(frame[condition.0 as usize] != 1);
                    if let (Some(recording), Code::Ppf(ppf)) = (&mut self.recording, call.code) {
                        recording.branch(ppf, call.block, edge);
                    }
                    [then, other][edge]
                }
                Terminator::Return => return Ok(()),
            };
            self.pass_arguments(body, frame, dest);
            call.block = dest.block.0 as usize;
            call.next = 0;
        }
    }

    /// Makes a key the arguments, with numbers behind it. Where the tables are elsewhere, the key's entry is taken out
    /// of them.
    fn argue(&mut self, frame: &[u128], table: TableId, key: &[Value], behind: &[Value]) {
        self.arguments.clear();
        self.arguments.extend(key.iter().chain(behind).map(|value| frame[value.0 as usize]));
        if self.source.is_some() {
            let key = self.arguments[..key.len()].to_vec();
            self.fetch(table, &key);
        }
    }

    /// All arguments are read before the first parameter is written: a block may swap its own parameters.
    fn pass_arguments(&mut self, body: &Body, frame: &mut [u128], dest: &Dest) {
        let params = &body.blocks[dest.block.0 as usize].params;
        self.arguments.clear();
        self.arguments.extend(dest.args.iter().map(|arg| frame[arg.0 as usize]));
        for (param, argument) in params.iter().zip(&self.arguments) {
            frame[param.0 as usize] = *argument;
        }
    }

    /// One instruction other than `put`.
    fn step(&mut self, program: &Program, body: &Body, frame: &mut [u128], inst: &Inst) -> Result<(), Fault> {
        let get = |value: Value| frame[value.0 as usize];
        let packet = |value: Value| frame[value.0 as usize] as usize;
        if let Some(meter) = &mut self.meter {
            meter.charge(&inst.op, get, |packet| self.packets[packet as usize].extent());
        }
        // The verifier has seen to it that this is asked of integers only.
        let width = |value: Value| match body.ty(value) {
            Ty::Int(width) => width,
            Ty::Entry(_) | Ty::Packet(_) => 128,
        };
        let result = match &inst.op {
            Op::Const(number) => *number,
            Op::Bin(op, a, b) => op.eval(width(*a), get(*a), get(*b)),
            Op::Cmp(op, a, b) => op.eval(width(*a), get(*a), get(*b)) as u128,
            Op::Cast(op, a) => op.eval(width(*a), inst.result.map_or(128, width), get(*a)),
            Op::Select(condition, a, b) => get(if get(*condition) == 1 { *a } else { *b }),

            Op::Load { packet: p, bits } => self.packets[packet(*p)].load(*bits).ok_or(Fault::BeyondEnd)?,
            Op::Store { packet: p, bits, value } => {
                return self.packets[packet(*p)].store(*bits, get(*value)).ok_or(Fault::BeyondEnd);
            }
            Op::Has { packet: p, bytes } => (self.packets[packet(*p)].len() as u128 >= get(*bytes)) as u128,
            Op::Now => self.now.into(),
            Op::Len { packet: p } => self.packets[packet(*p)].len() as u32 as u128,
            Op::Pull { packet: p, bytes } => {
                self.packets[packet(*p)].pull(get(*bytes)).ok_or(Fault::BeyondEnd)?;
                get(*p)
            }
            Op::Push { packet: p, bytes } => {
                self.packets[packet(*p)].push(*bytes as usize);
                get(*p)
            }
            Op::Move { packet: p, by } => {
                let packet = &mut self.packets[packet(*p)];
                match u128::try_from(*by) {
                    Ok(bytes) => packet.pull(bytes).ok_or(Fault::BeyondEnd)?,
                    Err(_) => packet.push(by.unsigned_abs() as usize),
                }
                get(*p)
            }
            Op::Copy { packet: p } => self.copy_of(packet(*p)) as u128,
            Op::LoadAt { packet: p, offset, bits } => {
                self.packets[packet(*p)].load_at(get(*offset), *bits).ok_or(Fault::BeyondEnd)?
            }
            Op::StoreAt { packet: p, offset, bits, value } => {
                let stored = self.packets[packet(*p)].store_at(get(*offset), *bits, get(*value));
                return stored.ok_or(Fault::BeyondEnd);
            }
            Op::Sum { packet: p, offset, bytes } => {
                self.packets[packet(*p)].sum(get(*offset), get(*bytes)).ok_or(Fault::BeyondEnd)?
            }
            Op::Checksum { packet: p, at, covered, pseudo, optional } => {
                let change = get(*covered) + get(*pseudo);
                let changed = self.packets[packet(*p)].change_checksum(get(*at), change, *optional);
                return changed.ok_or(Fault::BeyondEnd);
            }
            Op::Trim { packet: p, bytes } => {
                return self.packets[packet(*p)].trim(get(*bytes)).ok_or(Fault::BeyondEnd);
            }
            Op::Grow { packet: p, bytes, end } => {
                let (layout, reserve) = (self.layout, program.limits.encap);
                self.packets[packet(*p)].grow(get(*bytes), *end, layout, reserve) as u128
            }
            Op::Create => match inst.result.map(|made| body.ty(made)) {
                Some(Ty::Packet(protocol)) => self.create(program, protocol) as u128,
                _ => 0, // refused by the verifier
            },
            Op::MetaLoad { packet: p, field } => self.packets[packet(*p)].metadata[field.0 as usize],
            Op::MetaStore { packet: p, field, value } => {
                self.packets[packet(*p)].metadata[field.0 as usize] = get(*value);
                return Ok(());
            }
            Op::Pass { channel } => {
                self.count_channel(*channel);
                return Ok(());
            }
            // Done by the caller, which knows the call.
            Op::Put { .. } | Op::Tap { .. } => return Ok(()),
            Op::Drop { reason, .. } => {
                self.count(self.slots.drop(*reason), 1);
                if let Some(meter) = &mut self.meter {
                    meter.found.steps.push(Step::Drop(*reason));
                }
                return Ok(());
            }

            Op::Discard { .. } => return Ok(()),
            Op::HoldPut { packet: p, table, key } => {
                self.hold(*table, get(*key) as u64, packet(*p));
                return Ok(());
            }
            Op::HoldGet { table, key } => self.held(program, *table, get(*key) as u64) as u128,

            Op::Lookup { table, key } => {
                self.argue(frame, *table, key, &[]);
                let table = table.0 as usize;
                let found = self.tables[table].lookup(&self.arguments);
                if let Some(execution) = &mut self.execution {
                    execution.looked_up(found.map(|(_, prefix)| prefix));
                }
                found.map_or(NULL, |(slot, _)| pointer(table, slot))
            }
            Op::IsNull(entry) => (get(*entry) == NULL) as u128,
            Op::EntryLoad { entry, field } => {
                let (table, slot) = entry_of(get(*entry)).ok_or(Fault::NullEntry)?;
                self.tables[table].load(slot, *field).ok_or(Fault::NullEntry)?
            }
            Op::EntryStore { entry, field, value } => {
                let (table, slot) = entry_of(get(*entry)).ok_or(Fault::NullEntry)?;
                self.tables[table].store(slot, *field, get(*value));
                return Ok(());
            }
            // Packets go through one after the other.
            Op::Lock { .. } | Op::Unlock { .. } | Op::Fence | Op::Time { .. } => return Ok(()),
            Op::Found { table, entry } => {
                if let Some(slot) = self.slots.look_ups(*table) {
                    self.count(slot, 1);
                    self.count(slot + 1, u64::from(get(*entry) == NULL));
                }
                return Ok(());
            }
            Op::Insert { table, key, value, new } => {
                self.argue(frame, *table, key, value);
                let (key, value) = self.arguments.split_at(key.len());
                let store = &mut self.tables[table.0 as usize];
                let stays = *new && store.find(key, None).is_some();
                let inserted = !stays && store.insert(key, None, value).is_ok();
                if !inserted && !stays {
                    self.count(self.slots.table_full(*table), 1);
                }
                inserted as u128
            }
            Op::Remove { table, key } => {
                self.argue(frame, *table, key, &[]);
                self.tables[table.0 as usize].remove(&self.arguments, None).is_ok() as u128
            }
            Op::SetDeadline { table, key, at } => {
                self.argue(frame, *table, key, &[]);
                let at = deadline(get(*at) as u64, self.now);
                self.tables[table.0 as usize].set_deadline(&self.arguments, at) as u128
            }
            Op::TakeDeadline { table, key } => {
                self.argue(frame, *table, key, &[]);
                self.tables[table.0 as usize].take_deadline(&self.arguments, self.now) as u128
            }
            Op::Extern { function, args } => {
                let externs = self.externs.clone().ok_or(Fault::NoExterns)?;
                self.arguments.clear();
                self.arguments.extend(args.iter().map(|v| get(*v)));
                externs.call(*function, &self.arguments) & mask(inst.result.map_or(128, width))
            }
            Op::Take { entry, amount } => {
                let (table, slot) = entry_of(get(*entry)).ok_or(Fault::NullEntry)?;
                self.tables[table].take(slot, self.now, get(*amount) as u64) as u128
            }
            Op::Count { counter, index, amount } => {
                if get(*index) < program.counters[counter.0 as usize].size as u128 {
                    self.count(self.slots.user(*counter) + get(*index) as usize, get(*amount) as u64);
                }
                return Ok(());
            }
        };
        if let Some(to) = inst.result {
            frame[to.0 as usize] = result;
        }
        Ok(())
    }
}

const NULL: u128 = 0;

/// An entry pointer as a value: table and slot, plus one so that it is not null.
fn pointer(table: usize, slot: u32) -> u128 {
    ((table as u128) << 32 | slot as u128) + 1
}

/// Table and slot of an entry pointer; `None` for null.
pub(super) fn entry_of(pointer: u128) -> Option<(usize, u32)> {
    let target = pointer.checked_sub(1)?;
    Some(((target >> 32) as usize, target as u32))
}

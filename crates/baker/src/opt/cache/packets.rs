//! Each operation on packets, with the packet's bytes in registers or in memory.

use super::report::Reason;
use super::rewriter::{Rewriter, VarKey};
use super::state::{Dirty, Family, Handle, REACH, Window};
use crate::ir::*;

/// Where an instruction of the original body is.
type Here = (BlockId, usize);

impl Rewriter<'_> {
    /// The start of the body: the first handle's header is loaded.
    pub(super) fn enter(&mut self, entry: BlockId) {
        let first = self.source.body.blocks[0].params[0];
        let ty = self.source.body.ty(first);
        let packet = self.b.param(entry, ty);
        let size = self.size_of(ty);
        self.define(first, packet);
        let reach = self.ahead;
        if reach > size {
            let bytes = self.b.constant(32, reach.into());
            let long = self.b.push(Ty::Int(1), Op::Has { packet, bytes });
            let [long_block, short_block] = [self.b.block(), self.b.block()];
            self.by_length(reach);
            self.b.branch(long, long_block, short_block);
            self.b.seal(long_block);
            self.b.seal(short_block);
            self.b.switch_to(short_block);
            self.state.handles.insert(first, Handle::Direct);
            self.fallback(Reason::Short);
            self.go(BlockId(0), 0);
            self.b.switch_to(long_block);
        }
        self.state.handles.insert(first, Handle::Cached { family: first, delta: 0 });
        self.set(VarKey::Packet(first), ty, packet);
        let mut window = Window::default();
        self.load_window(first, &mut window, &[size as i32], reach.max(size) as i32);
        self.state.windows.insert(first, window);
        self.dirty.insert(first, Dirty::default());
        if self.source.options.metadata {
            let fresh = self.source.options.fresh.contains(&self.source.id);
            for field in self.held_metadata() {
                let width = self.source.program.metadata[field.0 as usize].width;
                let value = if fresh && field != Program::RX_PORT {
                    self.b.constant(width, 0)
                } else {
                    self.b.push(Ty::Int(width), Op::MetaLoad { packet, field })
                };
                self.set(VarKey::Meta(first, field), Ty::Int(width), value);
            }
        }
        self.go(BlockId(0), 0);
    }

    /// Whether a metadata field is held in a register: one bit of [`Dirty::metadata`] stands for it.
    fn holds(&self, field: MetaId) -> bool {
        self.source.options.metadata && field.0 < u128::BITS
    }

    /// Metadata fields that are held in registers.
    fn held_metadata(&self) -> Vec<MetaId> {
        let fields = (0..self.source.program.metadata.len() as u32).map(MetaId);
        fields.filter(|&field| self.holds(field)).collect()
    }

    fn size_of(&self, ty: Ty) -> u32 {
        match ty {
            Ty::Packet(protocol) => self.source.program.protocols[protocol.0 as usize].size,
            _ => 0,
        }
    }

    /// Family and offset of a handle whose packet is in registers.
    fn cached(&self, packet: Value) -> Option<(Family, i32)> {
        match self.state.handles.get(&packet) {
            Some(&Handle::Cached { family, delta }) => Some((family, delta)),
            _ => None,
        }
    }

    /// Builds one instruction; `false` where the block ended with it.
    pub(super) fn inst(&mut self, here: Here, inst: &Inst) -> bool {
        let result = inst.result;
        match inst.op {
            Op::Load { packet, bits } => {
                if let Some((family, delta)) = self.cached(packet) {
                    return self.load(inst, packet, family, delta * 8 + bits.offset as i32, bits.width);
                }
            }
            Op::Store { packet, bits, value } => {
                if let Some((family, delta)) = self.cached(packet) {
                    return self.store(inst, packet, family, delta * 8 + bits.offset as i32, bits.width, value);
                }
            }
            Op::LoadAt { packet, offset, bits } => {
                if let Some((family, delta)) = self.cached(packet) {
                    let Some(offset) = self.constant_offset(here, packet, offset) else { return true };
                    let at = (delta + offset) * 8 + bits.offset as i32;
                    return self.load(inst, packet, family, at, bits.width);
                }
            }
            Op::StoreAt { packet, offset, bits, value } => {
                if let Some((family, delta)) = self.cached(packet) {
                    let Some(offset) = self.constant_offset(here, packet, offset) else { return true };
                    let at = (delta + offset) * 8 + bits.offset as i32;
                    return self.store(inst, packet, family, at, bits.width, value);
                }
            }
            Op::Sum { packet, offset, bytes } => {
                if let Some((family, delta)) = self.cached(packet) {
                    let Some(offset) = self.constant_offset(here, packet, offset) else { return true };
                    let Some(bytes) = self.constant_offset(here, packet, bytes) else { return true };
                    let window = self.state.windows[&family].clone();
                    let range = delta + offset..delta + offset + bytes;
                    if range.start < window.start() || range.end > window.end() {
                        return self.direct(packet, Reason::Far, inst);
                    }
                    let sum = self.sum(family, &window, range, delta);
                    return self.result(result, sum);
                }
            }
            Op::Has { packet, bytes } => {
                if let Some((family, delta)) = self.cached(packet) {
                    return self.has(here, inst, packet, bytes, family, delta);
                }
            }
            Op::Len { packet } => {
                if let Some((family, delta)) = self.cached(packet) {
                    let length = self.length(family, delta);
                    return self.result(result, length);
                }
            }
            Op::Pull { packet, bytes } => {
                if let Some((family, delta)) = self.cached(packet) {
                    let Some(bytes) = self.constant_offset(here, packet, bytes) else { return true };
                    return self.pull(inst, packet, family, delta, bytes);
                }
            }
            Op::Push { packet, bytes } => {
                if let Some((family, delta)) = self.cached(packet) {
                    return self.push(inst, packet, family, delta, bytes);
                }
            }
            Op::Copy { packet } => {
                if let Some((family, delta)) = self.cached(packet) {
                    self.copy_packet(result.expect("a copy"), family, delta);
                    return true;
                }
            }
            Op::MetaLoad { packet, field } => {
                if let Some((family, _)) = self.cached(packet) {
                    let value = if self.holds(field) {
                        self.get(VarKey::Meta(family, field))
                    } else {
                        let packet = self.get(VarKey::Packet(family));
                        let ty = Ty::Int(self.source.program.metadata[field.0 as usize].width);
                        self.b.push(ty, Op::MetaLoad { packet, field })
                    };
                    return self.result(result, value);
                }
            }
            Op::MetaStore { packet, field, value } => {
                if let Some((family, _)) = self.cached(packet) {
                    let value = self.value(value);
                    if self.holds(field) {
                        let ty = self.b.ty(value);
                        self.set(VarKey::Meta(family, field), ty, value);
                        self.dirty.entry(family).or_default().metadata |= 1 << field.0;
                    } else {
                        let packet = self.get(VarKey::Packet(family));
                        self.b.effect(Op::MetaStore { packet, field, value });
                    }
                    return true;
                }
            }
            Op::Put { packet, channel } => {
                if let Some((family, delta)) = self.cached(packet) {
                    let seen = self.seen_behind(self.source.program.channels[channel.0 as usize].target);
                    let packet = self.write_back(packet, family, delta, seen);
                    self.b.effect(Op::Put { packet, channel });
                    return true;
                }
            }
            Op::Tap { packet, .. } => {
                if let Some((family, delta)) = self.cached(packet)
                    && let Ok(delta) = u32::try_from(delta)
                {
                    self.tap(inst, family, delta);
                    return true;
                }
            }
            Op::Drop { packet, reason } => {
                if let Some((family, _)) = self.cached(packet) {
                    self.forget(packet, family);
                    let packet = self.get(VarKey::Packet(family));
                    self.b.effect(Op::Drop { packet, reason });
                    return true;
                }
            }
            Op::Lock { .. } => self.state.locked = Some(self.current),
            Op::Unlock { .. } => self.state.locked = None,
            _ => {}
        }
        // Packets that other operations touch are in memory.
        for operand in inst.op.operands() {
            if self.cached(operand).is_some() {
                self.put_back(operand, Reason::Resized);
            }
        }
        self.plain(inst)
    }

    /// An operation on what is in memory, and on numbers.
    fn plain(&mut self, inst: &Inst) -> bool {
        let mut op = inst.op.clone();
        op.operands_mut(|value| *value = self.value(*value));
        if let (Some(result), Some(number)) = (inst.result, self.fold(&op, inst)) {
            let Ty::Int(width) = self.source.body.ty(result) else { unreachable!("a number") };
            let value = self.b.constant(width, number);
            return self.result(Some(result), value);
        }
        if let Some(packet) = inst.op.consumed() {
            self.state.handles.remove(&packet);
        }
        match inst.result {
            None => self.b.effect(op),
            Some(result) => {
                let ty = self.source.body.ty(result);
                if let Ty::Packet(_) = ty {
                    self.state.handles.insert(result, Handle::Direct);
                }
                let value = self.b.push(ty, op);
                self.define(result, value);
            }
        }
        true
    }

    /// The number that an operation on numbers gives, where all are known. `op` has the new body's operands.
    fn fold(&self, op: &Op, inst: &Inst) -> Option<u128> {
        let Ty::Int(width) = self.source.body.ty(inst.result?) else { return None };
        op.fold(width, |value| match self.b.ty(value) {
            Ty::Int(bits) => Some((bits, self.b.as_constant(value)?)),
            _ => None,
        })
    }

    fn result(&mut self, result: Option<Value>, value: Value) -> bool {
        self.define(result.expect("an operation with a result"), value);
        true
    }

    fn load(&mut self, inst: &Inst, packet: Value, family: Family, at: i32, width: u32) -> bool {
        if !self.cover(packet, family, at, width) {
            return self.outside(inst, packet, family, at, width, None);
        }
        let window = self.state.windows[&family].clone();
        let value = self.read(family, &window, at, width);
        self.result(inst.result, value)
    }

    fn store(&mut self, inst: &Inst, packet: Value, family: Family, at: i32, width: u32, value: Value) -> bool {
        let new = self.value(value);
        if !self.cover(packet, family, at, width) {
            return self.outside(inst, packet, family, at, width, Some(new));
        }
        let window = self.state.windows[&family].clone();
        self.write(family, &window, at, width, new);
        self.dirty.entry(family).or_default().bytes.insert(at.div_euclid(8)..(at + width as i32 + 7).div_euclid(8));
        true
    }

    /// Whether bits are in the window, or can be loaded into it.
    fn cover(&mut self, packet: Value, family: Family, at: i32, width: u32) -> bool {
        let (first, end) = (at.div_euclid(8), (at + width as i32 + 7).div_euclid(8));
        let window = &self.state.windows[&family];
        if first < window.start() {
            return false;
        }
        if end > window.end() && end <= window.proven && window.proven <= REACH.end {
            let (mut window, upto) = (window.clone(), window.proven);
            let head =
                self.cached(packet).map_or(0, |(_, delta)| delta + self.size_of(self.source.body.ty(packet)) as i32);
            self.load_window(family, &mut window, &[head, first], upto);
            self.state.windows.insert(family, window);
        }
        end <= self.state.windows[&family].end()
    }

    /// An access at a known place beyond the window: in memory, where registers don't hold a part of it.
    fn outside(
        &mut self,
        inst: &Inst,
        handle: Value,
        family: Family,
        at: i32,
        width: u32,
        value: Option<Value>,
    ) -> bool {
        if at.div_euclid(8) < self.state.windows[&family].end() {
            return self.direct(handle, Reason::Far, inst);
        }
        let packet = self.get(VarKey::Packet(family));
        let offset = self.b.constant(32, at.div_euclid(8) as u128);
        let bits = BitRange { offset: at.rem_euclid(8) as u32, width };
        match value {
            Some(value) => self.b.effect(Op::StoreAt { packet, offset, bits, value }),
            None => {
                let value = self.b.push(Ty::Int(width), Op::LoadAt { packet, offset, bits });
                self.define(inst.result.expect("a load"), value);
            }
        }
        true
    }

    /// Puts the packet into memory and does the instruction there.
    fn direct(&mut self, packet: Value, reason: Reason, inst: &Inst) -> bool {
        self.put_back(packet, reason);
        self.plain(inst)
    }

    /// A number of bytes as a constant. Where it is computed but has an expected value, it is tested for it, and the
    /// other side goes on in memory, from this instruction. Where it has none, the instruction is done in memory:
    /// `None`.
    fn constant_offset(&mut self, here: Here, packet: Value, bytes: Value) -> Option<i32> {
        let small = |number: u128| i32::try_from(number).ok().filter(|n| REACH.contains(n));
        if let Some(number) = self.number(bytes).and_then(small) {
            return Some(number);
        }
        let inst = &self.source.body.blocks[here.0.0 as usize].insts[here.1];
        let Some(expected) = self.source.expected.of(bytes).filter(|&n| small(n).is_some()) else {
            self.direct(packet, Reason::ComputedOffset, inst);
            return None;
        };
        if self.number(bytes).is_some() {
            self.direct(packet, Reason::Far, inst);
            return None;
        }
        self.expect(here, packet, bytes, expected);
        small(expected)
    }

    /// Goes on only where a value is the expected number; otherwise the instruction is repeated with the packet in
    /// memory.
    fn expect(&mut self, here: Here, packet: Value, value: Value, expected: u128) {
        let Ty::Int(width) = self.source.body.ty(value) else { unreachable!("a number") };
        let found = self.value(value);
        let number = self.b.constant(width, expected);
        let as_expected = self.b.push(Ty::Int(1), Op::Cmp(CmpOp::Eq, found, number));
        let [expected_block, other_block] = [self.b.block(), self.b.block()];
        self.unlikely_other();
        self.b.branch(as_expected, expected_block, other_block);
        self.b.seal(expected_block);
        self.b.seal(other_block);
        let (state, dirty, proofs) = (self.state.clone(), self.dirty.clone(), self.proofs.clone());
        self.b.switch_to(other_block);
        self.put_back(packet, Reason::Unexpected);
        self.go(here.0, here.1);
        self.b.switch_to(expected_block);
        (self.state, self.dirty, self.proofs) = (state, dirty, proofs);
        self.state.numbers.insert(value, expected);
    }

    /// Bytes behind a handle's head.
    fn length(&mut self, family: Family, delta: i32) -> Value {
        let packet = self.get(VarKey::Packet(family));
        let length = self.b.push(Ty::Int(32), Op::Len { packet });
        if delta == 0 {
            return length;
        }
        let delta = self.b.constant(32, u128::from(delta as u32));
        self.b.binary(BinOp::Sub, length, delta)
    }

    fn has(&mut self, here: Here, inst: &Inst, packet: Value, bytes: Value, family: Family, delta: i32) -> bool {
        let in_reach = |n: u128| n <= REACH.end as u128;
        if self.number(bytes).is_none()
            && let Some(expected) = self.source.expected.of(bytes).filter(|&n| in_reach(n))
        {
            self.expect(here, packet, bytes, expected);
        }
        let proven = self.state.windows[&family].proven;
        let value = match self.number(bytes) {
            Some(number) if in_reach(number) && delta + number as i32 <= proven => self.b.constant(1, 1),
            Some(number) if in_reach(number) => {
                let end = delta + number as i32;
                let packet = self.get(VarKey::Packet(family));
                let bytes = self.b.constant(32, end as u128);
                let value = self.b.push(Ty::Int(1), Op::Has { packet, bytes });
                self.proofs.insert(inst.result.expect("a truth value"), (family, end));
                value
            }
            _ => {
                let length = self.length(family, delta);
                let bytes = self.value(bytes);
                self.b.push(Ty::Int(1), Op::Cmp(CmpOp::Ule, bytes, length))
            }
        };
        self.result(inst.result, value)
    }

    fn pull(&mut self, inst: &Inst, packet: Value, family: Family, delta: i32, bytes: i32) -> bool {
        let result = inst.result.expect("a handle");
        let next = delta + bytes;
        let end = next + self.size_of(self.source.body.ty(result)) as i32;
        if end > REACH.end || next < REACH.start {
            return self.direct(packet, Reason::Far, inst);
        }
        let mut window = self.state.windows[&family].clone();
        window.proven = window.proven.max(end);
        self.load_window(family, &mut window, &[next, end], end);
        self.state.windows.insert(family, window);
        self.state.handles.remove(&packet);
        self.state.handles.insert(result, Handle::Cached { family, delta: next });
        true
    }

    fn push(&mut self, inst: &Inst, packet: Value, family: Family, delta: i32, bytes: u32) -> bool {
        let result = inst.result.expect("a handle");
        let mut window = self.state.windows[&family].clone();
        if bytes as i32 > REACH.end || !self.push_zeros(family, &mut window, delta, bytes as i32) {
            return self.direct(packet, Reason::Far, inst);
        }
        self.state.windows.insert(family, window);
        self.dirty.entry(family).or_default().bytes.insert(delta - bytes as i32..delta);
        self.state.handles.remove(&packet);
        self.state.handles.insert(result, Handle::Cached { family, delta: delta - bytes as i32 });
        true
    }

    /// The copy has the same bytes in registers, and the same of them are not in its memory.
    fn copy_packet(&mut self, result: Value, family: Family, delta: i32) {
        let packet = self.get(VarKey::Packet(family));
        let found = self.b.ty(packet);
        let mut copy = self.b.push(found, Op::Copy { packet });
        // Copies of this block may come from families of different protocols; the new family has one protocol in all.
        let ty = self.source.body.ty(result);
        if found != ty {
            copy = self.b.push(ty, Op::Move { packet: copy, by: 0 });
        }
        self.state.handles.insert(result, Handle::Cached { family: result, delta });
        self.set(VarKey::Packet(result), ty, copy);
        let window = self.state.windows[&family].clone();
        for &chunk in &window.chunks {
            let value = self.chunk(family, chunk);
            self.set_chunk(result, chunk, value);
        }
        self.state.windows.insert(result, window);
        for field in self.held_metadata() {
            let value = self.get(VarKey::Meta(family, field));
            let ty = self.b.ty(value);
            self.set(VarKey::Meta(result, field), ty, value);
        }
        let dirty = self.dirty.get(&family).copied().unwrap_or_default();
        self.dirty.insert(result, dirty);
    }

    /// The metadata that is looked at behind a channel's target: one bit per field.
    fn seen_behind(&self, target: Target) -> u128 {
        match target {
            Target::Tx => 1 << Program::TX_PORT.0,
            Target::Host => 1 << Program::RX_PORT.0,
            _ => u128::MAX,
        }
    }

    /// Brings a packet's memory up to date, as far as it is looked at; gives its handle.
    fn write_back(&mut self, handle: Value, family: Family, delta: i32, seen: u128) -> Value {
        let mut packet = self.get(VarKey::Packet(family));
        let ty = self.source.body.ty(handle);
        if delta != 0 || self.b.ty(packet) != ty {
            packet = self.b.push(ty, Op::Move { packet, by: delta });
        }
        self.store_changes(family, packet, delta, seen);
        self.forget(handle, family);
        packet
    }

    /// Stores what registers have changed of a packet, which has its head `delta` bytes behind the family's.
    fn store_changes(&mut self, family: Family, packet: Value, delta: i32, seen: u128) {
        let dirty = self.dirty.get(&family).copied().unwrap_or_default();
        let window = self.state.windows[&family].clone();
        self.store_dirty(family, &window, dirty.bytes, packet, delta);
        for field in self.held_metadata() {
            if (dirty.metadata & seen) >> field.0 & 1 == 1 {
                let value = self.get(VarKey::Meta(family, field));
                self.b.effect(Op::MetaStore { packet, field, value });
            }
        }
    }

    /// A tap of a handle `delta` bytes behind the packet's head, which stays where it is, as do the registers.
    fn tap(&mut self, inst: &Inst, family: Family, delta: u32) {
        let Op::Tap { skip, ref metadata, channel, .. } = inst.op else { unreachable!("a tap") };
        let packet = self.get(VarKey::Packet(family));
        self.store_changes(family, packet, 0, u128::MAX);
        let mut skip = self.value(skip);
        if delta != 0 {
            let delta = self.b.constant(32, delta.into());
            skip = self.b.binary(BinOp::Add, skip, delta);
        }
        let metadata = metadata.iter().map(|(field, value)| (*field, self.value(*value))).collect();
        self.b.effect(Op::Tap { packet, skip, metadata, channel });
    }

    fn forget(&mut self, handle: Value, family: Family) {
        self.state.handles.remove(&handle);
        self.state.windows.remove(&family);
        self.dirty.remove(&family);
    }

    /// From here on the packet is in memory.
    fn put_back(&mut self, handle: Value, reason: Reason) {
        let Some((family, delta)) = self.cached(handle) else { return };
        self.fallback(reason);
        let packet = self.write_back(handle, family, delta, u128::MAX);
        self.state.handles.insert(handle, Handle::Direct);
        self.define(handle, packet);
    }

    /// From here on all packets are in memory.
    pub(super) fn all_direct(&mut self, reason: Reason) {
        let handles: Vec<Value> = self.state.handles.keys().copied().collect();
        for handle in handles {
            self.put_back(handle, reason);
        }
    }
}

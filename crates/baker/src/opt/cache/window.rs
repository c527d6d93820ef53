//! Header bytes in registers: load, read a field, write a field, sum up, store what was changed.
//!
//! ```text
//! load v0 ipv4.ttl [64..72]              w1 = load_at v0 + 0 [176..240]       once, for the whole header
//!                                  →     …(w1 >> 56)…
//! store v0 ipv4.ttl [64..72], v5         w1' = w1 & 0x00ff… | v5 << 56        store_at … where the packet leaves
//! ```

use super::rewriter::{Rewriter, VarKey};
use super::state::{Bytes, Chunk, Family, REACH, Window};
use crate::ir::arith::mask;
use crate::ir::*;

/// Clean bytes between changed ones that are stored with them, at most.
const GAP: i32 = 8;
/// Bytes of a chunk at most: what a register holds.
const CHUNK: i32 = 8;

impl Rewriter<'_> {
    pub(super) fn chunk(&mut self, family: Family, chunk: Chunk) -> Value {
        self.get(VarKey::Chunk(family, chunk))
    }

    pub(super) fn set_chunk(&mut self, family: Family, chunk: Chunk, value: Value) {
        self.set(VarKey::Chunk(family, chunk), Ty::Int(chunk.bits()), value);
    }

    /// Loads the bytes from the window's end up to `end`, which the packet has. Chunks begin anew at each border, so
    /// that a header's fields seldom lie in two.
    pub(super) fn load_window(&mut self, family: Family, window: &mut Window, borders: &[i32], end: i32) {
        let mut at = window.end();
        while at < end {
            let border = borders.iter().copied().filter(|&b| b > at).min().unwrap_or(end).min(end);
            let chunk = Chunk { start: at, len: (border - at).min(CHUNK) };
            let packet = self.get(VarKey::Packet(family));
            let offset = self.b.constant(32, 0);
            let bits = BitRange { offset: at as u32 * 8, width: chunk.bits() };
            let value = self.b.push(Ty::Int(bits.width), Op::LoadAt { packet, offset, bits });
            self.set_chunk(family, chunk, value);
            window.chunks.push(chunk);
            at = chunk.end();
        }
        window.proven = window.proven.max(end);
        if family == self.source.body.blocks[0].params[0] {
            let hot = self.is_hot();
            *self.reach.entry(window.end() as u32).or_default() |= hot;
        }
    }

    /// Bits `shift` to `shift + width` of a number, counted from the low end.
    pub(super) fn bits(&mut self, value: Value, shift: u32, width: u32) -> Value {
        let Ty::Int(from) = self.b.ty(value) else { unreachable!("a number") };
        if shift == 0 && width == from {
            return value;
        }
        if let Some(number) = self.b.as_constant(value) {
            return self.b.constant(width, (number >> shift) & mask(width));
        }
        let shifted = self.shift(BinOp::LShr, value, shift);
        if width == from { shifted } else { self.b.push(Ty::Int(width), Op::Cast(CastOp::Trunc, shifted)) }
    }

    fn shift(&mut self, op: BinOp, value: Value, by: u32) -> Value {
        if by == 0 {
            return value;
        }
        let Ty::Int(width) = self.b.ty(value) else { unreachable!("a number") };
        if let Some(number) = self.b.as_constant(value) {
            return self.b.constant(width, op.eval(width, number, by.into()));
        }
        let by = self.b.constant(width, by.into());
        self.b.binary(op, value, by)
    }

    pub(super) fn widen(&mut self, value: Value, width: u32) -> Value {
        let Ty::Int(from) = self.b.ty(value) else { unreachable!("a number") };
        if from == width {
            return value;
        }
        match self.b.as_constant(value) {
            Some(number) => self.b.constant(width, number),
            None => self.b.push(Ty::Int(width), Op::Cast(CastOp::ZExt, value)),
        }
    }

    fn or(&mut self, a: Value, b: Value) -> Value {
        match (self.b.as_constant(a), self.b.as_constant(b)) {
            (Some(0), _) => b,
            (_, Some(0)) => a,
            (Some(x), Some(y)) => {
                let Ty::Int(width) = self.b.ty(a) else { unreachable!("a number") };
                self.b.constant(width, x | y)
            }
            _ => self.b.binary(BinOp::Or, a, b),
        }
    }

    /// A field, `width` bits from bit `at` of the family on; all of it is in the window.
    pub(super) fn read(&mut self, family: Family, window: &Window, at: i32, width: u32) -> Value {
        let end = at + width as i32;
        let mut result: Option<Value> = None;
        for &chunk in &window.chunks {
            let (low, high) = (at.max(chunk.start * 8), end.min(chunk.end() * 8));
            if low >= high {
                continue;
            }
            let word = self.chunk(family, chunk);
            let part = self.bits(word, (chunk.end() * 8 - high) as u32, (high - low) as u32);
            let part = self.widen(part, width);
            result = Some(match result {
                None => part,
                Some(upper) => {
                    let upper = self.shift(BinOp::Shl, upper, (high - low) as u32);
                    self.or(upper, part)
                }
            });
        }
        result.expect("the field is in the window")
    }

    /// Sets a field that is in the window.
    pub(super) fn write(&mut self, family: Family, window: &Window, at: i32, width: u32, value: Value) {
        let end = at + width as i32;
        for &chunk in &window.chunks {
            let (low, high) = (at.max(chunk.start * 8), end.min(chunk.end() * 8));
            if low >= high {
                continue;
            }
            let part = self.bits(value, (end - high) as u32, (high - low) as u32);
            let mut new = part;
            if ((high - low) as u32) < chunk.bits() {
                let below = (chunk.end() * 8 - high) as u32;
                let cleared = mask(chunk.bits()) & !(mask((high - low) as u32) << below);
                let word = self.chunk(family, chunk);
                let kept = self.and(word, cleared);
                let part = self.widen(part, chunk.bits());
                let part = self.shift(BinOp::Shl, part, below);
                new = self.or(kept, part);
            }
            self.set_chunk(family, chunk, new);
        }
    }

    fn and(&mut self, value: Value, with: u128) -> Value {
        let Ty::Int(width) = self.b.ty(value) else { unreachable!("a number") };
        match self.b.as_constant(value) {
            Some(number) => self.b.constant(width, number & with),
            None => {
                let with = self.b.constant(width, with);
                self.b.binary(BinOp::And, value, with)
            }
        }
    }

    /// The ones' complement sum (RFC 1071) of bytes of the window; words lie at even distances from `head`.
    pub(super) fn sum(&mut self, family: Family, window: &Window, range: std::ops::Range<i32>, head: i32) -> Value {
        let mut total = self.b.constant(64, 0);
        let mut at = range.start;
        while at < range.end {
            // Up to 32 bits at once: 2^32 of them would be needed for 64 bits to overflow.
            let len = (range.end - at).min(4);
            let part = self.read(family, window, at * 8, len as u32 * 8);
            let part = self.widen(part, 64);
            // A last byte at an even distance is the upper half of its word.
            let odd = (at + len - head).rem_euclid(2) == 1;
            let part = self.shift(BinOp::Shl, part, if odd { 8 } else { 0 });
            total = if self.b.as_constant(total) == Some(0) { part } else { self.b.binary(BinOp::Add, total, part) };
            at += len;
        }
        for half in [32, 16, 16, 16] {
            let low = self.and(total, mask(half));
            let high = self.shift(BinOp::LShr, total, half);
            total = self.b.binary(BinOp::Add, low, high);
        }
        self.bits(total, 0, 16)
    }

    /// Puts zeros where `bytes` new bytes come in front of the head at `from`; the window grows to the front for them.
    /// `false` where they can't be held.
    pub(super) fn push_zeros(&mut self, family: Family, window: &mut Window, from: i32, bytes: i32) -> bool {
        let start = from - bytes;
        if start < REACH.start || from > window.end().max(window.start()) || from < window.start() {
            return false;
        }
        let mut at = window.start();
        let mut front = Vec::new();
        while at > start {
            let len = (at - start).min(CHUNK);
            at -= len;
            front.push(Chunk { start: at, len });
        }
        for &chunk in &front {
            let zero = self.b.constant(chunk.bits(), 0);
            self.set_chunk(family, chunk, zero);
        }
        front.reverse();
        front.append(&mut window.chunks);
        window.chunks = front;
        let mut at = start;
        while at < from {
            let len = (from - at).min(16);
            let zero = self.b.constant(len as u32 * 8, 0);
            self.write(family, window, at * 8, len as u32 * 8, zero);
            at += len;
        }
        true
    }

    /// Stores what may differ from memory and lies behind the head at `head`, where `packet`'s head now is. Clean bytes
    /// between two changed ones are stored with them where they are few: one access more would cost more.
    pub(super) fn store_dirty(&mut self, family: Family, window: &Window, dirty: Bytes, packet: Value, head: i32) {
        let mut spans: Vec<(i32, i32)> = Vec::new();
        for chunk in &window.chunks {
            // Bytes in front of the head are gone.
            let Some((first, last)) = dirty.span(chunk.start.max(head)..chunk.end()) else { continue };
            match spans.last_mut() {
                Some((_, end)) if first - *end <= GAP => *end = last + 1,
                _ => spans.push((first, last + 1)),
            }
        }
        for (from, end) in spans {
            for &chunk in &window.chunks {
                let (first, last) = (chunk.start.max(from), chunk.end().min(end));
                if first >= last {
                    continue;
                }
                let word = self.chunk(family, chunk);
                let width = (last - first) as u32 * 8;
                let value = self.bits(word, (chunk.end() - last) as u32 * 8, width);
                let offset = self.b.constant(32, 0);
                let bits = BitRange { offset: (first - head) as u32 * 8, width };
                self.b.effect(Op::StoreAt { packet, offset, bits, value });
            }
        }
    }
}

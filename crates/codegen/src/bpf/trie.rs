//! Longest prefix match of keys of other than 32 bits: a walk through the nodes of a trie ([`crate::abi::TrieNode`]).
//!
//! ```text
//! for 16 rounds:  byte = first of the key; route = the node's last one at or below byte; best = route if any
//!                 no node further down for this byte: stop; node = that; key <<= 8
//! ```

use std::mem::offset_of;

use baker::ir::{Table, Value};
use inkwell::IntPredicate;
use inkwell::values::{IntValue, PointerValue};

use super::Kernel;
use super::body::Ppf;
use crate::abi::{TRIE_LISTED, TRIE_UNIT, TrieNode};
use crate::internal;
use crate::kernel::TableLocation;
use crate::lower::{Lowering, Memory, Res};

/// Bits of the longest key.
const WIDTH: u32 = 128;
/// Bits that a node tells apart.
const STRIDE: u64 = 8;

impl<'c> Ppf<'_, 'c, '_> {
    /// Where the value lies that a key finds, or 0.
    pub(super) fn trie_lookup(&self, location: TableLocation, table: &Table, key: &[Value]) -> Res<IntValue<'c>> {
        let (TableLocation::Trie { nodes, units, entries, width }, [key]) = (location, key) else {
            return internal("a trie that is none");
        };
        let kernel = self.kernel;
        let builder = &kernel.builder;
        let wide = kernel.resize(self.int_of(*key, width)?, WIDTH)?;
        let front = wide.get_type().const_int(u64::from(WIDTH - width), false);
        let wide = if width < WIDTH { builder.build_left_shift(wide, front, "")? } else { wide };
        let half = wide.get_type().const_int(64, false);
        let first = kernel.resize(builder.build_right_shift(wide, half, false, "")?, 64)?;
        let second = kernel.resize(wide, 64)?;
        let start = kernel.fixed(nodes)?;
        let root = kernel.load_once(start, 32)?;
        let before = kernel.block()?;
        let [round, down, done] = kernel.new_blocks(["round", "down", "walked"])?;
        builder.build_unconditional_branch(round)?;

        builder.position_at_end(round);
        let [count, high, low] = [0; 3].map(|_: u8| builder.build_phi(kernel.i64, ""));
        let (count, high, low) = (count?, high?, low?);
        let [node, best] = [0; 2].map(|_: u8| builder.build_phi(kernel.i32, ""));
        let (node, best) = (node?, best?);
        let value = |phi: inkwell::values::PhiValue<'c>| phi.as_basic_value().into_int_value();
        let unit = kernel.long(TRIE_UNIT);
        let at = builder.build_int_mul(kernel.resize(value(node), 64)?, unit, "")?;
        let mask = (u64::from(units) - 1) * TRIE_UNIT;
        let head = kernel.at_index(kernel.fixed(nodes)?, kernel.masked(at, mask)?)?;
        let byte = builder.build_right_shift(value(high), kernel.long(64 - STRIDE), false, "")?;
        let word = builder.build_right_shift(byte, kernel.long(6), false, "")?;
        let bit = builder.build_and(byte, kernel.long(63), "")?;
        let set = |offset: usize| -> Res<IntValue<'c>> {
            let at = kernel.masked(builder.build_int_mul(word, kernel.long(8), "")?, 24)?;
            let at = kernel.at_index(kernel.at(head, offset as u64)?, at)?;
            kernel.load_int(kernel.i64, at, 8, Memory::Control)
        };
        // How many are at or below the byte, and listed before: the last one's number from 1.
        let rank = |set: IntValue<'c>, offset: usize| -> Res<IntValue<'c>> {
            let at = kernel.masked(builder.build_int_mul(word, kernel.long(2), "")?, 6)?;
            let at = kernel.at_index(kernel.at(head, offset as u64)?, at)?;
            let listed = kernel.resize(kernel.load_int(kernel.int(16)?, at, 2, Memory::Control)?, 64)?;
            let shift = builder.build_int_sub(kernel.long(63), bit, "")?;
            let mask = builder.build_right_shift(kernel.long(u64::MAX), shift, false, "")?;
            let ones = kernel.ones(builder.build_and(set, mask, "")?)?;
            Ok(builder.build_int_add(listed, ones, "")?)
        };
        let listed = |rank: IntValue<'c>| -> Res<PointerValue<'c>> {
            // From 1, so one number in front of the list.
            let front = size_of::<TrieNode>() as u64 - 4;
            let at = kernel.masked(builder.build_int_mul(rank, kernel.long(4), "")?, TRIE_LISTED * 8 - 4)?;
            kernel.at_index(kernel.at(head, front)?, at)
        };
        let none = kernel.i32.const_zero();
        let routes = rank(set(offset_of!(TrieNode, starts))?, offset_of!(TrieNode, routes_before))?;
        let route = kernel.load_once(listed(routes)?, 32)?;
        let has = |number, zero| builder.build_int_compare(IntPredicate::NE, number, zero, "");
        let covers = builder.build_and(has(routes, kernel.long(0))?, has(route, none)?, "")?;
        let longest = kernel.select_int(covers, route, value(best))?;
        let below = set(offset_of!(TrieNode, below))?;
        let is_below = kernel.resize(builder.build_right_shift(below, bit, false, "")?, 1)?;
        let rounds = kernel.long(u64::from(WIDTH) / STRIDE - 1);
        let more = builder.build_int_compare(IntPredicate::ULT, value(count), rounds, "")?;
        builder.build_conditional_branch(builder.build_and(is_below, more, "")?, down, done)?;

        builder.position_at_end(down);
        let child = kernel.load_once(listed(rank(below, offset_of!(TrieNode, children_before))?)?, 32)?;
        let over = builder.build_right_shift(value(low), kernel.long(64 - STRIDE), false, "")?;
        let stride = kernel.long(STRIDE);
        let next_high = builder.build_or(builder.build_left_shift(value(high), stride, "")?, over, "")?;
        let next_low = builder.build_left_shift(value(low), stride, "")?;
        let next = builder.build_int_add(value(count), kernel.long(1), "")?;
        let from = kernel.block()?;
        for (phi, first, further) in [
            (count, kernel.long(0), next),
            (high, first, next_high),
            (low, second, next_low),
            (node, root, child),
            (best, none, longest),
        ] {
            phi.add_incoming(&[(&first, before), (&further, from)]);
        }
        builder.build_unconditional_branch(round)?;

        builder.position_at_end(done);
        let index = builder.build_int_sub(longest, kernel.i32.const_int(1, false), "")?;
        let stride = kernel.long(kernel.stride(table.value)?);
        let distance = builder.build_int_mul(kernel.resize(index, 64)?, stride, "")?;
        let entry = builder.build_int_add(distance, kernel.long(entries), "")?;
        kernel.select_int(has(longest, none)?, entry, kernel.long(0))
    }
}

impl<'c> Kernel<'c, '_> {
    /// How many bits are 1, of 64.
    fn ones(&self, value: IntValue<'c>) -> Res<IntValue<'c>> {
        self.intrinsic("llvm.ctpop", &[self.i64.into()], &[value.into()])
    }
}

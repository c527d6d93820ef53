//! Longest prefix match for keys of up to 128 bits: a multibit trie with a stride of 8 bits and compressed nodes.
//!
//! A node stands for the prefixes that begin with its bytes. It holds the routes that end in its stride, expanded to
//! the 256 values of the next byte (Srinivasan and Varghese, "Fast address lookups using controlled prefix expansion",
//! 1999), and the nodes further down. Both lists are compressed by bit maps of 256 bits: of the routes, one is kept for
//! each run of equal ones (Degermark et al., "Small forwarding tables for fast routing lookups", 1997). Routes are not
//! pushed further down, so a change touches one node, and the nodes above it where that node comes or goes.
//!
//! Nodes do not change. A writer replaces a node by a changed copy with one store to the place that leads to it, so a
//! look-up sees the old node or the new one; the old one is freed when no look-up can be in it any more. They lie in
//! one block of memory ([`super::nodes`]), where code in the kernel walks them, too.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use baker::ir::{Layout, TableError};
use codegen::kernel::TableLocation;

use super::epoch::Epochs;
use super::layout::Bytes;
use super::nodes::{ByteSet, Free, Node, Nodes};
use super::slots::{SPARE, Slots, patiently};
use super::space::Space;
use super::values::Values;

/// Bits of the key that a node tells apart.
const STRIDE: u32 = 8;

/// A route that ends in a node: the bits of the next byte that it fixes, the others zero, and its entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NodeRoute {
    byte: u8,
    /// 1 to 8, or 0 in the root.
    bits: u8,
    entry: u32,
}

/// A node with these routes and the nodes further down of this one.
fn with_routes(node: &Node, own: &[NodeRoute]) -> Node {
    let mut expanded = [(0u32, 0u8); 256];
    for route in own {
        let last = route.byte | u8::MAX.checked_shr(route.bits.into()).unwrap_or(0);
        for slot in &mut expanded[usize::from(route.byte)..=usize::from(last)] {
            if slot.0 == 0 || slot.1 <= route.bits {
                *slot = (route.entry + 1, route.bits);
            }
        }
    }
    let (mut starts, mut routes) = (ByteSet::default(), Vec::new());
    if !own.is_empty() {
        for byte in 0..=u8::MAX {
            let route = expanded[usize::from(byte)].0;
            if routes.last() != Some(&route) {
                starts.insert(byte);
                routes.push(route);
            }
        }
    }
    Node { starts, routes, ..node.clone() }
}

/// This node with the given node further down, or without one where it is 0.
fn with_child(node: &Node, byte: u8, child: u32) -> Node {
    let mut below = ByteSet::default();
    let mut children = Vec::with_capacity(node.children.len() + 1);
    for at in 0..=u8::MAX {
        let kept = match node.below.contains(at) {
            _ if at == byte => child,
            true => node.children[node.below.rank(at) - 1],
            false => 0,
        };
        if kept != 0 {
            below.insert(at);
            children.push(kept);
        }
    }
    Node { below, children, ..node.clone() }
}

#[derive(Debug)]
struct Writer {
    /// Entry by prefix and length.
    routes: HashMap<(u128, u8), u32, ahash::RandomState>,
    entries: Slots,
    free: Free,
    /// The routes that end in each node that has any.
    own: HashMap<u32, Box<[NodeRoute]>, ahash::RandomState>,
    /// Replaced nodes, with the stamp from which on no reader looks at them.
    old: VecDeque<(u32, u64)>,
}

/// An lpm table with keys of `width` bits.
#[derive(Debug)]
pub struct Trie {
    nodes: Nodes,
    width: u32,
    values: Values,
    capacity: u32,
    epochs: Arc<Epochs>,
    writer: Mutex<Writer>,
}

impl Trie {
    /// An empty table for `capacity` routes.
    pub fn new(
        capacity: u32,
        width: u32,
        value: (&Layout, Option<usize>),
        epochs: Arc<Epochs>,
        space: &Space,
    ) -> io::Result<Self> {
        let limit = capacity.saturating_add(SPARE);
        let (nodes, mut free) = Nodes::new(capacity, space)?;
        let root = nodes.make(&Node::default(), &mut free).ok_or(io::ErrorKind::OutOfMemory)?;
        nodes.root().store(root, Ordering::Release);
        let writer = Writer {
            routes: HashMap::default(),
            entries: Slots::new(limit, &Space::Private)?,
            free,
            own: HashMap::default(),
            old: VecDeque::new(),
        };
        let values = Values::new(limit, value, space)?;
        Ok(Trie { nodes, width, values, capacity, epochs, writer: Mutex::new(writer) })
    }

    /// Where it lies, to code in the kernel.
    pub fn kernel_location(&self, base: u64) -> TableLocation {
        let at = |ptr: *mut u8| ptr as u64 - base;
        let (nodes, entries) = (at(self.nodes.start()), at(self.values.start()));
        TableLocation::Trie { nodes, units: self.nodes.size(), entries, width: self.width }
    }

    pub fn control_block(&self) -> *mut u8 {
        (&raw const *self).cast_mut().cast()
    }

    /// Bytes of the entry that a packet's look-up of this key finds.
    pub fn read(&self, key: u128) -> Option<Bytes> {
        // The lock keeps nodes and entry from being freed: this thread is not a worker.
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: nodes are freed under the lock only.
        unsafe { self.find(key) }.map(|entry| self.values.read(entry))
    }

    /// The entry of the longest route that covers a key.
    ///
    /// # Safety
    /// The caller holds the lock or is a worker within a batch.
    unsafe fn find(&self, key: u128) -> Option<u32> {
        let mut rest = key << (128 - self.width);
        let mut place = self.nodes.root();
        let mut best = 0;
        loop {
            let byte = (rest >> (128 - STRIDE)) as u8;
            // SAFETY: nodes are freed only when no caller can have found them; see the function's contract.
            let (route, child) = unsafe { self.nodes.step(load(place), byte) };
            best = if route == 0 { best } else { route };
            match child {
                Some(child) => place = child,
                None => return u32::checked_sub(best, 1),
            }
            rest <<= STRIDE;
        }
    }

    /// Inserts a route or replaces the value of one. The bits of `prefix` beyond `len` are zero.
    pub fn insert(&self, prefix: u128, len: u8, value: &[u8]) -> Result<(), TableError> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let writer = &mut *writer;
        let old = writer.routes.get(&(prefix, len)).copied();
        match old {
            Some(entry) if self.values.change_at_once(entry, value) => return Ok(()),
            None if writer.routes.len() >= self.capacity as usize => return Err(TableError::Full),
            _ => {}
        }
        let entry = writer.entries.lock().take_patiently(&self.epochs)?;
        self.values.write(entry, value);
        if let Err(full) = self.change(writer, prefix, len, Some(entry)) {
            writer.entries.lock().retire(entry, &self.epochs);
            return Err(full);
        }
        writer.routes.insert((prefix, len), entry);
        if let Some(old) = old {
            writer.entries.lock().retire(old, &self.epochs);
        }
        Ok(())
    }

    /// Removes a route; its addresses fall to the next shorter one.
    pub fn remove(&self, prefix: u128, len: u8) -> Result<(), TableError> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let writer = &mut *writer;
        let entry = *writer.routes.get(&(prefix, len)).ok_or(TableError::NotFound)?;
        self.change(writer, prefix, len, None)?;
        writer.routes.remove(&(prefix, len));
        writer.entries.lock().retire(entry, &self.epochs);
        Ok(())
    }

    /// Bytes of exactly this route's value.
    pub fn get(&self, prefix: u128, len: u8) -> Option<Bytes> {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        writer.routes.get(&(prefix, len)).map(|&entry| self.values.read(entry))
    }

    /// Number of routes.
    pub fn count(&self) -> usize {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner).routes.len()
    }

    /// All routes, in no order.
    pub fn dump(&self) -> Vec<(u128, u8, Vec<u8>)> {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        writer.routes.iter().map(|(&(prefix, len), &entry)| (prefix, len, self.values.read(entry).into_vec())).collect()
    }

    /// Sets or removes the route in the nodes; nothing where there is no room for them.
    fn change(&self, writer: &mut Writer, prefix: u128, len: u8, entry: Option<u32>) -> Result<(), TableError> {
        let level = usize::from(len.saturating_sub(1)) / STRIDE as usize;
        let bytes = (prefix << (128 - self.width)).to_be_bytes();
        let at = (bytes[level], len - (level as u32 * STRIDE) as u8);
        // The places on the way to the node, as far as there are nodes.
        let mut places = vec![self.nodes.root()];
        while places.len() <= level {
            let depth = places.len() - 1;
            // SAFETY: the places lead to nodes that are in use, and the lock is held.
            match unsafe { self.nodes.step(load(places[depth]), bytes[depth]) } {
                (_, Some(place)) => places.push(place),
                (_, None) => break,
            }
        }
        let mut depth = places.len() - 1;
        let found = load(places[depth]);
        let own = changed(if depth == level { writer.own(found) } else { &[] }, at, entry);
        let mut made: Vec<u32> = Vec::new();
        // The node that takes the place of one that is there, and the routes that end in it.
        let (mut node, kept) = if depth == level {
            (with_routes(&self.nodes.read(found), &own), Vec::new())
        } else {
            // From the node itself upwards to the one that hangs in what is there.
            let mut new = with_routes(&Node::default(), &own);
            for depth in (places.len()..=level).rev() {
                let Some(number) = self.make(writer, &new) else {
                    return self.give_up(writer, made);
                };
                made.push(number);
                new = with_child(&Node::default(), bytes[depth - 1], number);
            }
            let child = *made.last().unwrap_or(&0);
            (with_child(&self.nodes.read(found), bytes[depth], child), writer.own(found).to_vec())
        };
        let mut own_here = if depth == level { own.clone() } else { kept };
        // A node that has become empty goes, and with it those above that hold nothing else.
        let deepest = depth;
        while depth > 0 && own_here.is_empty() && node.children.is_empty() {
            depth -= 1;
            let above = load(places[depth]);
            node = with_child(&self.nodes.read(above), bytes[depth], 0);
            own_here = writer.own(above).to_vec();
        }
        let Some(number) = self.make(writer, &node) else {
            return self.give_up(writer, made);
        };
        // The first that was made is the node that the route ends in.
        if let Some(&first) = made.first() {
            writer.own.insert(first, own.into());
        }
        if !own_here.is_empty() {
            writer.own.insert(number, own_here.into());
        }
        // Places in nodes that go still lead to those below them.
        let gone: Vec<_> = places[depth..=deepest].iter().map(|place| load(place)).collect();
        places[depth].store(number, Ordering::Release);
        for node in gone {
            writer.own.remove(&node);
            writer.old.push_back((node, self.epochs.retire()));
        }
        self.free_old(writer);
        Ok(())
    }

    /// A node. Where there is no room, old ones are waited for.
    fn make(&self, writer: &mut Writer, node: &Node) -> Option<u32> {
        let made = self.nodes.make(node, &mut writer.free);
        if made.is_some() || writer.old.is_empty() {
            return made;
        }
        patiently(|| {
            self.free_old(writer);
            let made = self.nodes.make(node, &mut writer.free);
            (made.is_some() || writer.old.is_empty()).then_some(made)
        })?
    }

    /// Frees nodes that no reader has seen.
    fn give_up(&self, writer: &mut Writer, made: Vec<u32>) -> Result<(), TableError> {
        made.into_iter().for_each(|node| self.nodes.free(node, &mut writer.free));
        Err(TableError::Full)
    }

    /// Frees replaced nodes, but not those further down, that no look-up can be in any more.
    fn free_old(&self, writer: &mut Writer) {
        let safe = self.epochs.safe();
        while let Some(&(node, stamp)) = writer.old.front()
            && stamp <= safe
        {
            writer.old.pop_front();
            self.nodes.free(node, &mut writer.free);
        }
    }
}

fn load(place: &AtomicU32) -> u32 {
    place.load(Ordering::Acquire)
}

/// The routes with this one set or removed.
fn changed(own: &[NodeRoute], (byte, bits): (u8, u8), entry: Option<u32>) -> Vec<NodeRoute> {
    let mut own: Vec<NodeRoute> = own.iter().copied().filter(|own| (own.byte, own.bits) != (byte, bits)).collect();
    own.extend(entry.map(|entry| NodeRoute { byte, bits, entry }));
    own
}

impl Writer {
    /// The routes that end in a node.
    fn own(&self, node: u32) -> &[NodeRoute] {
        self.own.get(&node).map_or(&[], |own| own)
    }
}

/// `abi::Runtime::lpm_lookup`.
///
/// # Safety
/// `control` is the control block of a [`Trie`], `key` a packed key, and the caller is a worker in a batch.
pub unsafe extern "C" fn lookup(control: *const u8, key: *const u64) -> *mut u8 {
    // SAFETY: by the caller's promise.
    unsafe {
        let trie = &*control.cast::<Trie>();
        let key = match trie.width {
            ..=64 => {
                let bytes = baker::ir::storage_size(trie.width) as usize;
                codegen::abi::read_field(std::slice::from_raw_parts(key.cast(), bytes), trie.width)
            }
            _ => key.cast::<u128>().read_unaligned(),
        };
        trie.find(key).map_or(ptr::null_mut(), |entry| trie.values.at(entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::scalar;

    #[test]
    fn where_nodes_have_no_room_nothing_changes_and_what_is_removed_makes_room() {
        let space = Space::measuring();
        let epochs = Arc::new(Epochs::new(&space).unwrap());
        let trie = Trie::new(1000, 128, (&scalar(32), None), epochs, &space).unwrap();
        // Routes that share nothing but the root need a node for each byte.
        let prefix = |n: u32| (u128::from(n) << 120) | (u128::from(n.wrapping_mul(0x9e37_79b9)) << 80) | u128::from(n);
        for round in 0..3u32 {
            let mut there = 0;
            while there < 1000 && trie.insert(prefix(there), 128, &(there + round).to_ne_bytes()).is_ok() {
                there += 1;
            }
            assert!((50..1000).contains(&there), "{there}");
            assert_eq!(trie.count(), there as usize);
            assert_eq!(trie.insert(prefix(there), 128, &[0; 4]), Err(TableError::Full));
            for n in 0..there {
                assert_eq!(trie.read(prefix(n)).as_deref(), Some(&(n + round).to_ne_bytes()[..]));
            }
            assert_eq!(trie.read(prefix(there)), None);
            // A value that changes takes no node's place.
            trie.insert(prefix(0), 128, &[7; 4]).unwrap();
            for n in 0..there {
                trie.remove(prefix(n), 128).unwrap();
            }
            assert_eq!(trie.count(), 0);
        }
    }
}

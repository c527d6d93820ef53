//! Longest prefix match for keys of up to 128 bits: a multibit trie with a stride of 8 bits and compressed nodes.
//!
//! A node stands for the prefixes that begin with its bytes. It holds the routes that end in its stride, expanded to the
//! 256 values of the next byte (Srinivasan and Varghese, "Fast address lookups using controlled prefix expansion", 1999),
//! and the nodes further down. Both lists are compressed by bit maps of 256 bits: of the routes, one is kept for each run
//! of equal ones (Degermark et al., "Small forwarding tables for fast routing lookups", 1997). Routes are not pushed
//! further down, so a change touches one node, and the nodes above it where that node comes or goes.
//!
//! Nodes do not change. A writer replaces a node by a changed copy with one store to the place that leads to it, so a
//! look-up sees the old node or the new one; the old one is freed when no look-up can be in it any more.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use baker::ir::{Layout, TableError};

use super::slots::{SPARE, Slots};
use super::space::Space;
use super::values::Values;
use crate::epoch::Epochs;

/// Bits of the key that a node tells apart.
const STRIDE: u32 = 8;

/// A subset of the 256 values of a byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ByteSet([u64; 4]);

impl ByteSet {
    fn insert(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    fn contains(&self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1
    }

    /// How many are at or below this one.
    fn rank(&self, byte: u8) -> usize {
        let word = usize::from(byte >> 6);
        let below: u32 = self.0[..word].iter().map(|word| word.count_ones()).sum();
        (below + (self.0[word] & (u64::MAX >> (63 - (byte & 63)))).count_ones()) as usize
    }
}

/// A route that ends in a node: the bits of the next byte that it fixes, the others zero, and its entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Own {
    byte: u8,
    /// 1 to 8, or 0 in the root.
    bits: u8,
    entry: u32,
}

#[derive(Debug, Default)]
struct Node {
    /// The bytes at which another route begins to be the longest one.
    starts: ByteSet,
    /// For each of them, 0 or the route's entry + 1. Empty where no route ends here.
    routes: Box<[u32]>,
    /// The bytes with a node further down.
    below: ByteSet,
    children: Box<[AtomicPtr<Node>]>,
    /// For the writer.
    own: Box<[Own]>,
}

impl Node {
    /// Entry + 1 of the longest route that ends here and covers this byte, or 0.
    fn route(&self, byte: u8) -> u32 {
        self.routes.get(self.starts.rank(byte).wrapping_sub(1)).copied().unwrap_or(0)
    }

    fn child(&self, byte: u8) -> Option<&AtomicPtr<Node>> {
        self.below.contains(byte).then(|| &self.children[self.below.rank(byte) - 1])
    }

    /// A node with these routes and the nodes further down of this one.
    fn with_routes(&self, own: Vec<Own>) -> Node {
        let mut expanded = [(0u32, 0u8); 256];
        for route in &own {
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
        Node { starts, routes: routes.into(), below: self.below, children: self.copy_children(), own: own.into() }
    }

    /// This node with the given node further down, or without one where it is null.
    fn with_child(&self, byte: u8, child: *mut Node) -> Node {
        let mut below = ByteSet::default();
        let mut children = Vec::with_capacity(self.children.len() + 1);
        for at in 0..=u8::MAX {
            let kept = if at == byte { child } else { self.child(at).map_or(ptr::null_mut(), load) };
            if !kept.is_null() {
                below.insert(at);
                children.push(AtomicPtr::new(kept));
            }
        }
        let (routes, own) = (self.routes.clone(), self.own.clone());
        Node { starts: self.starts, routes, below, children: children.into(), own }
    }

    fn copy_children(&self) -> Box<[AtomicPtr<Node>]> {
        self.children.iter().map(|child| AtomicPtr::new(load(child))).collect()
    }
}

fn load(place: &AtomicPtr<Node>) -> *mut Node {
    place.load(Ordering::Acquire)
}

fn boxed(node: Node) -> *mut Node {
    Box::into_raw(Box::new(node))
}

#[derive(Debug)]
struct Writer {
    /// Entry by prefix and length.
    routes: HashMap<(u128, u8), u32, ahash::RandomState>,
    entries: Slots,
    /// Replaced nodes, with the stamp from which on nobody looks at them.
    old: VecDeque<(*mut Node, u64)>,
}

// SAFETY: the old nodes belong to the writer alone, but for look-ups that end before the nodes are freed.
unsafe impl Send for Writer {}

/// An lpm table with keys of `width` bits.
#[derive(Debug)]
pub struct Trie {
    /// Never null.
    root: AtomicPtr<Node>,
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
        let writer =
            Writer { routes: HashMap::default(), entries: Slots::new(limit, &Space::private())?, old: VecDeque::new() };
        Ok(Trie {
            root: AtomicPtr::new(boxed(Node::default())),
            width,
            values: Values::new(limit, value, space)?,
            capacity,
            epochs,
            writer: Mutex::new(writer),
        })
    }

    pub fn control_block(&self) -> *mut u8 {
        (&raw const *self).cast_mut().cast()
    }

    /// Bytes of the entry that a packet's look-up of this key finds.
    pub fn read(&self, key: u128) -> Option<Vec<u8>> {
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
        let mut node = load(&self.root);
        let mut best = 0;
        loop {
            // SAFETY: nodes are freed only when no caller can have found them; see the function's contract.
            let here = unsafe { &*node };
            let byte = (rest >> (128 - STRIDE)) as u8;
            let route = here.route(byte);
            best = if route == 0 { best } else { route };
            match here.child(byte) {
                Some(place) => node = load(place),
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
        writer.routes.insert((prefix, len), entry);
        self.change(writer, prefix, len, Some(entry));
        if let Some(old) = old {
            writer.entries.lock().retire(old, &self.epochs);
        }
        Ok(())
    }

    /// Removes a route; its addresses fall to the next shorter one.
    pub fn remove(&self, prefix: u128, len: u8) -> Result<(), TableError> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let writer = &mut *writer;
        let entry = writer.routes.remove(&(prefix, len)).ok_or(TableError::NotFound)?;
        self.change(writer, prefix, len, None);
        writer.entries.lock().retire(entry, &self.epochs);
        Ok(())
    }

    /// Bytes of exactly this route's value.
    pub fn get(&self, prefix: u128, len: u8) -> Option<Vec<u8>> {
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
        writer.routes.iter().map(|(&(prefix, len), &entry)| (prefix, len, self.values.read(entry))).collect()
    }

    /// Sets or removes the route in the nodes.
    fn change(&self, writer: &mut Writer, prefix: u128, len: u8, entry: Option<u32>) {
        let level = usize::from(len.saturating_sub(1)) / STRIDE as usize;
        let bytes = (prefix << (128 - self.width)).to_be_bytes();
        let own = (bytes[level], len - (level as u32 * STRIDE) as u8);
        // The places on the way to the node, as far as there are nodes.
        let mut places = vec![&self.root];
        while places.len() <= level {
            // SAFETY: the places lead to nodes that are in use, and the lock is held.
            let node = unsafe { &*load(places[places.len() - 1]) };
            match node.child(bytes[places.len() - 1]) {
                Some(place) => places.push(place),
                None => break,
            }
        }
        let (mut depth, mut node) = if places.len() > level {
            // SAFETY: as above.
            let old = unsafe { &*load(places[level]) };
            (level, changed(old, own, entry))
        } else {
            // From the node itself upwards to the one that hangs in what is there.
            let mut new = boxed(changed(&Node::default(), own, entry));
            for depth in (places.len()..level).rev() {
                new = boxed(Node::default().with_child(bytes[depth], new));
            }
            let depth = places.len() - 1;
            // SAFETY: as above.
            (depth, unsafe { &*load(places[depth]) }.with_child(bytes[depth], new))
        };
        // A node that has become empty goes, and with it those above that hold nothing else.
        let deepest = depth;
        while depth > 0 && node.own.is_empty() && node.children.is_empty() {
            depth -= 1;
            // SAFETY: as above.
            node = unsafe { &*load(places[depth]) }.with_child(bytes[depth], ptr::null_mut());
        }
        // Places in nodes that go still lead to those below them.
        let gone: Vec<_> = places[depth..=deepest].iter().map(|place| load(place)).collect();
        places[depth].store(boxed(node), Ordering::Release);
        for node in gone {
            writer.retire(node, &self.epochs);
        }
        writer.free_old(&self.epochs);
    }
}

/// The node with this route set or removed.
fn changed(node: &Node, (byte, bits): (u8, u8), entry: Option<u32>) -> Node {
    let mut own: Vec<Own> = node.own.iter().copied().filter(|own| (own.byte, own.bits) != (byte, bits)).collect();
    own.extend(entry.map(|entry| Own { byte, bits, entry }));
    node.with_routes(own)
}

impl Writer {
    /// Frees a node, but not those further down, when no look-up can be in it any more.
    fn retire(&mut self, node: *mut Node, epochs: &Epochs) {
        self.old.push_back((node, epochs.retire()));
    }

    fn free_old(&mut self, epochs: &Epochs) {
        let safe = epochs.safe();
        while let Some(&(node, stamp)) = self.old.front()
            && stamp <= safe
        {
            self.old.pop_front();
            // SAFETY: made by `boxed`, unlinked before it was retired, and every worker has since begun a new batch.
            drop(unsafe { Box::from_raw(node) });
        }
    }
}

impl Drop for Trie {
    fn drop(&mut self) {
        let writer = self.writer.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut nodes: Vec<*mut Node> = writer.old.drain(..).map(|(node, _)| node).collect();
        // What still hangs together; replaced nodes own none of those further down.
        let mut linked = vec![*self.root.get_mut()];
        while let Some(node) = linked.pop() {
            // SAFETY: nobody else has the table any more.
            linked.extend(unsafe { &*node }.children.iter().map(load));
            nodes.push(node);
        }
        for node in nodes {
            // SAFETY: each node was made by `boxed` and is in the list once.
            drop(unsafe { Box::from_raw(node) });
        }
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

//! The nodes of a trie, in one block of memory that code in the kernel can walk, too: see [`codegen::abi::TrieNode`].
//!
//! A node is named by its distance from the block's start in units of 32 bytes; 0 is no node. Nodes have as many units
//! as they need, and those of one size that were freed are handed out again before fresh ones.

use std::io;
use std::mem::{offset_of, size_of};
use std::sync::atomic::{AtomicU32, Ordering};

use codegen::abi::{TRIE_LISTED, TRIE_UNIT, TrieNode};

use super::space::{Block, Space, Use};

/// Bytes of a unit.
const UNIT: usize = TRIE_UNIT as usize;
/// Bytes of nodes for each route where memory costs something before it is touched.
const DENSE: usize = 128;
/// As much there at most.
const MOST_DENSE: usize = 1 << 27;
/// Bytes of nodes for each route where it does not: for routes that share no node but the root.
const SPARSE: usize = 4096;
/// As little in any case.
const LEAST: usize = 1 << 16;
/// Numbers in the list of a node.
const LISTED: usize = TRIE_LISTED as usize;
/// Units of the largest node.
const LARGEST: usize = units(LISTED);

/// Units of a node with so many routes and nodes further down.
const fn units(listed: usize) -> usize {
    (size_of::<TrieNode>() + listed * 4).div_ceil(UNIT)
}

/// A subset of the 256 values of a byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByteSet(pub [u64; 4]);

impl ByteSet {
    pub fn insert(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    pub fn contains(&self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1
    }

    /// How many are at or below this one.
    pub fn rank(&self, byte: u8) -> usize {
        let word = usize::from(byte >> 6);
        let mask = u64::MAX >> (63 - (byte & 63));
        usize::from(self.before(0)[word]) + (self.0[word] & mask).count_ones() as usize
    }

    /// How many are below the first of each word, and `more`.
    fn before(&self, more: usize) -> [u16; 4] {
        let mut sum = more as u16;
        self.0.map(|word| {
            let before = sum;
            sum += word.count_ones() as u16;
            before
        })
    }
}

/// A node that is being made, or was read.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// The bytes at which another route begins to be the longest one.
    pub starts: ByteSet,
    /// For each of them, 0 or the route's entry + 1. Empty where no route ends here.
    pub routes: Vec<u32>,
    /// The bytes with a node further down.
    pub below: ByteSet,
    /// Their nodes.
    pub children: Vec<u32>,
}

/// The block, and what of it is free.
#[derive(Debug)]
pub struct Nodes {
    block: Block,
    /// Units.
    size: u32,
}

/// What the writer knows of the block.
#[derive(Debug)]
pub struct Free {
    /// By units.
    lists: Vec<Vec<u32>>,
    /// First unit that no node has had.
    fresh: u32,
}

impl Nodes {
    /// Room for the nodes of so many routes; of few that share little, or many in dense memory, not for all.
    pub fn new(capacity: u32, space: &Space) -> io::Result<(Nodes, Free)> {
        let capacity = capacity as usize;
        let bytes = match space.is_dense() {
            true => capacity.saturating_mul(DENSE).clamp(LEAST, MOST_DENSE).next_power_of_two(),
            false => capacity.saturating_mul(SPARSE).max(LEAST).min(u32::MAX as usize * UNIT),
        };
        // Behind the last unit lies what code in the kernel could reach, for all that its verifier knows.
        let block = space.take(bytes + size_of::<TrieNode>() + 2 * LISTED * 4, Use::SparseIndex)?;
        let free = Free { lists: vec![Vec::new(); LARGEST + 1], fresh: 1 };
        Ok((Nodes { block, size: (bytes / UNIT) as u32 }, free))
    }

    /// The block's first byte. The root's number lies there.
    pub fn start(&self) -> *mut u8 {
        self.block.ptr()
    }

    /// Units, a power of two in dense memory.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Where the root's number is.
    pub fn root(&self) -> &AtomicU32 {
        // SAFETY: the block is that large and aligned to a page.
        unsafe { AtomicU32::from_ptr(self.block.ptr().cast()) }
    }

    fn at(&self, node: u32) -> *mut TrieNode {
        assert!(node < self.size);
        // SAFETY: within the block.
        unsafe { self.block.ptr().add(node as usize * UNIT).cast() }
    }

    fn listed(&self, node: u32, index: usize) -> &AtomicU32 {
        assert!(index < LISTED);
        // SAFETY: behind a node lie as many numbers, or other nodes, or the block's last bytes; they are words that are
        // only accessed atomically once the node can be found.
        unsafe { AtomicU32::from_ptr(self.at(node).add(1).cast::<u32>().add(index)) }
    }

    /// Entry + 1 of the longest route that ends in a node and covers this byte, or 0; and where the number of the node
    /// further down lies, if there is one.
    ///
    /// # Safety
    /// The node is in use, and stays so for as long as the result.
    pub unsafe fn step(&self, node: u32, byte: u8) -> (u32, Option<&AtomicU32>) {
        // SAFETY: by the caller's promise; nodes in use do not change but for the numbers of those further down.
        let head = unsafe { &*self.at(node) };
        let word = usize::from(byte >> 6);
        let mask = u64::MAX >> (63 - (byte & 63));
        let rank =
            |set: &[u64; 4], before: &[u16; 4]| usize::from(before[word]) + (set[word] & mask).count_ones() as usize;
        let route = match rank(&head.starts, &head.routes_before).checked_sub(1) {
            Some(index) => self.listed(node, index).load(Ordering::Relaxed),
            None => 0,
        };
        let has = head.below[word] >> (byte & 63) & 1 == 1;
        let child = has.then(|| self.listed(node, rank(&head.below, &head.children_before) - 1));
        (route, child)
    }

    /// A node as it is.
    pub fn read(&self, node: u32) -> Node {
        // SAFETY: the writer calls it, of a node that is in use.
        let head = unsafe { &*self.at(node) };
        let count = |set: &[u64; 4]| set.iter().map(|word| word.count_ones() as usize).sum::<usize>();
        let (routes, children) = (count(&head.starts), count(&head.below));
        let list = |range: std::ops::Range<usize>| range.map(|index| self.listed(node, index).load(Ordering::Relaxed));
        Node {
            starts: ByteSet(head.starts),
            routes: list(0..routes).collect(),
            below: ByteSet(head.below),
            children: list(routes..routes + children).collect(),
        }
    }

    /// Makes a node; `None` where there is no room.
    pub fn make(&self, node: &Node, free: &mut Free) -> Option<u32> {
        let listed = node.routes.len() + node.children.len();
        let units = units(listed);
        let number = match free.lists[units].pop() {
            Some(number) => number,
            None if free.fresh as usize + units <= self.size as usize => {
                let number = free.fresh;
                free.fresh += units as u32;
                number
            }
            None => return None,
        };
        let head = TrieNode {
            starts: node.starts.0,
            below: node.below.0,
            routes_before: node.starts.before(0),
            children_before: node.below.before(node.routes.len()),
        };
        // SAFETY: the units have no other owner, and are aligned.
        unsafe { self.at(number).write(head) };
        for (index, value) in node.routes.iter().chain(&node.children).enumerate() {
            self.listed(number, index).store(*value, Ordering::Relaxed);
        }
        Some(number)
    }

    /// Takes a node back that no look-up can be in any more.
    pub fn free(&self, node: u32, free: &mut Free) {
        let Node { routes, children, .. } = self.read(node);
        free.lists[units(routes.len() + children.len())].push(node);
    }
}

const _: () = assert!(offset_of!(TrieNode, starts) == 0 && UNIT.is_multiple_of(align_of::<TrieNode>()));

//! The binary interface between generated code and the data plane.
//!
//! One [`Context`] per worker. A frame is a slot of `frame_size` bytes in one shared region; beside it lies its
//! [`Descriptor`] with the metadata behind it. Generated code gets a batch of frame numbers, reads and writes frames
//! and descriptors, appends to `outputs`, and puts the frames of dropped packets on the free stack. It never allocates.

use baker::ir::{Layout, LayoutId, Program, Table, storage_size};

/// What a worker's generated code works on. All pointers are valid for the whole run and belong to this worker alone
/// but for `region`, `descriptors` (frames are handed from worker to worker) and `tables`. What they point to does not
/// overlap, and the pointers and `frame_size` are constant while a batch runs.
#[repr(C)]
#[derive(Debug)]
pub struct Context {
    /// First byte of the frame region.
    pub region: *mut u8,
    /// First descriptor, aligned to a cache line (at least to 8 bytes); frame `i`'s is at
    /// `i * descriptor_stride(program)`.
    pub descriptors: *mut u8,
    /// The worker's counter block, in the order of `baker::ir::CounterSlots`.
    pub counters: *mut u64,
    /// One pointer per table to its control block: [`ArrayTable`], [`LpmTable`], [`HashTable`], or the data plane's own
    /// for `lpm` with keys of other than 32 bits.
    pub tables: *const *mut u8,
    /// Stack of free frames. `Program::limits.copies` per packet of the batch are there when a batch starts.
    pub free: *mut u32,
    /// Where packets that leave the program are listed, in order; room for `(copies + 1)` per packet of the batch.
    pub outputs: *mut Output,
    /// Number of frames on the free stack.
    pub free_len: u32,
    /// Number of outputs listed; the worker empties the list after each batch.
    pub output_len: u32,
    /// Bytes per frame.
    pub frame_size: u64,
    /// The time in nanoseconds (CLOCK_MONOTONIC); constant while a batch runs, and set only for programs that use it.
    pub now: u64,
    /// For generated code: what packets of the batch have changed, as a signature (see `baker::opt::stage`).
    pub written: u64,
    /// Which batches are staged.
    pub staging: Staging,
    /// For generated code: batches to come that are not staged, for in the last one that was too many packets began
    /// again. 0 at first.
    pub rest: u32,
    /// One function per extern of the program.
    pub externs: *const ExternCall,
    /// What the data plane has of the deadlines of table entries: for [`Runtime::deadline_set`].
    pub deadlines: *mut u8,
    /// By frame, how many hold it besides the first: packets whose `rest` it is, or descriptors of it at the kernel.
    /// Workers change a count that is not 0 by atomic operations alone. Where it is 0 the one that holds the frame may
    /// do with it what it wants.
    pub shares: *mut u32,
    /// Bytes of a packet that a copy shares at least, so that what costs less to be copied is; at least 1.
    /// [`SHARE_NONE`]: no copy shares any, and the rests of packets are not counted.
    pub share_least: u32,
    /// Nanoseconds of a tick of the processor's clock, times two to the [`TICK_BITS`]. Only programs that measure times
    /// use it (`baker::opt::timing`).
    pub tick: u64,
}

/// See [`Context::tick`].
pub const TICK_BITS: u32 = 20;

/// See [`Context::share_least`].
pub const SHARE_NONE: u32 = u32::MAX;

/// Which batches are staged: see `baker::opt::stage`.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Staging {
    /// Those that look into tables which are larger than the caches.
    #[default]
    Auto = 0,
    /// All, at every look-up. For tests: what comes out is the same.
    Always = 1,
    /// None.
    Never = 2,
}

/// A function of a controller.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ExternCall {
    /// Gets `data` and the arguments: two words each, the lower one first, zero beyond the declared width. Leaves the
    /// result in their place, in the first two words; bits beyond its width mean nothing. It does not unwind, does not
    /// keep the pointer, and touches nothing of what a [`Context`] leads to. Any thread may call it.
    pub call: unsafe extern "C" fn(*const (), *mut u64),
    /// What the first argument is.
    pub data: *const (),
}

// SAFETY: the function may be called by any thread with its data.
unsafe impl Send for ExternCall {}
// SAFETY: as above.
unsafe impl Sync for ExternCall {}

/// One packet. The metadata (`Program::metadata`) follows at [`METADATA_OFFSET`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Descriptor {
    /// Offset of the packet's first byte (its head) from the start of the region.
    pub addr: u64,
    /// Bytes from the head to the end.
    pub len: u32,
    /// Number of the frame that holds it; constant.
    pub frame: u32,
    /// Frame that has the packet's bytes from `held` on, at the same places within it. [`WHOLE`] where none does.
    pub rest: u32,
    /// Bytes of this frame, from its first one on, behind which bytes of the packet are in `rest`. [`WHOLE`] where all
    /// of them are here. Generated code touches no byte behind it (`baker::opt::reach`, `baker::opt::share`), and
    /// `packet_copy` copies none.
    pub held: u32,
}

/// See [`Descriptor::rest`] and [`Descriptor::held`].
pub const WHOLE: u32 = u32::MAX;

/// Offset of the metadata from the start of the descriptor.
pub const METADATA_OFFSET: usize = size_of::<Descriptor>();

/// Bytes from one descriptor to the next: a multiple of a cache line, so that workers do not share lines.
pub fn descriptor_stride(program: &Program) -> usize {
    (METADATA_OFFSET + program.metadata_size as usize).next_multiple_of(64)
}

/// A packet that leaves the program.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Output {
    /// Its frame.
    pub frame: u32,
    /// [`END_TX`], [`END_HOST`], or the channel that leads to a controller, from [`END_CHANNEL`] on.
    pub end: u32,
}

/// To the port that `metadata.tx.port` names.
pub const END_TX: u32 = 0;
/// To the kernel's own stack.
pub const END_HOST: u32 = 1;
/// This plus the number of a channel: to the controller that it leads to.
pub const END_CHANNEL: u32 = 2;

/// Packets in a batch at most.
pub const MAX_BATCH: usize = 64;

/// A batch: context, frame numbers, how many (at most [`MAX_BATCH`]). The frame numbers lie in memory of their own, not
/// on the free stack.
///
/// The caller has received each packet: its descriptor holds `addr`, `len` and `frame`, and its metadata is zero but
/// for `rx.port`. Generated code relies on that and does not clear the metadata itself. Afterwards each frame of the
/// batch and each copy is either among the outputs or on the free stack.
///
/// # Safety
///
/// The context is as [`Context`] says, for the program that the function was compiled from; the frame numbers are valid
/// and differ; the [`crate::Native`] that gave the function lives.
pub type RunFn = unsafe extern "C" fn(*mut Context, *const u32, u32);

/// Runs a timer: context, keys one after the other, how many (at most its `slice`). A key is packed ([`pack_key`]);
/// that of an array is its index, and a timer that goes over no table gets as many calls without a key.
/// `Limits::copies` free frames per call are in the context.
///
/// # Safety
///
/// As for [`RunFn`]; there are as many keys as the number says.
pub type TimerFn = unsafe extern "C" fn(*mut Context, *const u64, u32);

/// Words of a packed key of a table.
#[inline]
pub fn key_words(key: &Layout) -> usize {
    let bits: u32 = key.fields.iter().map(|field| field.width).sum();
    bits.div_ceil(64).max(1) as usize
}

/// Control block of an array table. Entry `i` is at `i * stride(value layout)`. The block is constant while a batch
/// runs, but `entries` may be others in the next one; they are aligned to 8 bytes at least.
#[repr(C)]
#[derive(Debug)]
pub struct ArrayTable {
    /// The entries.
    pub entries: *mut u8,
}

/// A cell of a meter, which is an array table: see `baker::ir::meter`. Another thread may change any field at any time
/// with an atomic store; `full` changes by compare-and-swap, or becomes 0 when the control plane sets the others.
#[repr(C)]
#[derive(Debug)]
pub struct MeterCell {
    /// Tokens per second.
    pub rate: u64,
    /// Tokens that it holds at most.
    pub burst: u64,
    /// When it is full again.
    pub full: u64,
}

/// Control block of an `lpm` table with keys of 32 bits: DIR-24-8 (Gupta, Lin, McKeown 1998). A slot is 0 for no route,
/// `entry + 1` for a route, or [`LPM_GROUP`] + group for a block of 256 slots in `tbl8` indexed by the low key byte.
/// A slot of 0 at the end of the look-up means the default route's slot.
///
/// The pointers are constant while a batch runs. Another thread may change a slot, `default_slot` or `large` at any
/// time with an atomic store (release, after the entry or the group that it leads to): a look-up reads each once.
#[repr(C)]
#[derive(Debug)]
pub struct LpmTable {
    /// 2^24 slots, by the key's upper 24 bits.
    pub tbl24: *const u32,
    /// Groups of 256 slots.
    pub tbl8: *const u32,
    /// The values; that of entry `i` is at `i * stride(value layout)`.
    pub entries: *mut u8,
    /// Slot of the route with prefix length 0.
    pub default_slot: u32,
    /// Which of a look-up's two steps are worth fetching ahead, by what the table holds: [`LARGE_FIRST`],
    /// [`LARGE_SECOND`]. May change at any time.
    pub large: u32,
}

/// Bit of `large`: a table's first memory (`tbl24`, the buckets).
pub const LARGE_FIRST: u32 = 1;
/// Bit of `large`: the memory that this leads to (groups and values, entries).
pub const LARGE_SECOND: u32 = 2;

/// Whether an `lpm` table has the control block [`LpmTable`]: its keys have 32 bits.
pub fn is_dir_24_8(program: &Program, table: &Table) -> bool {
    program.layouts[table.key.0 as usize].fields[0].width == 32
}

/// Marks a `tbl24` slot that leads to a group of `tbl8`.
pub const LPM_GROUP: u32 = 1 << 31;

/// Bytes of which the size of a [`TrieNode`] with its list is a multiple; its number counts them from the first node's
/// block on.
pub const TRIE_UNIT: u64 = 32;
/// Numbers in the list of a [`TrieNode`] at most: 256 routes and 256 nodes further down.
pub const TRIE_LISTED: u64 = 512;

/// A node of an `lpm` table with keys of other than 32 bits: a trie with a stride of 8 bits. Behind it lies a list of
/// numbers of 32 bits: 0 or entry + 1 of each route in `starts`, then each node in `below`. All but the latter is
/// constant while it can be found.
///
/// Bytes of the key are bits of the sets, from the lowest bit of the first word on.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TrieNode {
    /// The bytes at which another route begins to be the longest one that ends in this node.
    pub starts: [u64; 4],
    /// The bytes with a node further down.
    pub below: [u64; 4],
    /// Numbers in the list in front of those of each word of `starts`.
    pub routes_before: [u16; 4],
    /// The same of `below`.
    pub children_before: [u16; 4],
}

/// Bytes from one entry of an array or lpm table to the next.
pub fn stride(program: &Program, value: LayoutId) -> usize {
    program.layouts[value.0 as usize].size as usize
}

/// Control block of a hash table: buckets of one cache line and entries beside them. It is constant while a batch runs
/// but for `large`.
///
/// A key is its fields one after the other, the first lowest, without gaps ([`pack_key`]). Its hash ([`hash_key`]) says
/// its first bucket ([`first_bucket`]) and its tag ([`hash_tag`]). Generated code looks into the first bucket only:
/// where no tag there equals the key's and no key spilled from there, the key is not in the table; where the entry of
/// the first slot with that tag has the key, it is found; in all other cases it calls [`Runtime::hash_lookup`].
///
/// An entry is the packed key and, at [`HashEntry::value_offset`], the value laid out as its `Layout` says. An entry's
/// key does not change while a look-up can reach it, and the entry stays in place while a batch runs. Entry 0 is never
/// used: there is memory for it, so that an empty slot leads to something that may be read.
#[repr(C)]
#[derive(Debug)]
pub struct HashTable {
    /// The buckets, each a [`HashBucket`].
    pub buckets: *const u8,
    /// The entries; entry `i` is at `i * HashEntry::stride`.
    pub entries: *mut u8,
    /// Makes the hash a different one in each process, so that a sender can't choose keys that collide.
    pub seed: [u64; 2],
    /// Bytes from the first bucket to the last: their number less 1 (see [`first_bucket`]), times their size.
    pub bucket_mask: u64,
    /// As in [`LpmTable`]. May change at any time.
    pub large: u32,
}

/// A bucket of a hash table. Another thread may change any word of it at any time with an atomic store.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct HashBucket {
    /// Tags of slots 0 to 3 and 4 to 7, 16 bits each. The tag of an empty slot means nothing.
    pub tags: [u64; 2],
    /// Entry number of each slot, or 0 where it is empty; stored after the entry and the tag.
    pub entries: [u32; 8],
    /// Keys that have this as their first bucket and lie elsewhere.
    pub spilled: u32,
}

/// The numbers of a table's entries: fresh, in use, free again, or waiting until no look-up can hold them. Behind it
/// lie `ring` free numbers of 32 bits, then as many [`Retired`]. For a hash table, entry `number` is `number + 1` in
/// its buckets.
///
/// A thread that changes the table, or this, holds `lock`.
#[repr(C)]
#[derive(Debug)]
pub struct SlotNumbers {
    /// 1 while it is held.
    pub lock: u32,
    /// Entries in the table.
    pub live: u32,
    /// Numbers from here on have never been in use.
    pub fresh: u32,
    /// How many free numbers there are.
    pub free: u32,
    /// The first number that there is not.
    pub limit: u32,
    /// Places of each list: a power of two.
    pub ring: u32,
    /// Which numbers wait: those in the ring from `first` to the one before `last`, both modulo `ring`.
    pub first: u32,
    /// See `first`.
    pub last: u32,
}

/// A number that waits.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retired {
    /// The moment it was retired, on the clock that readers announce (`Memory::epoch`).
    pub stamp: u64,
    /// The number.
    pub number: u32,
    /// 0
    pub unused: u32,
}

impl SlotNumbers {
    /// Places of the lists of a table with so many numbers.
    pub fn ring(limit: u32) -> u32 {
        limit.max(1).next_power_of_two()
    }

    /// Where the free numbers lie.
    pub const FREE: usize = size_of::<SlotNumbers>();

    /// Where the numbers lie that wait.
    pub fn retired(ring: u32) -> usize {
        Self::FREE + ring as usize * size_of::<u32>()
    }

    /// Bytes of it all.
    pub fn bytes(ring: u32) -> usize {
        Self::retired(ring) + ring as usize * size_of::<Retired>()
    }
}

/// Where things lie in an entry of a hash table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashEntry {
    /// Words of the packed key.
    pub key_words: usize,
    /// Bytes from the start of the entry to its value.
    pub value_offset: usize,
    /// Bytes from one entry to the next.
    pub stride: usize,
}

impl HashEntry {
    /// For a table with these layouts.
    pub fn new(key: &Layout, value: &Layout) -> Self {
        let key_words = key_words(key);
        let value_offset = (key_words * 8).next_multiple_of(value.align.max(1) as usize);
        let size = value_offset + value.size as usize;
        // An entry of up to a cache line does not cross two; values are aligned to 8 bytes at most.
        let stride = if size <= 64 { size.next_power_of_two() } else { size.next_multiple_of(8) };
        HashEntry { key_words, value_offset, stride }
    }
}

/// A key's fields, given as numbers that fit them, as words.
pub fn pack_key(layout: &Layout, fields: &[u128]) -> Vec<u64> {
    let mut words = vec![0; key_words(layout)];
    pack_fields(layout.fields.iter().map(|field| field.width).zip(fields.iter().copied()), &mut words);
    words
}

/// As [`pack_key`], from the widths of the fields and their numbers into words that are all zero.
#[inline]
pub fn pack_fields(fields: impl Iterator<Item = (u32, u128)>, words: &mut [u64]) {
    let mut at = 0;
    for (width, value) in fields {
        // A field lies in three words at most.
        let (word, shift) = (at as usize / 64, at % 64);
        let low = (value as u64 as u128) << shift;
        let high = (value >> 64) << shift;
        let parts = [low as u64, (low >> 64) as u64 | high as u64, (high >> 64) as u64];
        words[word..].iter_mut().zip(parts).for_each(|(word, part)| *word |= part);
        at += width;
    }
}

/// The fields of a packed key.
pub fn unpack_key(layout: &Layout, words: &[u64]) -> Vec<u128> {
    unpacked(layout, words).collect()
}

/// The fields of a packed key, one by one.
pub fn unpacked<'k>(layout: &'k Layout, words: &'k [u64]) -> impl Iterator<Item = u128> + 'k {
    let mut at = 0;
    layout.fields.iter().map(move |field| {
        let (word, shift) = (at as usize / 64, at % 64);
        let get = |index: usize| u128::from(words.get(index).copied().unwrap_or(0));
        let low = (get(word) | get(word + 1) << 64) >> shift;
        let high = if shift == 0 { 0 } else { get(word + 2) << (128 - shift) };
        at += field.width;
        (low | high) & (u128::MAX >> (128 - field.width.clamp(1, 128)))
    })
}

/// Hash of a packed key: folded multiplication, keyed (as in wyhash, and in aHash's and foldhash's portable forms).
#[inline]
pub fn hash_key(seed: [u64; 2], words: &[u64]) -> u64 {
    words.iter().fold(seed[0], |hash, word| {
        let product = u128::from(hash ^ word) * u128::from(seed[1]);
        product as u64 ^ (product >> 64) as u64
    })
}

/// First bucket of a key with this hash; the number of buckets is a power of two.
#[inline]
pub fn first_bucket(hash: u64, bucket_count: u32) -> u32 {
    hash as u32 & (bucket_count - 1)
}

/// Tag of a key with this hash: bits that say little of its buckets.
pub fn hash_tag(hash: u64) -> u16 {
    (hash >> 32) as u16
}

/// What became of an insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Inserted {
    /// There is no room, which generated code counts.
    Full = 0,
    /// The entry is there.
    Done = 1,
    /// There was one, and it stays as it is.
    Stays = 2,
}

/// Functions of the data plane that generated code calls, the same for all tables of a kind. Keys are packed
/// ([`pack_key`]), values are laid out by their `Layout`, padding zero, aligned as it says. The functions do not
/// unwind, do not keep the pointers to key and value, and touch no frame, descriptor, counter or context: generated
/// code keeps those in registers across a call.
#[derive(Clone, Copy, Debug)]
pub struct Runtime {
    /// Table control block, key → value or null.
    pub hash_lookup: unsafe extern "C" fn(*const u8, *const u64) -> *mut u8,
    /// Table control block, key, value, 1 where an entry that is there is to stay as it is → one of [`Inserted`].
    pub hash_insert: unsafe extern "C" fn(*mut u8, *const u64, *const u8, u8) -> u8,
    /// Table control block, key → 1, or 0 when it was not there.
    pub hash_remove: unsafe extern "C" fn(*mut u8, *const u64) -> u8,
    /// As `hash_lookup` for an `lpm` table with keys of other than 32 bits: the value of the longest matching prefix.
    pub lpm_lookup: unsafe extern "C" fn(*const u8, *const u64) -> *mut u8,
    /// Hold table (its control block is the data plane's own), context, packet, number → 1 where another packet had to
    /// go or this one could not be held. The packet is the table's. This and `hold_get` work on frames, descriptors and
    /// the free stack as generated code does.
    pub hold_put: unsafe extern "C" fn(*const u8, *mut Context, *mut Descriptor, u64) -> u8,
    /// Hold table, context, number, bytes that the copy needs for itself ([`WHOLE`] for all) → a packet in a frame of
    /// the free stack: a copy of what is held, or 0 bytes.
    pub hold_get: unsafe extern "C" fn(*const u8, *mut Context, u64, u32) -> *mut Descriptor,
    /// Cell of a meter ([`MeterCell`]), time as in [`Context::now`], tokens → 1, or 0 when the cell holds less.
    pub meter_take: unsafe extern "C" fn(*mut u8, u64, u64) -> u8,
    /// [`Context::deadlines`], table's number, key, time as in [`Context::now`], deadline (0: none) → 1, or 0 where
    /// there is no such entry: `baker::ir::Op::SetDeadline`.
    pub deadline_set: unsafe extern "C" fn(*mut u8, u32, *const u64, u64, u64) -> u8,
    /// [`Context::deadlines`], table's number, key, time → 1 where the entry's deadline has come:
    /// `baker::ir::Op::TakeDeadline`.
    pub deadline_take: unsafe extern "C" fn(*mut u8, u32, *const u64, u64) -> u8,
}

/// Reads a stored integer of `width` bits (see `baker::ir::storage_size`), host byte order.
#[inline]
pub fn read_field(bytes: &[u8], width: u32) -> u128 {
    fn first<const N: usize>(bytes: &[u8]) -> [u8; N] {
        *bytes.first_chunk().expect("a value has room for its fields")
    }
    // Sizes that are known when this is compiled are read at once.
    match storage_size(width) {
        1 => first::<1>(bytes)[0].into(),
        2 => u16::from_le_bytes(first(bytes)).into(),
        4 => u32::from_le_bytes(first(bytes)).into(),
        8 => u64::from_le_bytes(first(bytes)).into(),
        _ => u128::from_le_bytes(first(bytes)),
    }
}

/// Writes a stored integer of `width` bits, host byte order.
#[inline]
pub fn write_field(bytes: &mut [u8], width: u32, value: u128) {
    match storage_size(width) {
        1 => bytes[0] = value as u8,
        2 => bytes[..2].copy_from_slice(&(value as u16).to_le_bytes()),
        4 => bytes[..4].copy_from_slice(&(value as u32).to_le_bytes()),
        8 => bytes[..8].copy_from_slice(&(value as u64).to_le_bytes()),
        _ => bytes[..16].copy_from_slice(&value.to_le_bytes()),
    }
}

const _: () = assert!(cfg!(target_endian = "little"), "only little-endian hosts are supported");

#[cfg(test)]
mod tests {
    use baker::ir::LayoutField;

    use super::*;

    fn layout(widths: &[u32]) -> Layout {
        let field = |&width: &u32| LayoutField {
            name: String::new(),
            type_name: String::new(),
            width,
            signed: false,
            names: Vec::new(),
            offset: 0,
        };
        Layout { name: String::new(), fields: widths.iter().map(field).collect(), size: 0, align: 1 }
    }

    #[test]
    fn keys_are_packed_without_gaps() {
        let station = layout(&[8, 48]);
        assert_eq!(pack_key(&station, &[0xab, 0x0123_4567_89cd]), [0x0001_2345_6789_cdab]);
        for widths in [&[1][..], &[64], &[128], &[63, 128, 65], &[8, 128, 128, 3], &[32, 32, 16, 16, 8], &[7, 57, 1]] {
            let layout = layout(widths);
            for seed in 1..50u128 {
                let number = |(index, width): (usize, &u32)| {
                    let mixed = (seed + index as u128).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
                    mixed.rotate_left(13) & (u128::MAX >> (128 - width))
                };
                let fields: Vec<u128> = widths.iter().enumerate().map(number).collect();
                let words = pack_key(&layout, &fields);
                assert_eq!(words.len(), HashEntry::new(&layout, &layout).key_words);
                assert_eq!(unpack_key(&layout, &words), fields, "{widths:?}");
            }
        }
    }
}

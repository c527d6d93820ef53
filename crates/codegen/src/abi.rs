//! The binary interface between generated code and the data plane.
//!
//! One [`Context`] per worker. A frame is a slot of `frame_size` bytes in one shared region; beside it lies its
//! [`Descriptor`] with the metadata behind it. Generated code gets a batch of frame numbers, reads and writes frames and
//! descriptors, appends to `outputs`, and puts the frames of dropped packets on the free stack. It never allocates.

use baker::ir::{LayoutId, Program, Table, storage_size};

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
    /// One pointer per table to its control block: [`ArrayTable`], [`LpmTable`], or the data plane's own for hash and for
    /// `lpm` with keys of other than 32 bits.
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
}

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
}

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
    /// [`END_TX`] or [`END_HOST`].
    pub end: u32,
}

/// To the port that `metadata.tx.port` names.
pub const END_TX: u32 = 0;
/// To the kernel's own stack.
pub const END_HOST: u32 = 1;

/// Packets in a batch at most.
pub const MAX_BATCH: usize = 64;

/// A batch: context, frame numbers, how many (at most [`MAX_BATCH`]). The frame numbers lie in memory of their own, not
/// on the free stack.
///
/// The caller has received each packet: its descriptor holds `addr`, `len` and `frame`, and its metadata is zero but for
/// `rx.port`. Generated code relies on that and does not clear the metadata itself. Afterwards each frame of the batch and
/// each copy is either among the outputs or on the free stack.
///
/// # Safety
///
/// The context is as [`Context`] says, for the program that the function was compiled from; the frame numbers are valid
/// and differ; the [`crate::Native`] that gave the function lives.
pub type RunFn = unsafe extern "C" fn(*mut Context, *const u32, u32);

/// Control block of an array table. Entry `i` is at `i * stride(value layout)`. The block is constant while a batch runs,
/// and the entries are aligned to 8 bytes at least.
#[repr(C)]
#[derive(Debug)]
pub struct ArrayTable {
    /// The entries.
    pub entries: *mut u8,
}

/// Control block of an `lpm` table with keys of 32 bits: DIR-24-8 (Gupta, Lin, McKeown 1998). A slot is 0 for no route,
/// `entry + 1` for a route, or [`LPM_GROUP`] + group for a block of 256 slots in `tbl8` indexed by the low key byte.
/// A slot of 0 at the end of the look-up means the default route's slot.
///
/// The pointers are constant while a batch runs. Another thread may change a slot or `default_slot` at any time with an
/// atomic store (release, after the entry or the group that it leads to): a look-up reads each once.
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
}

/// Whether an `lpm` table has the control block [`LpmTable`]: its keys have 32 bits.
pub fn is_dir_24_8(program: &Program, table: &Table) -> bool {
    program.layouts[table.key.0 as usize].fields[0].width == 32
}

/// Marks a `tbl24` slot that leads to a group of `tbl8`.
pub const LPM_GROUP: u32 = 1 << 31;

/// Bytes from one entry of an array or lpm table to the next.
pub fn stride(program: &Program, value: LayoutId) -> usize {
    program.layouts[value.0 as usize].size as usize
}

/// Functions of the data plane that generated code calls, the same for all tables of a kind. Keys and values are laid out
/// by their `Layout`, padding zero, aligned as it says. The functions do not unwind, do not keep the pointers to key and
/// value, and touch no frame, descriptor, counter or context: generated code keeps those in registers across a call.
/// An entry is aligned to its layout (8 bytes are enough) and stays in place while a batch runs.
#[derive(Clone, Copy, Debug)]
pub struct Runtime {
    /// Table control block, key → value or null.
    pub hash_lookup: unsafe extern "C" fn(*const u8, *const u8) -> *mut u8,
    /// Table control block, key, value → 1, or 0 when full (the generated code counts it).
    pub hash_insert: unsafe extern "C" fn(*mut u8, *const u8, *const u8) -> u8,
    /// Table control block, key → 1, or 0 when it was not there.
    pub hash_remove: unsafe extern "C" fn(*mut u8, *const u8) -> u8,
    /// As `hash_lookup` for an `lpm` table with keys of other than 32 bits: the value of the longest matching prefix.
    pub lpm_lookup: unsafe extern "C" fn(*const u8, *const u8) -> *mut u8,
}

/// Reads a stored integer of `width` bits (see `baker::ir::storage_size`), host byte order.
pub fn read_field(bytes: &[u8], width: u32) -> u128 {
    let mut raw = [0; 16];
    let size = storage_size(width) as usize;
    raw[..size].copy_from_slice(&bytes[..size]);
    u128::from_le_bytes(raw)
}

/// Writes a stored integer of `width` bits, host byte order.
pub fn write_field(bytes: &mut [u8], width: u32, value: u128) {
    let size = storage_size(width) as usize;
    bytes[..size].copy_from_slice(&value.to_le_bytes()[..size]);
}

const _: () = assert!(cfg!(target_endian = "little"), "only little-endian hosts are supported");

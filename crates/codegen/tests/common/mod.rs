//! A small data plane for tests: frames between guard pages, descriptors, counters, tables, and a hash runtime.

#![allow(dead_code)] // each test file uses its part

pub mod asm;
pub mod tables;

use std::sync::Arc;

use baker::ir::*;
use codegen::abi::{self, Context, Descriptor, METADATA_OFFSET, Output};
use codegen::{Native, OptLevel};
use tables::TestTable;

/// Bytes per frame.
pub const FRAME_SIZE: usize = 2048;
const FRAMES: usize = 256;
const PAGE: usize = 4096;

/// Memory with an inaccessible page before and behind it, so that an access outside of the region ends the test.
struct Guarded {
    map: *mut u8,
    len: usize,
}

impl Guarded {
    fn new(len: usize) -> Self {
        assert_eq!(len % PAGE, 0);
        // SAFETY: a new private mapping, and protection of its inner part.
        let map = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let map = libc::mmap(std::ptr::null_mut(), len + 2 * PAGE, libc::PROT_NONE, flags, -1, 0);
            assert_ne!(map, libc::MAP_FAILED);
            assert_eq!(libc::mprotect(map.add(PAGE), len, libc::PROT_READ | libc::PROT_WRITE), 0);
            map.cast::<u8>()
        };
        Guarded { map, len }
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the accessible part of the mapping, borrowed as long as `self`.
        unsafe { std::slice::from_raw_parts_mut(self.map.add(PAGE), self.len) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`.
        unsafe { libc::munmap(self.map.cast(), self.len + 2 * PAGE) };
    }
}

/// A compiled program with everything that it works on.
pub struct Machine {
    pub program: Program,
    pub slots: CounterSlots,
    pub tables: Vec<TestTable>,
    native: Arc<Native>,
    region: Guarded,
    descriptors: Vec<[u64; 8]>, // one cache line each
    stride: usize,
    counters: Vec<u64>,
    free: Vec<u32>,
    free_len: u32,
    shares: Vec<u32>,
    outputs: Vec<Output>,
}

/// The time that programs see.
pub const NOW: u64 = 0x1234_5678_9abc_def0;

impl Machine {
    pub fn new(program: &Program, opt: OptLevel) -> Self {
        Machine::with(
            program,
            Arc::new(Native::compile(program, opt, baker::opt::Level::Base, &tables::RUNTIME).unwrap()),
        )
    }

    /// With a program that is compiled already.
    pub fn with(program: &Program, native: Arc<Native>) -> Self {
        let slots = CounterSlots::new(program);
        let stride = abi::descriptor_stride(program);
        let per_packet = program.limits.copies as usize + 1;
        let mut machine = Machine {
            tables: program.tables.iter().map(|table| TestTable::new(program, table)).collect(),
            counters: vec![0; slots.len()],
            slots,
            native,
            region: Guarded::new(FRAMES * FRAME_SIZE),
            descriptors: vec![[0; 8]; FRAMES * stride / 64],
            stride,
            free: (0..FRAMES as u32).collect(),
            free_len: FRAMES as u32,
            shares: vec![0; FRAMES],
            outputs: vec![Output { frame: u32::MAX, end: u32::MAX }; abi::MAX_BATCH * per_packet],
            program: program.clone(),
        };
        for frame in 0..FRAMES as u32 {
            // SAFETY: the frame's descriptor.
            unsafe { (*machine.descriptor_ptr(frame).cast::<Descriptor>()).frame = frame };
        }
        machine
    }

    /// Both levels.
    pub fn both(program: &Program) -> [Machine; 2] {
        [Machine::new(program, OptLevel::O0), Machine::new(program, OptLevel::O3)]
    }

    /// Puts a packet into a free frame, `headroom` bytes from its start. Returns the frame.
    pub fn receive(&mut self, headroom: usize, packet: &[u8], rx_port: u8) -> u32 {
        assert!(self.free_len > 0);
        self.free_len -= 1;
        let frame = self.free[self.free_len as usize];
        let addr = frame as usize * FRAME_SIZE + headroom;
        assert!(headroom + packet.len() <= FRAME_SIZE);
        self.region.bytes()[addr..addr + packet.len()].copy_from_slice(packet);
        let metadata = self.program.metadata_size as usize;
        let descriptor = self.descriptor_ptr(frame);
        // SAFETY: the frame's descriptor with its metadata, which fit in a stride.
        unsafe {
            descriptor.cast::<Descriptor>().write(Descriptor {
                addr: addr as u64,
                len: packet.len() as u32,
                frame,
                rest: abi::WHOLE,
                held: abi::WHOLE,
            });
            descriptor.add(METADATA_OFFSET).write_bytes(0, metadata);
        }
        self.set_meta(frame, Program::RX_PORT, rx_port.into());
        frame
    }

    /// Runs a batch and takes its outputs.
    pub fn run(&mut self, frames: &[u32]) -> Vec<Output> {
        assert!(frames.len() <= abi::MAX_BATCH);
        let controls: Vec<*mut u8> = self.tables.iter_mut().map(|table| table.control()).collect();
        let mut context = Context {
            region: self.region.bytes().as_mut_ptr(),
            descriptors: self.descriptors.as_mut_ptr().cast(),
            counters: self.counters.as_mut_ptr(),
            tables: controls.as_ptr(),
            free: self.free.as_mut_ptr(),
            outputs: self.outputs.as_mut_ptr(),
            free_len: self.free_len,
            output_len: 0,
            frame_size: FRAME_SIZE as u64,
            now: NOW,
            written: 0,
            staging: Default::default(),
            rest: 0,
            externs: std::ptr::null(),
            deadlines: std::ptr::null_mut(),
            shares: self.shares.as_mut_ptr(),
            share_least: abi::SHARE_NONE,
            // A tick of a nanosecond.
            tick: 1 << abi::TICK_BITS,
        };
        // SAFETY: the context is complete and `native` lives.
        unsafe {
            self.native.run_fn(Program::RX).expect("packets enter by rx")(
                &mut context,
                frames.as_ptr(),
                frames.len() as u32,
            )
        };
        self.free_len = context.free_len;
        self.outputs[..context.output_len as usize].to_vec()
    }

    /// Gives frames back.
    pub fn release(&mut self, frames: &[u32]) {
        for frame in frames {
            self.free[self.free_len as usize] = *frame;
            self.free_len += 1;
        }
    }

    /// The frames on the free stack.
    pub fn free_frames(&self) -> &[u32] {
        &self.free[..self.free_len as usize]
    }

    pub fn descriptor(&mut self, frame: u32) -> Descriptor {
        // SAFETY: the frame's descriptor.
        unsafe { self.descriptor_ptr(frame).cast::<Descriptor>().read() }
    }

    /// The packet's bytes.
    pub fn packet(&mut self, frame: u32) -> Vec<u8> {
        let Descriptor { addr, len, .. } = self.descriptor(frame);
        self.region.bytes()[addr as usize..][..len as usize].to_vec()
    }

    /// All bytes of a frame.
    pub fn frame(&mut self, frame: u32) -> &mut [u8] {
        &mut self.region.bytes()[frame as usize * FRAME_SIZE..][..FRAME_SIZE]
    }

    pub fn meta(&mut self, frame: u32, field: MetaId) -> u128 {
        let (offset, width) = self.meta_place(field);
        let mut bytes = [0; 16];
        // SAFETY: the field lies in the frame's metadata; 16 bytes may reach beyond it, so only its size is copied.
        unsafe {
            let from = self.descriptor_ptr(frame).add(offset);
            std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), storage_size(width) as usize);
        }
        u128::from_le_bytes(bytes)
    }

    pub fn set_meta(&mut self, frame: u32, field: MetaId, value: u128) {
        let (offset, width) = self.meta_place(field);
        let bytes = value.to_le_bytes();
        // SAFETY: as in `meta`.
        unsafe {
            let to = self.descriptor_ptr(frame).add(offset);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, storage_size(width) as usize);
        }
    }

    pub fn counter(&self, slot: usize) -> u64 {
        self.counters[slot]
    }

    /// Packets put to a channel.
    pub fn channel(&self, channel: u32) -> u64 {
        self.counters[self.slots.channel(ChannelId(channel))]
    }

    /// Packets dropped.
    pub fn drops(&self, reason: DropId) -> u64 {
        self.counters[self.slots.drop(reason)]
    }

    fn meta_place(&self, field: MetaId) -> (usize, u32) {
        let field = &self.program.metadata[field.0 as usize];
        (METADATA_OFFSET + field.offset as usize, field.width)
    }

    fn descriptor_ptr(&mut self, frame: u32) -> *mut u8 {
        assert!((frame as usize) < FRAMES);
        // SAFETY: `descriptors` has a stride for each frame.
        unsafe { self.descriptors.as_mut_ptr().cast::<u8>().add(frame as usize * self.stride) }
    }
}

/// A generator of numbers for tests (xorshift64*, Vigna 2016).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 11) % n
    }

    pub fn wide(&mut self) -> u128 {
        u128::from(self.next()) << 64 | u128::from(self.next())
    }

    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.next() as u8).collect()
    }
}

/// The low `width` bits.
pub fn mask(width: u32) -> u128 {
    u128::MAX >> (128 - width)
}

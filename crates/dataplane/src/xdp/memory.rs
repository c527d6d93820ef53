//! The memory that a program in the kernel and the process share: see `codegen::kernel`.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use baker::ir::Program;
use codegen::kernel::{self, Memory, OWN, PORT_SLOTS, PORTS, PortSlot, RECORD, Record, SLACK};

use super::sys::{self, MMAPABLE, MapType};
use crate::sys::{Mapping, possible_cpus};

/// The memory of one program.
#[derive(Debug)]
pub struct SharedMemory {
    map: OwnedFd,
    mapping: Mapping,
    memory: Memory,
    counters: usize,
    own: usize,
}

impl SharedMemory {
    /// For a program without tables.
    pub fn new(program: &Program) -> io::Result<Self> {
        let cpus = possible_cpus()?.next_power_of_two() as u32;
        let low = Memory::tables(program, cpus);
        let reach = low.next_power_of_two() - 1;
        let size = low.max(reach + 1 + SLACK).next_multiple_of(4096);
        let value_size = u32::try_from(size).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let map = sys::map_create(MapType::Array, value_size, 1, MMAPABLE, &program.name)?;
        let mapping = Mapping::of_fd(map.as_raw_fd(), size as usize)?;
        let memory = Memory { base: mapping.ptr() as u64, size, reach, cpus, control: Vec::new() };
        let (counters, own) = (Memory::counters(program) as usize / 8, Memory::own(program) as usize);
        Ok(SharedMemory { map, mapping, memory, counters, own })
    }

    /// Where things lie in it.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The map.
    pub fn map(&self) -> &OwnedFd {
        &self.map
    }

    /// The sum over all CPUs of a counter.
    pub fn counter(&self, slot: usize) -> u64 {
        assert!(slot < self.counters);
        let of_cpu = |cpu: usize| self.word(OWN as usize + cpu * self.own + slot * 8).load(Ordering::Relaxed);
        (0..self.memory.cpus as usize).fold(0, |sum, cpu| sum.wrapping_add(of_cpu(cpu)))
    }

    /// Says which port an interface is.
    pub fn set_port(&self, interface: u32, port: u8) {
        let slot = PortSlot { interface, port: port.into() };
        let at = PORTS as usize + (interface % PORT_SLOTS) as usize * size_of::<PortSlot>();
        let both = u64::from(slot.interface) | u64::from(slot.port) << 32;
        self.word(at).store(both, Ordering::Relaxed);
    }

    /// Before a program that is recorded: the time.
    pub fn set_now(&self, now: u64) {
        self.word(RECORD as usize + std::mem::offset_of!(Record, now)).store(now, Ordering::Relaxed);
    }

    /// After it: what became of the packet.
    pub fn end(&self) -> u64 {
        self.word(RECORD as usize + std::mem::offset_of!(Record, end)).load(Ordering::Relaxed)
    }

    /// After it: bytes in front of the head of a packet that goes on outside of the kernel.
    pub fn head(&self) -> u64 {
        self.word(RECORD as usize + std::mem::offset_of!(Record, head)).load(Ordering::Relaxed)
    }

    /// After it: `bytes` bytes of metadata.
    pub fn metadata(&self, bytes: usize) -> Vec<u8> {
        assert!(bytes <= kernel::RECORDED_METADATA);
        let at = RECORD as usize + std::mem::offset_of!(Record, metadata);
        let words = (0..bytes.div_ceil(8)).map(|word| self.word(at + word * 8).load(Ordering::Relaxed).to_le_bytes());
        words.flatten().take(bytes).collect()
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at + 8 <= self.memory.size as usize);
        // SAFETY: inside of the mapping and aligned. Programs in the kernel write it as words.
        unsafe { AtomicU64::from_ptr(self.mapping.ptr().add(at).cast()) }
    }
}

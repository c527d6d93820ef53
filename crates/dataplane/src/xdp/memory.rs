//! The memory that a program in the kernel and the process share: see `codegen::kernel`.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use baker::ir::Program;
use codegen::bpf::vm::Borrowed;
use codegen::kernel::{self, FAILED, Memory, PORT_SLOTS, PORTS, PortSlot, RECORD, Record, SLACK, TABLES};

use super::sys::{self, MMAPABLE, MapType};
use crate::sys::{Mapping, possible_cpus};
use crate::tables::{Block, Carried, Shared, Space, Tables, TablesError, Use};

/// The verifier knows no larger distances (`BPF_MAX_VAR_OFF`).
const MOST: u64 = 1 << 29;

/// Beside what a program takes, this part of it is kept free for those that take over from it, and [`SPARE`] bytes.
const SPARE_PART: usize = 16;
/// See [`SPARE_PART`].
const SPARE: usize = 1 << 20;

/// Why there is no memory.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// Tables that are too large.
    #[error(
        "tables and counters take {0} bytes of memory that the kernel sees, which is more than {MOST}: declare them smaller"
    )]
    Large(u64),
    /// Of a program that takes over.
    #[error("there is no room for {0} beside what runs, in the memory that the kernel sees: it takes a restart")]
    NoRoom(String),
    /// A table.
    #[error(transparent)]
    Tables(#[from] TablesError),
    /// No right to do so.
    #[error(
        "the kernel lets this process make no BPF maps ({0}): it takes CAP_BPF and CAP_NET_ADMIN outside of user namespaces, or root"
    )]
    Refused(io::Error),
    /// The system.
    #[error("memory that the kernel sees: {0}")]
    System(#[from] io::Error),
}

/// The memory of one program, which may share it, and tables in it, with the one that it takes over from.
#[derive(Debug)]
pub struct SharedMemory {
    /// None where only the places count.
    map: Option<Arc<OwnedFd>>,
    mapping: Arc<Mapping>,
    space: Arc<Shared>,
    memory: Memory,
    counters: usize,
    /// Bytes from the counters of one CPU to those of the next.
    own: usize,
    /// Counters and scratch memory of all CPUs.
    of_cpus: Block,
    tables: Arc<Tables>,
    /// Keys of hash functions.
    hasher: ahash::RandomState,
}

impl SharedMemory {
    /// With a program's tables, empty.
    pub fn new(program: &Program) -> Result<Self, MemoryError> {
        let cpus = possible_cpus()?.next_power_of_two() as u32;
        Self::laid_out(program, cpus, ahash::RandomState::new(), |size| {
            let map = sys::map_create(MapType::Array, size, 1, MMAPABLE, &program.name);
            let map = map.map_err(|error| match error.raw_os_error() {
                Some(libc::EPERM) => MemoryError::Refused(error),
                _ => MemoryError::System(error),
            })?;
            let mapping = Mapping::of_fd(map.as_raw_fd(), size as usize)?;
            Ok((Some(map), mapping))
        })
    }

    /// As [`SharedMemory::new`], for the virtual machine ([`codegen::bpf::vm`]): no kernel sees it, and it takes no
    /// privilege.
    pub fn private(program: &Program) -> Result<Self, MemoryError> {
        Self::laid_out(program, 1, ahash::RandomState::new(), |size| Ok((None, Mapping::sparse(size as usize)?)))
    }

    /// Where things would lie, on a machine of two processors: for code that is looked at and not loaded. It takes no
    /// privilege, and is the same each time.
    pub fn places(program: &Program) -> Result<Memory, MemoryError> {
        let hasher = ahash::RandomState::with_seeds(1, 2, 3, 4);
        let made = Self::laid_out(program, 2, hasher, |size| Ok((None, Mapping::sparse(size as usize)?)))?;
        Ok(Memory { base: 1 << 40, ..made.memory.clone() })
    }

    fn laid_out(
        program: &Program,
        cpus: u32,
        hasher: ahash::RandomState,
        make: impl FnOnce(u32) -> Result<(Option<OwnedFd>, Mapping), MemoryError>,
    ) -> Result<Self, MemoryError> {
        let measured = Space::measuring();
        Tables::with_hasher(program, &hasher, &measured)?;
        let [entries, rest] = measured.measured();
        let of_cpus = Memory::of_cpus(program, cpus) as usize;
        let places = |spare: [usize; 2]| {
            let index = TABLES as usize + entries + spare[0];
            let end = index + rest + 2 * of_cpus.next_multiple_of(4096) + spare[1];
            let reach = (index as u64).next_power_of_two() - 1;
            (index, reach, (end as u64).max(reach + 1 + SLACK).next_multiple_of(4096))
        };
        let spare = [entries, rest].map(|bytes| (SPARE + bytes / SPARE_PART).next_multiple_of(4096));
        // Where memory is short there is room for programs with the same tables only.
        let laid_out = [spare, [0; 2]].map(places);
        let fitting = laid_out.iter().find(|(.., size)| *size <= MOST);
        let &(index, reach, size) = fitting.ok_or(MemoryError::Large(laid_out[1].2))?;
        let (map, mapping) = make(u32::try_from(size).map_err(|_| MemoryError::Large(size))?)?;
        let mapping = Arc::new(mapping);
        let space = Shared::new(mapping.clone(), TABLES as usize, index, size as usize);
        let tables = Tables::with_hasher(program, &hasher, &Space::Shared(space.clone()))?;
        let of_cpus = Space::Shared(space.clone()).take(of_cpus, Use::Index)?;
        let base = mapping.ptr() as u64;
        let memory = Memory { base, size, reach, own: 0, cpus, epoch: 0, tables: Vec::new(), deadlines: Vec::new() };
        let map = map.map(Arc::new);
        Ok(SharedMemory { map, mapping, space, memory, counters: 0, own: 0, of_cpus, tables: Arc::new(tables), hasher }
            .with_places(program))
    }

    /// Notes where the program's parts are.
    fn with_places(mut self, program: &Program) -> Self {
        let base = self.memory.base;
        self.memory.own = self.of_cpus.ptr() as u64 - base;
        self.memory.epoch = self.tables.epochs().clock() as u64 - base;
        self.memory.tables = self.tables.places(base);
        self.memory.deadlines = self.tables.deadline_places(base);
        (self.counters, self.own) = (Memory::counters(program) as usize / 8, Memory::own(program) as usize);
        self
    }

    /// The memory of a program that takes over from the one that this is of, with those of its tables that are carried
    /// over.
    pub fn next(&self, program: &Program, carried: &[Carried]) -> Result<Self, MemoryError> {
        let space = Space::Shared(self.space.clone());
        let tables = self.tables.next(program, carried, &space).map_err(|error| match error.error.kind() {
            io::ErrorKind::OutOfMemory => MemoryError::NoRoom(format!("table {}", error.table)),
            _ => error.into(),
        })?;
        let of_cpus = space.take(Memory::of_cpus(program, self.memory.cpus) as usize, Use::Index);
        let of_cpus = of_cpus.map_err(|_| MemoryError::NoRoom("counters".into()))?;
        let next = SharedMemory {
            map: self.map.clone(),
            mapping: self.mapping.clone(),
            space: self.space.clone(),
            memory: self.memory.clone(),
            counters: 0,
            own: 0,
            of_cpus,
            tables: Arc::new(tables),
            hasher: self.hasher.clone(),
        };
        Ok(next.with_places(program))
    }

    /// Empties tables and counters. What is loaded for this memory stays good for it. No program runs meanwhile, and
    /// nothing else has the tables.
    pub fn clear(&mut self, program: &Program) -> Result<(), MemoryError> {
        assert_eq!(Arc::strong_count(&self.tables), 1, "tables in use");
        // What they have is given back first, so that the new ones lie in the same places.
        self.tables = Arc::new(Tables::none()?);
        let tables = Tables::with_hasher(program, &self.hasher, &Space::Shared(self.space.clone()))?;
        assert_eq!(tables.places(self.memory.base), self.memory.tables, "tables lie elsewhere");
        self.tables = Arc::new(tables);
        let fixed = TABLES as usize;
        let own = (self.memory.own as usize, Memory::of_cpus(program, self.memory.cpus) as usize);
        for (at, bytes) in [(0, fixed), own] {
            // SAFETY: these bytes lie in the mapping, and nothing reads or writes them meanwhile.
            unsafe { self.mapping.ptr().add(at).write_bytes(0, bytes) };
        }
        Ok(())
    }

    /// Where things lie in it.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The program's tables.
    pub fn tables(&self) -> &Arc<Tables> {
        &self.tables
    }

    /// The map.
    pub fn map(&self) -> &OwnedFd {
        self.map.as_deref().expect("a memory of the kernel's")
    }

    /// The sum over all CPUs of a counter.
    pub fn counter(&self, slot: usize) -> u64 {
        assert!(slot < self.counters);
        let of_cpu =
            |cpu: usize| self.word(self.memory.own as usize + cpu * self.own + slot * 8).load(Ordering::Relaxed);
        (0..self.memory.cpus as usize).fold(0, |sum, cpu| sum.wrapping_add(of_cpu(cpu)))
    }

    /// Packets that the kernel could not send to a port.
    pub fn failed(&self, port: u8) -> u64 {
        self.word(FAILED as usize + usize::from(port) * 8).load(Ordering::Relaxed)
    }

    /// Says which port an interface is, which one takes its packets for the host (otherwise they go to the kernel's
    /// stack), and whether packets can be returned by it as they are (`XDP_TX`).
    pub fn set_port(&self, interface: u32, port: u8, host: Option<u8>, returns: bool) {
        let at = PORTS as usize + (interface % PORT_SLOTS) as usize * size_of::<PortSlot>();
        let [i0, i1, i2, i3] = interface.to_ne_bytes();
        // As `PortSlot` has it.
        let slot = [i0, i1, i2, i3, port, host.unwrap_or(0), host.is_some().into(), returns.into()];
        self.word(at).store(u64::from_ne_bytes(slot), Ordering::Relaxed);
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

    /// The memory itself, for code that runs on the virtual machine.
    pub(super) fn borrowed(&self) -> Borrowed {
        let start = NonNull::new(self.mapping.ptr()).expect("a mapping");
        // SAFETY: the mapping has that many bytes. What runs the code has this memory too, and reads and changes tables
        // between packets.
        unsafe { Borrowed::new(start, self.memory.size as usize) }
    }

    /// All of it as it is now, for code that runs elsewhere ([`codegen::bpf::vm`]).
    pub fn contents(&self) -> Vec<u8> {
        let words = (0..self.memory.size as usize / 8).map(|word| self.word(word * 8).load(Ordering::Relaxed));
        words.flat_map(u64::to_ne_bytes).collect()
    }

    pub(super) fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at + 8 <= self.memory.size as usize);
        // SAFETY: inside of the mapping and aligned. Programs in the kernel write it as words.
        unsafe { AtomicU64::from_ptr(self.mapping.ptr().add(at).cast()) }
    }
}

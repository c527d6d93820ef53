//! The contract between BPF code and the process: one memory that both see.
//!
//! ```text
//! 0          64       2048      4096        ZEROS   TABLES                                own
//! │ nothing  │ Record │ failed… │ PortSlot… │ zeros │ entries… │ slots, buckets… │ counters and scratch of CPU 0 │ of 1 │…
//! └─────────────────────────── reach ──────────────────────────┘
//! ```
//!
//! Behind the zeros memory is handed out: to tables, and to programs. While one program takes over from another both
//! are there, with the tables that they share.
//!
//! It is one BPF array of one element, which the kernel's verifier knows as memory of a constant size. An address in it
//! is a number, the distance from its start: what a program finds in memory is a number to the verifier, and any number
//! masked with [`Memory::reach`] and a little more lies inside. So nothing has to be proved of entries: they are where
//! they are, and what is computed wrongly reads something else of the same program.
//!
//! Process addresses that lie in the memory (in control blocks) are turned into distances by subtracting
//! [`Memory::base`].

mod leaving;

use std::hash::{Hash, Hasher};

use baker::ir::{CounterSlots, PpfId, Program, Sums};
use baker::source::Span;

pub use leaving::{ARMED_SOON, Armed, Punt, TAP_BATCH, Tap};

/// Where [`Record`] lies.
pub const RECORD: u64 = 64;
/// Where 64 bits for each port number lie: packets that the kernel could not send there.
pub const FAILED: u64 = 2048;
/// Where the slots of [`PortSlot`] lie.
pub const PORTS: u64 = 4096;
/// Number of slots.
pub const PORT_SLOTS: u32 = 4096;
/// Where [`ROOM`] zero bytes lie.
pub const ZEROS: u64 = PORTS + PORT_SLOTS as u64 * size_of::<PortSlot>() as u64;
/// Bytes that a packet's first fragment, which is all that the kernel shows of it, does not exceed.
pub const ROOM: u64 = 4096;
/// Bytes of the first of several fragments; a packet that has fewer there is handed over as it came.
pub const FIRST_FRAGMENT: u64 = 64;
/// Where tables begin.
pub const TABLES: u64 = ZEROS + ROOM;
/// Bytes of a CPU's scratch memory: a packet, and what is computed beside it.
pub const SCRATCH: u64 = ROOM + 256;
/// Bytes in which spilled code keeps values.
pub const VALUES: u64 = 1 << 16;
/// Bytes of [`Carried`].
const CARRIED: u64 = size_of::<Carried>() as u64;
/// Bytes behind an address that is masked with [`Memory::reach`]: an entry's, or a cell's.
pub const SLACK: u64 = 1 << 16;
/// Bytes of [`Record::metadata`].
pub const RECORDED_METADATA: usize = 1024;

/// An interface that packets come in by: slot `interface % PORT_SLOTS`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortSlot {
    /// The interface's index.
    pub interface: u32,
    /// The port's number; 0 where no port has the interface.
    pub port: u8,
    /// Number of the port that takes its packets for the host.
    pub host: u8,
    /// Whether there is one; otherwise they go to the kernel's own stack.
    pub has_host: u8,
    /// Whether its packets can go back out of it by [`Verdict::Transmit`]; otherwise as to any other port.
    pub returns: u8,
}

/// Queues of a port that can have a socket: that of port p and queue q is number `p * QUEUES + q` of
/// [`MapUse::Sockets`]. A power of two.
pub const QUEUES: u32 = 64;

/// What a program compiled with [`Options::recorded`] reads and writes in place of the kernel's time and ports.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// The time.
    pub now: u64,
    /// What became of the packet: one of [`Verdict`], plus [`PUNTED`] and the channel's number.
    pub end: u64,
    /// Of a packet that goes on outside: bytes in front of its head.
    pub head: u64,
    /// Its metadata where it left, if it did.
    pub metadata: [u8; RECORDED_METADATA],
}

const _: () = assert!(RECORD as usize + size_of::<Record>() <= FAILED as usize && FAILED + 256 * 8 <= PORTS);

/// What parts of a program hand on beside the packet, in the memory of the CPU; the packet's metadata lies behind it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Carried {
    /// The time.
    pub now: u64,
    /// Bytes from the frame's first byte to the packet's head.
    pub offset: u64,
    /// Not handed on: copies that this CPU has put into rings.
    pub taps: u64,
}

/// What becomes of a packet (`enum xdp_action`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Verdict {
    /// A fault of the code: a packet that is shorter than it was found to be.
    Aborted = 0,
    /// Dropped and counted.
    Drop = 1,
    /// To the kernel's own stack.
    Pass = 2,
    /// Out of the port that it came in by.
    Transmit = 3,
    /// Out of another port, or to a socket.
    Redirect = 4,
}

/// Plus the number of a channel: in [`Record::end`], a packet that goes on outside of the kernel.
pub const PUNTED: u64 = 1 << 32;

/// The memory that a program works on.
#[derive(Clone, Debug)]
pub struct Memory {
    /// Where the process has mapped it.
    pub base: u64,
    /// Bytes.
    pub size: u64,
    /// A power of two less 1; not more than `size` less [`SLACK`]. All entries, and what lies in front of them, begin
    /// at or below it.
    pub reach: u64,
    /// Where what CPUs have of their own lies: counters, then [`SCRATCH`] bytes, then [`VALUES`], then [`Carried`].
    pub own: u64,
    /// CPUs that have counters of their own: a power of two.
    pub cpus: u32,
    /// Where the clock lies that says when something was retired, 64 bits: adding 1 gives its stamp.
    pub epoch: u64,
    /// Where each table lies.
    pub tables: Vec<TableLocation>,
    /// For each table where the deadlines of its entries lie ([`DueTimes`]), where they have any.
    pub deadlines: Vec<Option<u64>>,
}

/// The deadlines of a table's entries: a word each, by the entry's number; 0 is none.
pub struct DueTimes;

impl DueTimes {
    /// Where a word lies that is other than 0 where a worker was not told of a deadline, so that all have to be looked
    /// through.
    pub const MISSED: u64 = 0;
    /// Where the words begin.
    pub const FIRST: u64 = 64;
}

/// Where a table lies: distances from the memory's start. The layouts are those of [`crate::abi`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TableLocation {
    /// An array whose entries lie there.
    Array {
        /// The first entry.
        entries: u64,
    },
    /// An array whose entries lie where its control block says.
    Published {
        /// [`crate::abi::ArrayTable`], with an address of the process.
        control: u64,
    },
    /// Longest prefix match of keys of 32 bits.
    Lpm {
        /// [`crate::abi::LpmTable`]
        control: u64,
        /// Its parts.
        tbl24: u64,
        /// See `tbl24`.
        tbl8: u64,
        /// Number of groups in `tbl8`, a power of two.
        groups: u32,
        /// See `tbl24`.
        entries: u64,
    },
    /// Exact match.
    Hash {
        /// The first [`crate::abi::HashBucket`].
        buckets: u64,
        /// Number of buckets, a power of two.
        count: u32,
        /// Entry 0.
        entries: u64,
        /// See [`crate::abi::hash_key`].
        seed: [u64; 2],
        /// [`crate::abi::SlotNumbers`]
        numbers: u64,
        /// Its `ring`.
        ring: u32,
    },
    /// Longest prefix match of other keys.
    Trie {
        /// The root's number, then the nodes: [`crate::abi::TrieNode`].
        nodes: u64,
        /// Units of [`crate::abi::TRIE_UNIT`] bytes, a power of two.
        units: u32,
        /// The first entry.
        entries: u64,
        /// Bits of a key.
        width: u32,
    },
}

impl Memory {
    /// What a number is here.
    fn number(&self, number: Number) -> Option<u64> {
        match number {
            Number::Base => Some(self.base),
            Number::Seed(table, second) => match self.tables.get(table as usize)? {
                TableLocation::Hash { seed, .. } => Some(seed[usize::from(second)]),
                _ => None,
            },
        }
    }

    /// What code depends on: all but the numbers that are filled in afterwards ([`Object::fill`]).
    pub(crate) fn hash_places(&self, state: &mut impl Hasher) {
        let Memory { base: _, size, reach, own, cpus, epoch, tables, deadlines } = self;
        (size, reach, own, cpus, epoch, deadlines).hash(state);
        for table in tables {
            let mut table = *table;
            if let TableLocation::Hash { seed, .. } = &mut table {
                *seed = [0; 2];
            }
            table.hash(state);
        }
    }

    /// Bytes of the counters of one CPU: the order is that of [`CounterSlots`].
    pub fn counters(program: &Program) -> u64 {
        (CounterSlots::new(program).len() as u64 * 8).next_multiple_of(64)
    }

    /// Bytes from what one CPU has of its own to that of the next.
    pub fn own(program: &Program) -> u64 {
        Self::carried(program) + (CARRIED + u64::from(program.metadata_size)).next_multiple_of(64)
    }

    /// From the counters of a CPU to its [`Carried`].
    pub fn carried(program: &Program) -> u64 {
        Self::counters(program) + SCRATCH + VALUES
    }

    /// Bytes that so many CPUs have of their own.
    pub fn of_cpus(program: &Program, cpus: u32) -> u64 {
        // A cell's index is masked, not compared.
        u64::from(cpus) * Self::own(program) + Self::counters(program).next_power_of_two()
    }
}

/// Where in the kernel a program runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Hook {
    /// At the driver, on frames (`BPF_PROG_TYPE_XDP`).
    #[default]
    Xdp,
    /// At traffic control's ingress, on the kernel's own packets (`BPF_PROG_TYPE_SCHED_CLS`): they may be longer than
    /// what the first of several pieces holds, be super-packets, have checksums that a device is still to compute, and
    /// share their memory with what their sender keeps. Programs are lowered for that ([`baker::ir::Sums`]).
    Tc,
}

impl Hook {
    /// The one that a program was lowered for.
    pub fn of(program: &Program) -> Hook {
        if program.sums == Sums::Arithmetic { Hook::Xdp } else { Hook::Tc }
    }
}

/// What is compiled how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Options {
    /// Where it runs.
    pub hook: Hook,
    /// For tests: time, ports and ends are those of [`Record`].
    pub recorded: bool,
    /// Code that is slower, takes less stack, and costs the kernel's verifier less.
    pub spill: bool,
    /// Several programs joined by tail calls, though one might do.
    pub apart: bool,
    /// Told apart by what is in front of packets that go on outside: see [`Punt::generation`].
    pub generation: u16,
    /// Packets may come in several fragments, as those do that are longer than a page: the program is loaded with
    /// `BPF_F_XDP_HAS_FRAGS`. At [`Hook::Tc`] they always may.
    pub frags: bool,
    /// The code is also wanted as LLVM IR, for people to read.
    pub text: bool,
}

/// A reference to a map in [`Object::code`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapUse {
    /// Of the memory: the address of its start.
    Memory,
    /// The array of devices (`BPF_MAP_TYPE_DEVMAP`), by port number.
    Devices,
    /// The array of sockets (`BPF_MAP_TYPE_XSKMAP`), by port and queue (see [`QUEUES`]).
    Sockets,
    /// The array of the program's parts (`BPF_MAP_TYPE_PROG_ARRAY`), by number of the PPF that each begins with.
    Parts,
    /// The array of rings (`BPF_MAP_TYPE_ARRAY_OF_MAPS` of `BPF_MAP_TYPE_RINGBUF`), by queue below [`QUEUES`].
    Taps,
}

impl MapUse {
    /// Its name in listings and object files.
    pub fn name(self) -> &'static str {
        match self {
            MapUse::Memory => "memory",
            MapUse::Devices => "devices",
            MapUse::Sockets => "sockets",
            MapUse::Parts => "parts",
            MapUse::Taps => "taps",
        }
    }
}

/// A number that each process has another one of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// [`Memory::base`]
    Base,
    /// A key of the hash function of the table with this number: the first or the second of [`TableLocation::Hash`].
    Seed(u32, bool),
}

/// BPF code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Instructions of 8 bytes.
    pub code: Vec<u8>,
    /// Instructions of two slots that load a map, by the number of their first slot. Their immediate is 0.
    pub maps: Vec<(usize, MapUse)>,
    /// Instructions of two slots that load a number that each process has another one of, as above. Where code is
    /// offered to be loaded these numbers are in it.
    pub numbers: Vec<(usize, Number)>,
    /// Where code begins that belongs to a source location: numbers of instructions, in order.
    pub locations: Vec<(usize, Location)>,
    /// Bytes of stack.
    pub stack: u32,
    /// As LLVM IR, where [`Options::text`] asks for it.
    pub llvm: Option<String>,
}

/// What code belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The PPF's name; where PPFs became one function, that of the first.
    pub ppf: String,
    /// In the source, where there is one.
    pub span: Option<Span>,
}

impl std::fmt::Display for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ppf {}", self.ppf)?;
        match self.span {
            Some(span) => write!(f, ", file {} from byte {}", span.file.0, span.start),
            None => Ok(()),
        }
    }
}

impl Options {
    /// Whether packets may come in several fragments.
    pub fn divided(&self) -> bool {
        self.frags || self.hook == Hook::Tc
    }
}

impl Object {
    /// Writes the numbers of a process into the code; whether its memory has all of them.
    #[must_use]
    pub fn fill(&mut self, memory: &Memory) -> bool {
        self.numbers.iter().all(|(slot, number)| {
            let at = self.code.get_mut(slot * 8..slot * 8 + 16);
            let Some((at, number)) = at.zip(memory.number(*number)) else { return false };
            at[4..8].copy_from_slice(&(number as u32).to_le_bytes());
            at[12..16].copy_from_slice(&((number >> 32) as u32).to_le_bytes());
            true
        })
    }

    /// Slots of 8 bytes, as the kernel counts instructions.
    pub fn instructions(&self) -> usize {
        self.code.len() / 8
    }

    /// Runs of instructions with what they belong to, and how many they are.
    pub fn runs(&self) -> impl Iterator<Item = (&Location, usize)> {
        let ends = self.locations.iter().skip(1).map(|(first, _)| *first).chain([self.instructions()]);
        self.locations.iter().zip(ends).map(|((first, location), end)| (location, end - first))
    }

    /// What an instruction belongs to.
    pub fn location(&self, instruction: usize) -> Option<&Location> {
        let behind = self.locations.partition_point(|(first, _)| *first <= instruction);
        Some(&self.locations.get(behind.checked_sub(1)?)?.1)
    }
}

/// Why a PPF cannot run in the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// The PPF.
    pub ppf: PpfId,
    /// What it does.
    pub reason: Reason,
    /// Where.
    pub span: Option<Span>,
}

/// What cannot be done in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// There is one packet at a time in the kernel.
    Copies,
    /// As above.
    Creates,
    /// Packets that are held outlive the kernel's one packet.
    Holds,
    /// Drivers leave little room behind packets, or none.
    Grows,
    /// Controllers live in the process.
    CallsController,
    /// Timers run on workers.
    Deadlines,
    /// Received frames have 14 bytes at least, and what leaves must have as many; the protocol of `rx` has fewer.
    ShortFrames,
    /// More is pushed in front than drivers keep free.
    Headroom,
    /// The metadata does not fit the stack.
    Metadata,
    /// Their numbers have 16 bits.
    Channels,
    /// Of a super-packet, the length is that of many packets.
    Resizes,
    /// A device may still have to compute it.
    WholeSums,
    /// The program was not lowered for checksums that devices compute.
    Sums,
}

/// In words that go on "it …".
impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Reason::Copies => "copies the packet, and the kernel has one packet at a time",
            Reason::Creates => "creates a packet, and the kernel has one packet at a time",
            Reason::Holds => "holds packets, and the kernel has one packet at a time",
            Reason::Grows => "lets the packet grow at its end, and drivers leave little room there",
            Reason::CallsController => "calls a function of a controller, which is in user space",
            Reason::Deadlines => "takes deadlines of table entries, whose timers workers run",
            Reason::ShortFrames => "has frames shorter than the 14 bytes that the kernel's have at least",
            Reason::Headroom => "pushes more bytes in front of packets than drivers keep free",
            Reason::Metadata => "has more metadata than the kernel's stack has room for",
            Reason::Channels => "has more channels than there are numbers for",
            Reason::Resizes => "makes packets longer or shorter, and hosts send many packets as one",
            Reason::WholeSums => "reads, computes or sets a checksum that hosts leave to devices",
            Reason::Sums => "was not compiled for checksums that hosts leave to devices",
        })
    }
}

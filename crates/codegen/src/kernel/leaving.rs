//! What leaves the kernel: packets that workers go on with, and copies for them.

use baker::ir::Program;

use super::ROOM;

/// In front of a packet that goes on outside of the kernel, where its frame begins: this, then the metadata
/// (`Program::metadata_size` bytes), then the frame as the kernel has it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Punt {
    /// Number of the channel that it was put to; that of `rx` where the kernel has done nothing.
    pub channel: u16,
    /// Which of the programs that took over from each other put it there.
    pub generation: u16,
    /// Bytes from behind the metadata to the packet's head.
    pub head: u32,
}

impl Punt {
    /// Bytes of it and of the metadata behind it: a multiple of 4, as the kernel wants it of what lies in front of
    /// packets, and 14 at least, since it makes no frame's first fragment shorter, which may have been empty.
    pub fn bytes(program: &Program) -> u32 {
        (size_of::<Punt>() as u32 + program.metadata_size).max(16).next_multiple_of(4)
    }

    /// Channels that a program can have.
    pub const CHANNELS: usize = 1 << 16;

    /// Reads it. `None` where there is none.
    pub fn of(frame: &[u8]) -> Option<Punt> {
        let [c0, c1, g0, g1, h0, h1, h2, h3] = *frame.first_chunk()?;
        let (channel, generation) = (u16::from_ne_bytes([c0, c1]), u16::from_ne_bytes([g0, g1]));
        Some(Punt { channel, generation, head: u32::from_ne_bytes([h0, h1, h2, h3]) })
    }

    /// Reads it, the metadata, and the packet from its head on, as the program that put it there has them. `None` where
    /// they are not there.
    pub fn read<'f>(program: &Program, frame: &'f [u8]) -> Option<(Punt, &'f [u8], &'f [u8])> {
        let punt = Punt::of(frame)?;
        let metadata = frame.get(size_of::<Punt>()..size_of::<Punt>() + program.metadata_size as usize)?;
        let packet = frame.get((Punt::bytes(program) + punt.head) as usize..)?;
        Some((punt, metadata, packet))
    }
}

/// A record of the ring by which copies leave the kernel while their packets stay: this, then a [`Punt`] whose head is
/// 0, the metadata and the copy from its head on, as in front of a packet that leaves. At [`super::Hook::Tc`] the
/// packet is there as the kernel has it, and the head where it is, of copies as of packets that leave.
///
/// ```text
/// │ Tap │ Punt │ metadata │ bytes… │ nothing, up to the size of the class │
///         └─────── len ──────────┘
/// ```
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tap {
    /// Bytes that follow and are used; 0: none are, and there is no copy.
    pub len: u32,
    /// At [`super::Hook::Tc`]: where the copy is a super-packet, bytes of payload of each of its packets; else 0.
    /// Elsewhere nothing.
    pub segment: u32,
}

/// A record of the same ring that says that the kernel has set the deadline of an entry, which lies beside the entry:
/// so that the worker sets its timer.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Armed {
    /// [`Armed::MARK`], where a copy has its length.
    pub mark: u32,
    /// Which of the programs that took over from each other has set it.
    pub generation: u32,
    /// Number of the table in that program.
    pub table: u32,
    /// Number of the entry.
    pub entry: u32,
}

/// A worker is woken for deadlines that are less than so many nanoseconds away. It looks into its ring more often than
/// that.
pub const ARMED_SOON: u64 = 10_000_000;

impl Armed {
    /// No copy is as long.
    pub const MARK: u32 = u32::MAX;

    /// Reads it. `None` where the record is another one.
    pub fn read(record: &[u8]) -> Option<Armed> {
        let word = |at: usize| Some(u32::from_ne_bytes(*record.get(at * 4..)?.first_chunk()?));
        let (mark, generation, table, entry) = (word(0)?, word(1)?, word(2)?, word(3)?);
        (mark == Self::MARK).then_some(Armed { mark, generation, table, entry })
    }
}

/// Copies of one CPU for each of which the reader is woken once.
pub const TAP_BATCH: u64 = 256;

impl Tap {
    /// Bytes of copies that records have room for: one of these sizes, for the kernel's verifier must know how long a
    /// record is. A short packet, one of an Ethernet, and the longest: 65535 bytes of IP behind Ethernet and tags.
    pub fn classes(frags: bool) -> &'static [u64] {
        if frags { &[256, 1536, 9216, (1 << 16) + 64] } else { &[256, 1536, ROOM] }
    }

    /// Bytes of a record for copies of so many.
    pub fn bytes(program: &Program, class: u64) -> u64 {
        size_of::<Tap>() as u64 + u64::from(Punt::bytes(program)) + class
    }

    /// Of a record at [`super::Hook::Tc`]: [`Tap::segment`], which the kernel has in 16 bits.
    pub fn segment(record: &[u8]) -> Option<u16> {
        let word = *record.get(4..)?.first_chunk()?;
        u16::try_from(u32::from_ne_bytes(word)).ok()
    }

    /// What a record holds of the copy and in front of it; `None` where there is no copy.
    pub fn read(record: &[u8]) -> Option<&[u8]> {
        let len = u32::from_ne_bytes(*record.first_chunk()?);
        (len > 0).then(|| record.get(size_of::<Tap>()..size_of::<Tap>() + len as usize))?
    }
}

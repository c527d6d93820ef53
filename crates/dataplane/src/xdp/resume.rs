//! How workers go on with what the kernel hands over.

use baker::ir::{ChannelId, Program, Target};
use baker::place::Split;
use codegen::abi::{END_CHANNEL, END_HOST, END_TX};
use codegen::kernel::{Hook, Punt, Tap};

use crate::packets::FramePool;

/// How workers go on with what the kernel hands over.
#[derive(Debug)]
pub(crate) struct Resume {
    hook: Hook,
    /// As its channels and metadata are laid out.
    program: Program,
    /// By channel.
    onward: Vec<Onward>,
}

/// A packet that traffic control hands over, as the kernel has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handed<'r> {
    /// What workers go on with.
    pub front: &'r [u8],
    pub packet: &'r [u8],
    /// Of a super-packet, bytes of payload of each of its packets, else 0.
    pub segment: u16,
    /// Number of the port that it came in by.
    pub port: u8,
}

/// What happens to a packet that was put to a channel in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Onward {
    /// It leaves the program, as an output of an engine does.
    Leaves(u32),
    /// It goes on by this channel.
    GoesOn(ChannelId),
    /// The kernel has done nothing with it: it is as it was received.
    Begins,
}

impl Resume {
    pub fn new(hook: Hook, split: &Split) -> Self {
        let onward = |(channel, id): (&baker::ir::Channel, u32)| match channel.target {
            _ if id == Program::RX.0 => Onward::Begins,
            Target::Tx => Onward::Leaves(END_TX),
            Target::Host => Onward::Leaves(END_HOST),
            Target::Ppf(_) | Target::Controller(_) | Target::Queue(..) | Target::Group(..) => {
                match split.resume.get(id as usize) {
                    Some(Some(channel)) => Onward::GoesOn(*channel),
                    _ => Onward::Leaves(END_CHANNEL + id),
                }
            }
        };
        Resume {
            hook,
            program: split.kernel.clone(),
            onward: split.kernel.channels.iter().zip(0..).map(onward).collect(),
        }
    }

    /// Whether the kernel has packets as their senders have left them.
    pub fn is_at_tc(&self) -> bool {
        self.hook == Hook::Tc
    }

    /// What a record has of a packet at traffic control, or of a copy of one; `None` where it is not this program's.
    pub fn handed<'r>(&self, record: &'r [u8]) -> Option<Handed<'r>> {
        let segment = Tap::segment(record)?;
        let (front, packet) = Tap::read(record)?.split_at_checked(Punt::bytes(&self.program) as usize)?;
        let at = size_of::<Punt>() + self.program.metadata[Program::RX_PORT.0 as usize].offset as usize;
        Some(Handed { front, packet, segment, port: *front.get(at)? })
    }

    /// Which of the programs that took over from each other handed over the packet in the caller's frame.
    pub fn generation(pool: &FramePool, frame: u32) -> Option<u16> {
        // SAFETY: the frame is the caller's and holds a packet.
        Punt::of(unsafe { pool.packet(frame) }).map(|punt| punt.generation)
    }

    /// Takes what lies in front of a packet in the caller's frame: the frame holds the packet alone then, with its
    /// metadata. `None` where nothing of ours lies there.
    pub fn take(&self, pool: &FramePool, frame: u32) -> Option<Onward> {
        // SAFETY: the frame is the caller's and holds a packet. What is read ends before the frame's descriptor
        // changes.
        let handed = unsafe { pool.packet(frame) };
        let (punt, metadata, packet) = Punt::read(&self.program, handed)?;
        let onward = *self.onward.get(punt.channel as usize)?;
        let (front, len) = (handed.len() - packet.len(), packet.len());
        // SAFETY: the metadata has its size in the descriptor, too; the packet is a part of what the frame held.
        unsafe {
            pool.metadata(frame).copy_from_nonoverlapping(metadata.as_ptr(), metadata.len());
            pool.trim_front(frame, front, len);
        }
        Some(onward)
    }
}

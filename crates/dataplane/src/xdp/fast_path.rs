//! A program's part in the kernel, at the ports of an instance.
//!
//! A port's interface gets a program that lets every packet through to the kernel's own stack when the port is opened, so that it is
//! Millrace's from then on; when the instance runs, the fast path takes its place between two packets. When the instance ends
//! it is the other way round: what the fast path has handed over until then workers still finish.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use baker::ir::{ChannelId, Program, Target};
use baker::opt::Level;
use baker::place::Split;
use codegen::abi::{END_CHANNEL, END_HOST, END_TX};
use codegen::kernel::{Options, Punt};

use super::attach::{AttachError, Attached};
use super::failed::Failed;
use super::fit::{FitError, Fitted, fit};
use super::grace::Grace;
use super::load::{LoadError, Loaded};
use super::memory::SharedMemory;
use super::netlink::Netlink;
use super::redirect;
use crate::frames::FramePool;
use crate::tables::Tables;

/// A port to the fast path.
#[derive(Clone, Copy, Debug)]
pub struct PortRole {
    /// Its number.
    pub number: u8,
    /// Number of the port that takes its packets for the host; otherwise they go to the kernel's own stack.
    pub host: Option<u8>,
}

/// The program and what it works on.
#[derive(Debug)]
pub struct FastPath {
    memory: SharedMemory,
    loaded: Loaded,
    /// Lets all packets through.
    idle: OwnedFd,
    /// Counts what it could not send; none where the kernel does not tell.
    failed: Option<Failed>,
    resume: Resume,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What lets the kernel's readers of tables be waited for, while the program runs.
    grace: Option<Grace>,
    links: Vec<Weak<Attached>>,
}

impl FastPath {
    /// As much of a program as the kernel takes, compiled with these options, with the workers' part; `None` where that is
    /// nothing.
    pub fn new(program: &Program, packets: Level, options: Options) -> Result<Option<(Arc<Program>, Self)>, FitError> {
        let Fitted { split, made, .. } = fit(program, packets, options)?;
        let Some((memory, loaded)) = made else { return Ok(None) };
        let path = Self::of(&split, memory, loaded)?;
        Ok(Some((Arc::new(split.workers), path)))
    }

    /// The kernel's part of a program that was loaded. It processes packets from [`FastPath::start`] on.
    pub fn of(split: &Split, memory: SharedMemory, loaded: Loaded) -> Result<Self, LoadError> {
        let idle = redirect::pass(loaded.flags())?;
        let failed = loaded.devices().and_then(|devices| Failed::count(devices, memory.map()).ok());
        Ok(FastPath { memory, loaded, idle, failed, resume: Resume::new(split), state: Mutex::default() })
    }

    /// Whether packets that the kernel cannot send are counted (as `tx_failed`): it takes the right to trace.
    pub fn counts_failures(&self) -> bool {
        self.failed.is_some() || self.loaded.devices().is_none()
    }

    /// The tables of both parts.
    pub(crate) fn tables(&self) -> &Arc<Tables> {
        self.memory.tables()
    }

    /// Whether packets may come to it in several pieces: those above a page.
    pub(crate) fn takes_pieces(&self) -> bool {
        self.loaded.takes_pieces()
    }

    /// What the kernel has counted.
    pub(crate) fn counter(&self, slot: usize) -> u64 {
        self.memory.counter(slot)
    }

    /// Packets that the kernel could not send to a port.
    pub(crate) fn failed(&self, port: u8) -> u64 {
        self.memory.failed(port)
    }

    /// Where workers go on.
    pub(crate) fn resume(&self) -> &Resume {
        &self.resume
    }

    /// Which socket takes what is handed over of a queue.
    pub(crate) fn set_socket(&self, port: PortRole, queue: u32, socket: &OwnedFd) -> io::Result<()> {
        self.loaded.set_socket(port.number, queue, socket)
    }

    /// Puts the program at an interface.
    pub(crate) fn attach(
        &self,
        port: PortRole,
        interface: i32,
        netlink: &Netlink,
    ) -> Result<Arc<Attached>, AttachError> {
        self.memory.set_port(interface as u32, port.number, port.host, false);
        let mut state = self.lock();
        let program = if state.grace.is_some() { self.loaded.program() } else { &self.idle };
        let attached = Arc::new(Attached::new(program, interface, netlink)?);
        state.links.retain(|link| link.strong_count() > 0);
        state.links.push(Arc::downgrade(&attached));
        Ok(attached)
    }

    /// Says whether the kernel sends by a port's interface, otherwise workers send its packets; and whether that `returns` packets.
    pub(crate) fn send_by(&self, port: PortRole, interface: i32, sends: bool, returns: bool) -> io::Result<()> {
        let interface = interface as u32;
        self.memory.set_port(interface, port.number, port.host, sends && returns);
        self.loaded.set_device(port.number, sends.then_some(interface))
    }

    /// From now on it processes packets.
    pub(crate) fn start(&self) -> io::Result<()> {
        let mut state = self.lock();
        state.grace = Some(Grace::start(self.tables().clone())?);
        Self::put(&state, self.loaded.program())
    }

    /// From now on it does not. What it has handed over is at the sockets.
    pub(crate) fn stop(&self) {
        let mut state = self.lock();
        // Where a link cannot be changed its interface is gone.
        let _ = Self::put(&state, &self.idle);
        state.grace = None;
    }

    /// Puts a program at all links, also where one fails.
    fn put(state: &State, program: &OwnedFd) -> io::Result<()> {
        let links = state.links.iter().filter_map(Weak::upgrade);
        links.map(|link| link.replace(program)).fold(Ok(()), io::Result::and)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How workers go on with what the kernel hands over.
#[derive(Debug)]
pub(crate) struct Resume {
    /// As its channels and metadata are laid out.
    program: Program,
    /// By channel.
    onward: Vec<Onward>,
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
    fn new(split: &Split) -> Self {
        let onward = |(channel, id): (&baker::ir::Channel, u32)| match channel.target {
            _ if id == Program::RX.0 => Onward::Begins,
            Target::Tx => Onward::Leaves(END_TX),
            Target::Host => Onward::Leaves(END_HOST),
            Target::Ppf(_) | Target::Controller(_) => match split.resume.get(id as usize) {
                Some(Some(channel)) => Onward::GoesOn(*channel),
                _ => Onward::Leaves(END_CHANNEL + id),
            },
        };
        Resume { program: split.kernel.clone(), onward: split.kernel.channels.iter().zip(0..).map(onward).collect() }
    }

    /// Takes what lies in front of a packet in the caller's frame: the frame holds the packet alone then, with its metadata. `None`
    /// where nothing of ours lies there.
    pub fn take(&self, pool: &FramePool, frame: u32) -> Option<Onward> {
        // SAFETY: the frame is the caller's and holds a packet. What is read ends before the frame's descriptor changes.
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

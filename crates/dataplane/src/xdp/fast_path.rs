//! A program's part in the kernel, at the ports of an instance.
//!
//! A port's interface gets a program that lets every packet through to the kernel's own stack when the port is opened,
//! so that it is Millrace's from then on; when the instance runs, the fast path takes its place between two packets.
//! When the instance ends it is the other way round: what the fast path has handed over until then workers still
//! finish. In the same way one program takes over from another.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use baker::ir::Program;
use baker::opt::Level;
use baker::place::Split;
use codegen::kernel::{Hook, Options, QUEUES};

use super::attach::{AttachError, Attached};
use super::failed::Failed;
use super::front::Tap;
use super::grace::Grace;
use super::kernel_part::{Awaited, KernelPart, Progress};
use super::load::{LoadError, Loaded, PortMaps};
use super::memory::SharedMemory;
use super::netlink::Netlink;
use super::old_place;
use super::partition::{PartitionError, Partitioned, partition, partition_by};
use super::pins::{Named, Owner, Pins};
use super::previous::{self, PreviousInstance};
use super::redirect;
use super::tap_ring::TapRing;
use crate::tables::{Carried, carried};

/// The worker that has the packets of a queue, of so many workers.
pub(crate) fn worker_of(queue: u32, workers: usize) -> usize {
    queue as usize % workers
}

/// A port to the fast path.
#[derive(Clone, Copy, Debug)]
pub struct PortRole {
    /// Its number.
    pub number: u8,
    /// Number of the port that takes its packets for the host; otherwise they go to the kernel's own stack.
    pub host: Option<u8>,
}

/// What is at the ports, whatever program runs there.
#[derive(Debug)]
pub struct FastPath {
    hook: Hook,
    pub(super) ports: PortMaps,
    /// Whether packets may come in several fragments, to any program that runs: workers ask while one takes over from
    /// another.
    takes_pieces: bool,
    /// Lets all packets through.
    idle: OwnedFd,
    /// Counts what could not be sent; none where the kernel does not tell.
    failed: Option<Failed>,
    /// Where it outlasts the process.
    pub(super) pins: Option<Pins>,
    /// What the first program's stand-in stands in for. Whoever holds the lock loads it.
    pub(super) awaited: Mutex<Option<Awaited>>,
    pub(super) state: Mutex<State>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) part: Arc<KernelPart>,
    pub(super) progress: Progress,
    /// What lets the kernel's readers of tables be waited for, while the program runs.
    pub(super) grace: Option<Grace>,
    links: Vec<Weak<Attached>>,
    /// Where copies go of what comes in.
    pub(super) taps: Vec<Arc<Tap>>,
    /// What makes them, in front of the program.
    pub(super) front: Option<OwnedFd>,
    /// Numbers of ports by the indexes of their interfaces.
    numbers: Vec<(u32, u8)>,
    /// By worker, once a program has a use for them; for all programs after it, too.
    rings: Vec<Arc<TapRing>>,
    /// What an ended process left, until this one runs.
    previous: Option<PreviousInstance>,
}

/// What is to take over from a program: its part in the kernel, and what it has of the tables.
#[derive(Debug)]
pub struct NextPart {
    /// The program as two, and where each PPF runs.
    pub partitioned: Partitioned<Arc<KernelPart>>,
    /// For each table of the new program.
    pub carried: Vec<Carried>,
}

impl FastPath {
    /// As much of a program as the kernel takes, compiled with these options, with the workers' part; `None` where that
    /// is nothing.
    pub fn new(
        program: &Program,
        packets: Level,
        options: Options,
    ) -> Result<Option<(Arc<Program>, Self)>, PartitionError> {
        let Partitioned { split, made, .. } = partition(program, packets, options)?;
        let Some((memory, loaded)) = made else { return Ok(None) };
        let path = Self::of(&split, memory, loaded)?;
        Ok(Some((Arc::new(split.workers), path)))
    }

    /// As [`FastPath::of`], of a program that is not loaded yet.
    pub fn load(split: &Split, memory: SharedMemory, packets: Level, options: Options) -> Result<Self, LoadError> {
        let loaded = Loaded::compile(&split.kernel, packets, &memory, options)?;
        Self::of(split, memory, loaded)
    }

    /// The kernel's part of a program that was loaded. It processes packets from [`FastPath::start`] on.
    pub fn of(split: &Split, memory: SharedMemory, loaded: Loaded) -> Result<Self, LoadError> {
        let (hook, takes_pieces) = (loaded.hook(), loaded.takes_pieces());
        let idle = redirect::pass(hook, loaded.flags())?;
        // A program that takes over may have a use for what this one has none for.
        let ports = loaded.ports().clone().complete(hook, &split.kernel.name)?;
        let devices = ports.devices.as_deref().filter(|_| hook == Hook::Xdp);
        let failed = devices.and_then(|devices| Failed::count(devices, memory.map()).ok());
        let program = Arc::new(split.workers.clone());
        let part = Arc::new(KernelPart::new(hook, split, program, (memory, loaded), 0));
        let state = Mutex::new(State {
            part,
            progress: Progress::Loaded,
            grace: None,
            links: Vec::new(),
            taps: Vec::new(),
            front: None,
            numbers: Vec::new(),
            rings: Vec::new(),
            previous: None,
        });
        Ok(FastPath { hook, ports, takes_pieces, idle, failed, pins: None, awaited: Mutex::new(None), state })
    }

    /// What runs in the kernel is to outlast the process: it is named, by the instance's name, for the state in this
    /// directory. Where another process has left something for that state, it is taken over from that. Whether the
    /// names may end with this process's mount namespace.
    pub fn outlast(&mut self, state: &Path, name: &str) -> io::Result<bool> {
        let (pins, may_be_private) = Pins::open(state, name)?;
        old_place::take_over(&pins, state)?;
        let previous = PreviousInstance::find(&pins)?;
        self.state.get_mut().unwrap_or_else(PoisonError::into_inner).previous = previous;
        self.pins = Some(pins);
        Ok(may_be_private)
    }

    /// Whether a process before has left something, which runs until this one starts.
    pub fn has_previous(&self) -> bool {
        self.lock().previous.is_some()
    }

    /// Fills the tables with what packets have made of those of the process before; how many entries, `None` where it
    /// left nothing.
    pub(crate) fn inherit(&self) -> Option<usize> {
        let mut state = self.lock();
        let part = state.part.clone();
        state.previous.as_mut().map(|previous| previous.bequeath(&part.program, part.tables()))
    }

    /// As much of a program as the kernel takes, to take over from the one that is there. Nothing changes yet.
    pub fn next(&self, program: &Program, packets: Level) -> Result<NextPart, PartitionError> {
        self.load_awaited();
        let before = self.part();
        let generation = before.generation().wrapping_add(1);
        let options = Options { hook: self.hook, generation, frags: self.takes_pieces, ..Options::default() };
        let partitioned = partition_by(program, options.hook, |split| {
            let workers = Arc::new(split.workers.clone());
            let memory = before.memory.next(&workers, &carried(&before.program, &workers))?;
            let loaded = Loaded::compile_for(&split.kernel, packets, &memory, options, self.ports.clone())?;
            Ok(Arc::new(KernelPart::new(self.hook, split, workers, (memory, loaded), generation)))
        })?;
        let carried = carried(&before.program, &partitioned.split.workers);
        Ok(NextPart { partitioned, carried })
    }

    /// The program's part that is in the kernel now.
    pub fn part(&self) -> Arc<KernelPart> {
        self.lock().part.clone()
    }

    /// Where its programs run.
    pub fn hook(&self) -> Hook {
        self.hook
    }

    /// Whether packets that the kernel cannot send are counted (as `tx_failed`): of XDP it takes the right to trace,
    /// at traffic control interfaces count them.
    pub fn counts_failures(&self) -> bool {
        self.hook == Hook::Tc || self.failed.is_some()
    }

    /// Whether packets may come to it in several fragments: those above a page.
    pub(crate) fn takes_pieces(&self) -> bool {
        self.takes_pieces
    }

    /// The rings by which the kernel tells so many workers, the number of which does not change, of copies and
    /// deadlines, and at traffic control hands packets over; none where neither this program nor one before it has a
    /// use for them.
    ///
    /// Each worker has one, for the queues whose sockets it has: so copies of a flow come in order, and a worker that
    /// is behind loses its own alone.
    pub(crate) fn tap_rings(&self, part: &KernelPart, workers: usize) -> io::Result<Vec<Arc<TapRing>>> {
        let mut state = self.lock();
        if part.uses_rings && state.rings.is_empty() {
            let ring = |_| TapRing::at(self.hook, &part.program.name).map(Arc::new);
            let rings = (0..workers).map(ring).collect::<io::Result<Vec<_>>>()?;
            self.ports.set_rings((0..QUEUES).map(|queue| &*rings[worker_of(queue, workers)]))?;
            state.rings = rings;
        }
        Ok(state.rings.clone())
    }

    /// Which socket takes what is handed over of a queue.
    pub(crate) fn set_socket(&self, port: PortRole, queue: u32, socket: &OwnedFd) -> io::Result<()> {
        self.ports.set_socket(port.number, queue, socket)
    }

    /// Puts the program at an interface.
    pub(crate) fn attach(
        &self,
        port: PortRole,
        interface: i32,
        netlink: &Netlink,
    ) -> Result<Arc<Attached>, AttachError> {
        let mut state = self.lock();
        state.part.memory.set_port(interface as u32, port.number, port.host, false);
        let attached = match self.kept(interface, netlink) {
            Some(link) => Attached::kept(self.hook, link, interface),
            None => {
                let attached = Attached::at(self.hook, self.at_ports(&state), interface, netlink)?;
                if let Some(pins) = &self.pins {
                    pins.set_link(interface as u32, attached.link()).map_err(AttachError::Name)?;
                }
                attached
            }
        };
        let attached = Arc::new(attached);
        state.links.retain(|link| link.strong_count() > 0);
        state.links.push(Arc::downgrade(&attached));
        state.numbers.retain(|(own, _)| *own != interface as u32);
        state.numbers.push((interface as u32, port.number));
        Ok(attached)
    }

    /// The link at this interface that the process before has left.
    fn kept(&self, interface: i32, netlink: &Netlink) -> Option<OwnedFd> {
        let link = self.pins.as_ref()?.link(interface as u32).ok().flatten()?;
        Attached::is_at(self.hook, &link, interface, netlink).then_some(link)
    }

    /// Whether the process before has left its program at this interface.
    pub(crate) fn has_kept(&self, interface: i32, netlink: &Netlink) -> bool {
        self.kept(interface, netlink).is_some()
    }

    /// Whether what was left for this state, which it goes on with, is that of an owner.
    pub(crate) fn is_owner(&self, owner: &Owner) -> bool {
        self.pins.as_ref().is_some_and(|pins| pins.is_of(owner))
    }

    /// Takes away what it, or the process before, has at an interface that is none of its ports, or not with it: its
    /// name would hold it there.
    pub(crate) fn let_go(&self, interface: i32) {
        let state = self.lock();
        let mut links = state.links.iter().filter_map(Weak::upgrade);
        if links.all(|link| link.interface() != interface as u32) {
            // What cannot be removed the end removes.
            let _ = self.pins.as_ref().map(|pins| pins.remove_link(interface as u32));
        }
    }

    /// Whether it is at an interface.
    pub(crate) fn has_ports(&self) -> bool {
        self.lock().links.iter().any(|link| link.strong_count() > 0)
    }

    /// Gives names to a program that is about to run; its number.
    pub(super) fn name(&self, part: &KernelPart, loaded: &Loaded) -> io::Result<Option<u32>> {
        let Some(pins) = &self.pins else { return Ok(None) };
        let memory = &part.memory;
        let maps = [
            ("devices", self.ports.devices.as_deref()),
            ("sockets", self.ports.sockets.as_deref()),
            ("parts", loaded.parts()),
        ];
        let maps = maps.into_iter().filter_map(|(name, map)| Some((name, map?)));
        let objects = [("program", loaded.program()), ("memory", memory.map())].into_iter().chain(maps).collect();
        let tables = previous::describe(&part.program, memory.memory());
        pins.name(&Named { objects, tables }).map(Some)
    }

    /// Names nothing but a program, which runs by now, and these links.
    fn name_only(&self, program: Option<u32>, links: &[Arc<Attached>]) -> io::Result<()> {
        let Some(pins) = &self.pins else { return Ok(()) };
        let is_there = |interface: &u32| links.iter().any(|link| link.interface() == *interface);
        pins.interfaces()?.into_iter().filter(|i| !is_there(i)).try_for_each(|i| pins.remove_link(i))?;
        pins.keep_only(program)
    }

    /// Says whether the kernel sends by a port's interface, otherwise workers send its packets; and whether that
    /// `returns` packets.
    pub(crate) fn send_by(&self, port: PortRole, interface: i32, sends: bool, returns: bool) -> io::Result<()> {
        let interface = interface as u32;
        self.lock().part.memory.set_port(interface, port.number, port.host, sends && returns);
        self.ports.set_device(port.number, sends.then_some(interface))
    }

    /// From now on it processes packets.
    pub(crate) fn start(&self) -> io::Result<()> {
        let mut state = self.lock();
        let part = state.part.clone();
        state.grace = Some(Grace::start(part.tables().clone())?);
        let named = self.name(&part, part.loaded())?;
        let mut previous = state.previous.take();
        // What has changed since, so that little is left to change until the other program is there.
        previous.iter_mut().for_each(|previous| previous.catch_up(&part.program, part.tables()));
        let _ = state.renew_front();
        self.put(&state)?;
        if let Some(mut previous) = previous {
            // Its end waits for what of the program before runs now.
            drop(Grace::start(part.tables().clone())?);
            previous.catch_up(&part.program, part.tables());
        }
        let links: Vec<_> = state.links.iter().filter_map(Weak::upgrade).collect();
        self.name_only(named, &links)
    }

    /// Puts another program in the place of the one that runs, at each port between two packets. When this returns the
    /// old one runs nowhere any more, and what it has handed over is at the sockets. The error is one of a port that
    /// has the old program's place empty, such as that of an interface that is gone.
    pub(crate) fn replace(&self, part: Arc<KernelPart>) -> io::Result<()> {
        let mut state = self.lock();
        let grace = Grace::start(part.tables().clone())?;
        let named = self.name(&part, part.loaded());
        (state.part, state.progress) = (part, Progress::Loaded);
        let old = state.grace.replace(grace);
        // Where there can be none in front of it, who wants copies is told so.
        let _ = state.renew_front();
        let put = self.put(&state);
        // Its end waits for whatever runs now.
        drop(old);
        let named = named.and_then(|named| self.pins.as_ref().map_or(Ok(()), |pins| pins.keep_only(named)));
        put.and(named)
    }

    /// The port at an interface.
    pub(super) fn port_at(&self, interface: u32) -> Option<u8> {
        self.lock().numbers.iter().find(|(own, _)| *own == interface).map(|(_, number)| *number)
    }

    /// From now on it does not. What it has handed over is at the sockets.
    pub(crate) fn stop(&self) {
        let mut state = self.lock();
        let grace = state.grace.take();
        state.front = None;
        // Where a link cannot be changed its interface is gone.
        let _ = self.put(&state);
        // What cannot be removed the next start takes for its own.
        let _ = self.pins.as_ref().map(Pins::clear);
        drop(grace);
    }

    /// Leaves it in the kernel, for the next process with this state, as if this one were killed: the memory of its
    /// tables is not given back, which would empty them.
    pub(crate) fn leave(&self) {
        std::mem::forget(self.part());
    }

    /// What is to be at the ports.
    fn at_ports<'s>(&'s self, state: &'s State) -> &'s OwnedFd {
        match (&state.grace, &state.front) {
            (None, _) => &self.idle,
            (Some(_), Some(front)) => front,
            (Some(_), None) => state.part.loaded().program(),
        }
    }

    /// Puts what is to be there at all links, also where one fails.
    pub(super) fn put(&self, state: &State) -> io::Result<()> {
        let links = state.links.iter().filter_map(Weak::upgrade);
        links.map(|link| link.replace(self.at_ports(state))).fold(Ok(()), io::Result::and)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

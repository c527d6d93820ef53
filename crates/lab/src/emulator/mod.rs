//! Links with rate, delay, jitter, loss, duplication, reordering and corruption.
//!
//! An emulated link is two veth pairs with the emulator between them: each end of the link is in its host, the other
//! ends of the pairs are in a namespace of the emulator's own, where one thread takes frames from memory-mapped rings
//! and sends each when its time has come. The kernel needs no netem for it, and every decision repeats with its seed.
//!
//! ```text
//!  host a                 emulator                 host b
//!   eth0 ════ veth ════ w0a → pipe → w0b ════ veth ════ eth0
//!                           ← pipe ←
//! ```
//!
//! A frame's delay counts from when the kernel saw it. The thread sleeps until shortly before the next frame is due and
//! looks at the clock for the rest, so it takes up to 80 µs of processor time for each frame that leaves alone.

mod bottleneck;
mod counters;
mod delay_line;
mod impairments;
mod pipe;
mod pool;
mod random;
mod worker;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::capture::Tap;
use crate::error::{Error, Result};
use crate::link::{LinkConfig, veth};
use crate::namespace::Namespace;
use crate::ring::{Ring, RingConfig};
pub use counters::LinkCounters;
pub use impairments::{
    Distribution, Impairments, Jitter, Loss, MAX_DELAY, MAX_GAP, MAX_RATE, MIN_RATE, QueueLimit, Reorder,
};
use pipe::Pipe;
use worker::Worker;

/// Bytes for packets under way, over all links of an emulator; beyond it they are dropped and counted.
const MEMORY: usize = 512 << 20;
/// Bytes of a ring, of which each link has two; and with many links.
const RING_BYTES: usize = 16 << 20;
const SMALL_RING_BYTES: usize = 2 << 20;
/// Number of links from which on rings are small.
const MANY: usize = 9;
/// Most links of one emulator.
pub const MAX_LINKS: usize = 256;
/// How long a device may take until it carries frames.
const PATIENCE: Duration = Duration::from_secs(5);

/// A direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From its first end to its second.
    Forward,
    /// From its second end to its first.
    Backward,
}

/// A link to be emulated.
#[derive(Clone, Debug)]
pub struct Wire<'a> {
    /// Its first end: a namespace, and the name of the device to be made there.
    pub a: (&'a Namespace, &'a str),
    /// Its second end.
    pub b: (&'a Namespace, &'a str),
    /// What happens from `a` to `b`.
    pub forward: Impairments,
    /// What happens from `b` to `a`.
    pub backward: Impairments,
    /// Longest network-layer packet in bytes; give the ends' devices the same.
    pub mtu: u32,
    /// Its ends can be captured where the emulator has them ([`Emulator::tap`]), which costs it a little for each
    /// packet.
    pub captured: bool,
}

impl<'a> Wire<'a> {
    /// A link that does the same both ways, with an MTU of 1500.
    pub fn new(a: (&'a Namespace, &'a str), b: (&'a Namespace, &'a str), impairments: Impairments) -> Self {
        Wire { a, b, forward: impairments.clone(), backward: impairments, mtu: 1500, captured: false }
    }
}

/// What the emulator's thread shares with others. Pipe `2 n` is link `n` forward, `2 n + 1` is backward.
struct Shared {
    stop: AtomicBool,
    /// Changes with each change of the settings.
    generation: AtomicU64,
    settings: Vec<Mutex<Impairments>>,
    counters: Vec<counters::Published>,
    /// Ends the thread's wait.
    wake: EventFd,
}

/// Emulated links, carried by one thread. Dropping it ends them, and their devices go.
pub struct Emulator {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    ns: Namespace,
    /// Its devices: two for each link.
    names: Vec<String>,
    /// Of each link.
    mtus: Vec<u32>,
}

impl Emulator {
    /// Makes the links' devices, which are down at the hosts' ends (as [`veth`] makes them), and starts to carry
    /// frames.
    ///
    /// Each direction of each link draws random decisions of its own from `seed`. They depend on the order of packets
    /// alone, so the same packets meet the same fate in each run.
    pub fn start(wires: &[Wire<'_>], seed: u64) -> Result<Emulator> {
        Emulator::start_on(None, wires, seed)
    }

    /// As [`Emulator::start`], with a CPU for itself: its thread runs there before all ordinary threads, so that its
    /// delays stay exact on a busy machine. What else is pinned to that CPU hardly runs while there is much traffic.
    ///
    /// # Errors
    /// When there is no such CPU, or the thread may not be preferred so (that takes CAP_SYS_NICE).
    pub fn start_on(cpu: Option<usize>, wires: &[Wire<'_>], seed: u64) -> Result<Emulator> {
        if wires.len() > MAX_LINKS {
            return Err(Error::Invalid(format!("{} links; an emulator carries at most {MAX_LINKS}", wires.len())));
        }
        let ns = Namespace::new("emulator")?;
        let (mut ports, mut longest, mut pipes, mut settings) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut names = Vec::new();
        for (i, wire) in wires.iter().enumerate() {
            if !(68..=65535).contains(&wire.mtu) {
                return Err(Error::Invalid(format!("mtu = {}: from 68 to 65535", wire.mtu)));
            }
            let ends = [(wire.a, format!("w{i}a"), &wire.forward), (wire.b, format!("w{i}b"), &wire.backward)];
            for ((host, device), port, impairments) in ends {
                impairments.validate()?;
                veth(host, device, &ns, &port)?;
                ns.configure(&port, &LinkConfig::port().mtu(wire.mtu))?;
                let bytes = if wires.len() < MANY { RING_BYTES } else { SMALL_RING_BYTES };
                let config = RingConfig { mtu: wire.mtu as usize, bytes, outgoing: false, shown: wire.captured };
                ports.push(Ring::open(&ns, &port, config)?);
                names.push(port);
                longest.push(wire.mtu as usize + 18);
                pipes.push(Pipe::new(impairments.clone(), seed, pipes.len() as u64));
                settings.push(Mutex::new(impairments.clone()));
            }
        }
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            generation: AtomicU64::new(0),
            counters: settings.iter().map(|_| counters::Published::default()).collect(),
            settings,
            wake: EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
                .map_err(|e| Error::system("cannot create an event", e))?,
        });
        let worker = Worker::new(ports, longest, pipes, MEMORY, shared.clone());
        let (ready_tx, ready_rx) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("lab-links".to_owned())
            .spawn(move || {
                let ready = worker::take_cpu(cpu);
                let runs = ready.is_ok();
                // The starter waits for it.
                let _ = ready_tx.send(ready);
                if runs {
                    worker.run();
                }
            })
            .map_err(|e| Error::system("cannot start a thread", e))?;
        let mtus = wires.iter().map(|wire| wire.mtu).collect();
        let emulator = Emulator { shared, thread: Some(thread), ns, names, mtus };
        ready_rx.recv().unwrap_or_else(|_| Err(Error::Invalid("the emulator's thread ended".to_owned())))?;
        Ok(emulator)
    }

    /// Its number of links.
    pub fn links(&self) -> usize {
        self.shared.settings.len() / 2
    }

    /// Waits until all its devices carry frames: bring the hosts' ends up first.
    pub fn wait_running(&self) -> Result<()> {
        for link in 0..self.links() {
            self.ns.wait_running(&format!("w{link}a"), PATIENCE)?;
            self.ns.wait_running(&format!("w{link}b"), PATIENCE)?;
        }
        Ok(())
    }

    /// Does `impairments` to packets that come from now on; those under way keep their times.
    ///
    /// # Panics
    /// When there is no such link.
    pub fn set(&self, link: usize, direction: Direction, impairments: Impairments) -> Result<()> {
        impairments.validate()?;
        let settings = &self.shared.settings[self.pipe(link, direction)];
        *settings.lock().unwrap_or_else(|e| e.into_inner()) = impairments;
        self.shared.generation.fetch_add(1, Ordering::Release);
        self.wake()
    }

    /// What is done to packets now.
    ///
    /// # Panics
    /// When there is no such link.
    pub fn impairments(&self, link: usize, direction: Direction) -> Impairments {
        let settings = &self.shared.settings[self.pipe(link, direction)];
        settings.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }

    /// What happened to packets so far.
    ///
    /// # Panics
    /// When there is no such link.
    pub fn counters(&self, link: usize, direction: Direction) -> LinkCounters {
        self.shared.counters[self.pipe(link, direction)].get()
    }

    /// All that passes the first (0) or second (1) end of a link that is [captured](Wire::captured), whatever the
    /// device there shows.
    ///
    /// # Panics
    /// When there is no such link or end.
    pub fn tap<'a>(&'a self, link: usize, end: usize, label: &'a str) -> Tap<'a> {
        assert!(end < 2, "end {end}");
        let device = &self.names[2 * link + end];
        Tap { namespace: &self.ns, device, label, mtu: self.mtus[link], mirrored: true }
    }

    fn pipe(&self, link: usize, direction: Direction) -> usize {
        assert!(link < self.links(), "link {link} of {}", self.links());
        2 * link + usize::from(direction == Direction::Backward)
    }

    fn wake(&self) -> Result<()> {
        self.shared.wake.write(1).map_err(|e| Error::system("cannot wake the emulator", e))?;
        Ok(())
    }
}

impl fmt::Debug for Emulator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Emulator").field("links", &self.links()).finish_non_exhaustive()
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        // It cannot fail: the counter is far from its end.
        let _ = self.wake();
        if let Some(thread) = self.thread.take() {
            // Where the thread panicked, links have been dead, and a drop can't report errors.
            let _ = thread.join();
        }
    }
}

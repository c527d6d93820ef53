//! Flows that applications have seen the end of, on their way to who sends them.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use crossbeam_queue::ArrayQueue;

/// Flows that wait to be sent, at most.
const WAITING: usize = 8192;

/// Why a flow ended (`flowEndReason`, RFC 5102 §5.11.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Nothing came for too long.
    Idle = 1,
    /// It has not: it goes on, and this is what it has carried since the last time.
    Active = 2,
    /// Both sides were done.
    Done = 3,
    /// It was ended from outside, or by one side alone.
    Forced = 4,
}

/// A flow that is over, or a time of one that goes on: what a client and a server have sent each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Who began it.
    pub client: SocketAddr,
    /// Whom the client has called.
    pub server: SocketAddr,
    /// Who that was in the end, where this machine has chosen somebody; none: nobody.
    pub chosen: Option<SocketAddr>,
    /// The protocol above IP.
    pub protocol: u8,
    /// When it began, and ended.
    pub time: [SystemTime; 2],
    /// Bytes that the client has sent, and the server: of the protocol's payload or of IP packets, as the application
    /// counts.
    pub octets: [u64; 2],
    /// Packets of the client, and of the server; 0 where they are not counted.
    pub packets: [u64; 2],
    /// Why it ended.
    pub end: End,
    /// Status of the response, where it has one.
    pub status: Option<u16>,
    /// For what it was, such as a service's name.
    pub application: String,
}

/// Flows on their way.
#[derive(Debug, Default)]
struct Shared {
    is_wanted: AtomicBool,
    /// See [`Flows::wanted`], in seconds.
    active: AtomicU32,
    /// Made when flows are wanted for the first time: it takes more than a megabyte.
    queue: OnceLock<ArrayQueue<Flow>>,
    lost: AtomicU64,
}

/// Where applications put flows, and the sender finds them. Who puts one never waits.
#[derive(Clone, Debug, Default)]
pub struct Flows(Arc<Shared>);

impl Flows {
    /// Puts one, if somebody wants any.
    pub fn put(&self, flow: impl FnOnce() -> Flow) {
        if self.0.is_wanted.load(Ordering::Relaxed)
            && let Some(queue) = self.0.queue.get()
            && queue.push(flow()).is_err()
        {
            self.0.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether any are wanted: after which time a flow that goes on is to be told of, in whole seconds.
    pub fn wanted(&self) -> Option<Duration> {
        let is_wanted = self.0.is_wanted.load(Ordering::Relaxed);
        is_wanted.then(|| Duration::from_secs(self.0.active.load(Ordering::Relaxed).into()))
    }

    /// From now on they are, or are not, as [`Flows::wanted`] says. What waits is forgotten where none are.
    pub(super) fn want(&self, active: Option<Duration>) {
        if let Some(active) = active {
            self.0.queue.get_or_init(|| ArrayQueue::new(WAITING));
            self.0.active.store(active.as_secs().try_into().unwrap_or(u32::MAX), Ordering::Relaxed);
        }
        self.0.is_wanted.store(active.is_some(), Ordering::Relaxed);
        if active.is_none() {
            while self.take().is_some() {}
        }
    }

    /// The next one, if there is one.
    pub(super) fn take(&self) -> Option<Flow> {
        self.0.queue.get()?.pop()
    }

    /// Flows for which there was no room.
    pub(super) fn lost(&self) -> u64 {
        self.0.lost.load(Ordering::Relaxed)
    }
}

//! Copies of packets as they come in, for somebody who asks what becomes of them. A worker looks once per batch whether
//! any are wanted. Only for those it allocates, and it never waits: what nobody takes in time is missed, and counted.

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// Packets that wait for who has asked for them, at most.
const WAITING: usize = 256;
/// Any port.
const ANY: u16 = u16::MAX;

/// A packet that came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// Number of the port.
    pub port: u8,
    /// When it came in.
    pub at: SystemTime,
    /// From the frame's first byte to its last.
    pub packet: Vec<u8>,
}

/// Where copies go.
#[derive(Debug)]
pub struct Capture {
    /// So many more are wanted.
    wanted: AtomicU32,
    /// Of this port, or of [`ANY`].
    port: AtomicU16,
    missed: AtomicU64,
    sender: SyncSender<Captured>,
    receiver: Mutex<Receiver<Captured>>,
}

impl Default for Capture {
    fn default() -> Self {
        let (sender, receiver) = sync_channel(WAITING);
        Capture {
            wanted: AtomicU32::new(0),
            port: AtomicU16::new(ANY),
            missed: AtomicU64::new(0),
            sender,
            receiver: Mutex::new(receiver),
        }
    }
}

impl Capture {
    /// From now on so many packets are wanted, of a port or of all. Those that wait already are forgotten.
    pub fn ask(&self, packets: u32, port: Option<u8>) {
        self.wanted.store(0, Ordering::Relaxed);
        let receiver = self.receiver.lock().unwrap_or_else(PoisonError::into_inner);
        while receiver.try_recv().is_ok() {}
        self.port.store(port.map_or(ANY, u16::from), Ordering::Relaxed);
        self.missed.store(0, Ordering::Relaxed);
        self.wanted.store(packets, Ordering::Relaxed);
    }

    /// As many more are wanted as may wait: for who looks at packets to find some.
    pub fn go_on(&self) {
        self.wanted.store(WAITING as u32, Ordering::Relaxed);
    }

    /// No more are wanted.
    pub fn end(&self) {
        self.wanted.store(0, Ordering::Relaxed);
    }

    /// Whether any are wanted.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) > 0
    }

    /// A packet has come in.
    pub fn offer(&self, port: u8, at: SystemTime, packet: &[u8]) {
        let of = self.port.load(Ordering::Relaxed);
        let is_wanted = of == ANY || of == u16::from(port);
        let one_less = |wanted: u32| wanted.checked_sub(1);
        if !is_wanted || self.wanted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_err() {
            return;
        }
        let captured = Captured { port, at, packet: packet.to_vec() };
        if self.sender.try_send(captured).is_err() {
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The next one, if it comes in this time.
    pub fn take(&self, patience: Duration) -> Option<Captured> {
        self.receiver.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(patience).ok()
    }

    /// Packets that were wanted, but could not wait.
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_are_copied_than_were_asked_for() {
        let capture = Capture::default();
        let now = SystemTime::now();
        capture.offer(1, now, b"unasked");
        capture.ask(2, Some(3));
        for (port, packet) in [(1, &b"other"[..]), (3, b"one"), (3, b"two"), (3, b"three")] {
            capture.offer(port, now, packet);
        }
        let taken = std::iter::from_fn(|| capture.take(Duration::ZERO)).map(|own| (own.port, own.packet));
        assert_eq!(taken.collect::<Vec<_>>(), [(3, b"one".to_vec()), (3, b"two".to_vec())]);
        assert!(!capture.is_wanted());
        capture.ask(1000, None);
        (0..1000).for_each(|_| capture.offer(9, now, b"many"));
        assert_eq!((capture.missed(), capture.is_wanted()), (1000 - WAITING as u64, false));
        capture.ask(1, None);
        assert_eq!((capture.take(Duration::ZERO), capture.missed()), (None, 0));
    }
}

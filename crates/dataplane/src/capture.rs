//! Copies of packets as they come in, for somebody who asks what becomes of them. A worker looks once per batch whether
//! any are wanted. Only for those it allocates, and it never waits: no more are wanted than may wait.

use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
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
    sender: SyncSender<Captured>,
    receiver: Mutex<Receiver<Captured>>,
}

impl Default for Capture {
    fn default() -> Self {
        let (sender, receiver) = sync_channel(WAITING);
        Capture { wanted: AtomicU32::new(0), port: AtomicU16::new(ANY), sender, receiver: Mutex::new(receiver) }
    }
}

impl Capture {
    /// From now on packets of a port are wanted, or of all: see [`Capture::go_on`]. Those that wait already are
    /// forgotten.
    pub fn begin(&self, port: Option<u8>, packets: u32) {
        self.end();
        let receiver = self.receiver.lock().unwrap_or_else(PoisonError::into_inner);
        while receiver.try_recv().is_ok() {}
        self.port.store(port.map_or(ANY, u16::from), Ordering::Relaxed);
        self.go_on(packets);
    }

    /// So many packets are wanted from now on, or as many as may wait. Nothing waits now.
    pub fn go_on(&self, packets: u32) {
        self.wanted.store(packets.min(WAITING as u32), Ordering::Relaxed);
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
        // Where there is no room this one was wanted before those were forgotten that wait.
        let _ = self.sender.try_send(Captured { port, at, packet: packet.to_vec() });
    }

    /// The next one, if it comes in this time.
    pub fn take(&self, patience: Duration) -> Option<Captured> {
        self.receiver.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(patience).ok()
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
        capture.begin(Some(3), 2);
        for (port, packet) in [(1, &b"other"[..]), (3, b"one"), (3, b"two"), (3, b"three")] {
            capture.offer(port, now, packet);
        }
        let taken = || std::iter::from_fn(|| capture.take(Duration::ZERO)).map(|own| (own.port, own.packet));
        assert_eq!(taken().collect::<Vec<_>>(), [(3, b"one".to_vec()), (3, b"two".to_vec())]);
        assert!(!capture.is_wanted());
        capture.begin(None, 1000);
        (0..1000).for_each(|_| capture.offer(9, now, b"many"));
        assert!(!capture.is_wanted());
        assert_eq!(taken().count(), WAITING);
        capture.go_on(1);
        capture.offer(9, now, b"more");
        capture.begin(None, 1);
        assert_eq!(capture.take(Duration::ZERO), None);
    }
}

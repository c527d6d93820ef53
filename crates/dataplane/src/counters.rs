//! Counters that a worker writes, in cache lines of its own: a block per program and one for each queue of a port.
//! All others read their sums ([`crate::Observer`]).

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::packets::Refused;
use crate::ports::Depth;

#[repr(align(64))]
#[derive(Debug, Default)]
struct Line([AtomicU64; 8]);

/// A worker's counters, in the order of `CounterSlots`, in cache lines of their own.
#[derive(Debug)]
pub struct CounterBlock {
    lines: Box<[Line]>,
}

impl CounterBlock {
    /// `len` counters, all zero.
    pub fn new(len: usize) -> Self {
        CounterBlock { lines: (0..len.div_ceil(8).max(1)).map(|_| Line::default()).collect() }
    }

    /// The block as generated code writes it.
    pub(crate) fn as_ptr(&self) -> *mut u64 {
        self.lines.as_ptr().cast::<u64>().cast_mut()
    }

    /// A counter's value.
    pub fn get(&self, slot: usize) -> u64 {
        self.lines[slot / 8].0[slot % 8].load(Ordering::Relaxed)
    }

    /// Adds to a counter. Only the worker that the block belongs to may call it.
    pub(crate) fn add(&self, slot: usize, amount: u64) {
        // One writer, so no read-modify-write instruction is needed.
        let cell = &self.lines[slot / 8].0[slot % 8];
        cell.store(cell.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
    }
}

/// What one worker's queue of a port did. Written by that worker once per batch, in cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct PortCounters {
    /// Packets received. This and the three below are 0 of a port with a fast path, where the interface counts.
    pub rx_packets: AtomicU64,
    /// Bytes received, from the Ethernet header on.
    pub rx_bytes: AtomicU64,
    /// Packets sent.
    pub tx_packets: AtomicU64,
    /// Bytes sent.
    pub tx_bytes: AtomicU64,
    /// Packets that could not be sent; also counted as drop reason `tx_failed`.
    pub tx_failed: AtomicU64,
    /// Packets that the kernel dropped before they were received: its ring was full.
    pub rx_dropped: AtomicU64,
    /// Packets received that were longer than a frame can hold.
    pub oversize: AtomicU64,
    /// Packets received whose checksum, or division into segments, was left to hardware, and which the driver can't
    /// finish, by the number of the reason ([`Refused`]); they are dropped.
    pub unfinished: [AtomicU64; Refused::ALL.len()],
    /// Super-packets received, which were divided.
    pub rx_super: AtomicU64,
    /// The packets that were made of them, those longer than a frame included.
    pub rx_in_super: AtomicU64,
    /// Super-packets sent; the packets in them are among those of `tx_packets`.
    pub tx_super: AtomicU64,
    /// The packets in them.
    pub tx_in_super: AtomicU64,
    /// Packets that waited in its receive ring when it was last looked at, some times a second.
    pub rx_queued: AtomicU64,
    /// Places of that ring; 0 of a driver without one.
    pub rx_places: AtomicU64,
    /// Packets in its transmit ring that the kernel had not looked at then.
    pub tx_queued: AtomicU64,
    /// Places of that ring; 0 of a driver without one.
    pub tx_places: AtomicU64,
    /// The last error of the driver while running.
    error: Mutex<Option<String>>,
}

impl PortCounters {
    /// Keeps the driver's error for observers, or that there is none any more.
    pub fn set_error(&self, error: Option<impl ToString>) {
        *self.error.lock().expect("no panic under this lock") = error.map(|error| error.to_string());
    }

    /// Keeps how full its rings are.
    pub(crate) fn set_depth(&self, depth: Depth) {
        let Depth { rx, rx_places, tx, tx_places } = depth;
        let kept = [&self.rx_queued, &self.rx_places, &self.tx_queued, &self.tx_places];
        kept.into_iter().zip([rx, rx_places, tx, tx_places]).for_each(|(kept, now)| {
            kept.store(now.into(), Ordering::Relaxed);
        });
    }

    /// What is wrong at the port now, in the driver's words.
    pub fn error(&self) -> Option<String> {
        self.error.lock().expect("no panic under this lock").clone()
    }
}

/// What one worker did. Written by that worker alone, in cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct WorkerCounters {
    /// Times that it looked at all its ports, rings and timers.
    pub rounds: AtomicU64,
    /// Those of them that found nothing to do.
    pub idle: AtomicU64,
    /// Times that it slept until there was something to do.
    pub sleeps: AtomicU64,
    /// Packets that it got from ports and from the kernel's part of the program.
    pub packets: AtomicU64,
    /// CPU time of its thread in nanoseconds, by the tenth of a second.
    pub cpu_ns: AtomicU64,
    /// Bytes that waited in the ring by which the kernel's part hands over when it was last looked at, some times a
    /// second.
    pub ring_bytes: AtomicU64,
    /// Bytes that can wait there; 0 where there is no such ring.
    pub ring_size: AtomicU64,
}

impl WorkerCounters {
    /// Adds to one of them. Only the worker may call it.
    pub(crate) fn add(counter: &AtomicU64, amount: u64) {
        // One writer, so no read-modify-write instruction is needed.
        counter.store(counter.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
    }
}

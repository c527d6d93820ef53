//! The peers in C: fan-out by sockets, and the source.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use lab::Namespace;

use super::network::Network;
use crate::text;

/// `struct stream_sent`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Sent {
    bursts: u64,
    seconds_e9: u64,
    lost: u64,
}

unsafe extern "C" {
    fn stream_fan_out(receivers: *const u32, count: u32, gso: bool, stop: *const u32) -> i32;
    fn stream_source(
        interface: u32,
        frame: *const u8,
        bytes: u32,
        numbered: u32,
        apart: u32,
        burst: u32,
        copies: u32,
        counts: i32,
        nanoseconds: u64,
        sent: *mut Sent,
    ) -> i32;
    fn stream_yield_to_others() -> i32;
}

/// What the source sent.
#[derive(Clone, Copy, Debug)]
pub struct Streamed {
    /// Copies that came.
    pub arrived: u64,
    /// Copies that did not.
    pub lost: u64,
}

/// This thread runs on one CPU from now on, and where it does not send, it gives way to others there.
pub fn stay(cpu: usize, gives_way: bool) -> Result<(), String> {
    let mut cpus = CpuSet::new();
    cpus.set(cpu).and_then(|()| sched_setaffinity(Pid::from_raw(0), &cpus)).map_err(text)?;
    // SAFETY: changes this thread alone.
    let error = if gives_way { unsafe { stream_yield_to_others() } } else { 0 };
    told(error)
}

/// A source: whose packets, and by what it knows that all that became of a burst has come.
pub struct Source<'a> {
    pub namespace: &'a Namespace,
    pub interface: &'a str,
    pub frame: &'a [u8],
    /// Where the sequence number of RTP lies; 0 in a frame without one.
    pub numbered: u32,
    /// Each packet of a burst is of a stream of its own, to ports so far apart; 0: all are of one.
    pub apart: u32,
    /// Packets of a burst, and copies of each that are to come.
    pub burst: u32,
    pub copies: u32,
    /// The descriptor of the sinks' map.
    pub counts: i32,
    pub cpu: usize,
}

impl Source<'_> {
    /// Sends for a while, from a thread of its own.
    pub fn run(&self, time: Duration) -> Result<Streamed, String> {
        let run = || {
            stay(self.cpu, false)?;
            let interface = nix::net::if_::if_nametoindex(self.interface).map_err(text)?;
            let (frame, time) = (self.frame, time.as_nanos() as u64);
            let mut sent = Sent::default();
            // SAFETY: the frame has this length, the descriptor is open for as long as this borrows its map's owner's
            // number, and the result is written before it returns.
            told(unsafe {
                stream_source(
                    interface,
                    frame.as_ptr(),
                    frame.len() as u32,
                    self.numbered,
                    self.apart,
                    self.burst,
                    self.copies,
                    self.counts,
                    time,
                    &mut sent,
                )
            })?;
            let all = sent.bursts * u64::from(self.burst) * u64::from(self.copies);
            Ok(Streamed { arrived: all - sent.lost, lost: sent.lost })
        };
        self.namespace.enter(run).map_err(text)?
    }
}

/// A server by sockets, until it is dropped.
pub struct Server {
    stop: Arc<AtomicU32>,
    thread: Option<JoinHandle<Result<(), String>>>,
}

impl Server {
    /// In the network's box, on this CPU.
    pub fn start(network: &Network, gso: bool, cpu: usize) -> Result<Self, String> {
        let receivers: Vec<u32> = network.receivers.iter().map(|to| u32::from_be_bytes(to.address())).collect();
        let stop = Arc::new(AtomicU32::new(0));
        let told_to = stop.clone();
        let start = move || {
            std::thread::spawn(move || {
                stay(cpu, true)?;
                // SAFETY: the receivers are as many as is said, and the flag is there until it returns.
                told(unsafe { stream_fan_out(receivers.as_ptr(), receivers.len() as u32, gso, told_to.as_ptr()) })
            })
        };
        // A thread begins in the network namespace of the one that starts it.
        let thread = network.system.enter(start).map_err(text)?;
        Ok(Server { stop, thread: Some(thread) })
    }

    /// Ends it, and says what went wrong.
    pub fn end(&mut self) -> Result<(), String> {
        self.stop.store(1, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        ended.map_or(Ok(()), |ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

fn told(error: i32) -> Result<(), String> {
    if error == 0 { Ok(()) } else { Err(std::io::Error::from_raw_os_error(error).to_string()) }
}

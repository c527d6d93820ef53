//! Captures of devices in one pcapng file, with the kernel's time stamps in nanoseconds and the devices' names.
//!
//! pcapng is draft-ietf-opsawg-pcapng. Each packet says whether it came in or went out, and the file ends with how many
//! packets of each device there were and how many the kernel dropped because the writer was too slow.
//!
//! What goes out past the queueing discipline (PACKET_QDISC_BYPASS, XDP), as Millrace's own ports and this crate's
//! generator send, no capture sees where it goes out; what an XDP program takes none sees where it comes in. A device
//! that Millrace uses is captured at the other end of its link, where that is the emulator's: see
//! [`Emulator::tap`](crate::Emulator::tap).

use std::borrow::Cow;
use std::fs::File;
use std::io::BufWriter;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use pcap_file::pcapng::blocks::interface_statistics::{InterfaceStatisticsBlock, InterfaceStatisticsOption};
use pcap_file::{DataLink, Endianness, PcapError};

use crate::clock;
use crate::error::{Error, Result};
use crate::namespace::Namespace;
use crate::ring::{Ring, RingConfig};

/// Bytes of a device's ring.
const RING_BYTES: usize = 16 << 20;
/// Resolution of the time stamps: ten to the power of minus nine seconds.
const NANOSECONDS: u8 = 9;
/// Frames of one device that are taken together, to be sorted by time with those of the others.
const TURN: usize = 256;
/// Longest sleep, in ms, so that a stop request is seen soon and the file is up to date.
const SLEEP: u8 = 50;
/// At most so long after a packet it can be read in the file.
const FLUSH: Duration = Duration::from_millis(100);

/// A device to be captured.
#[derive(Clone, Copy, Debug)]
pub struct Tap<'a> {
    /// Its namespace.
    pub namespace: &'a Namespace,
    /// Its name there.
    pub device: &'a str,
    /// What it is called in the file.
    pub label: &'a str,
    /// Its MTU in bytes; of longer packets, as a host with offloads on sends, only the beginning is in the file.
    pub mtu: u32,
    /// It is the other end of the link of the device that the file is about: what comes in here goes out there.
    pub mirrored: bool,
}

/// What was captured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// Packets in the file.
    pub packets: u64,
    /// Packets that are missing, because the writer was too slow.
    pub dropped: u64,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    packets: AtomicU64,
    dropped: AtomicU64,
}

/// A capture under way, by a thread of its own. Dropping it ends the file.
pub struct Capture {
    shared: Arc<Shared>,
    path: PathBuf,
    thread: Option<JoinHandle<Result<Captured>>>,
}

impl Capture {
    /// Writes all packets of these devices into a new file, from here on.
    pub fn start(taps: &[Tap<'_>], path: &Path) -> Result<Capture> {
        let shared = Arc::<Shared>::default();
        let rings = taps.iter().map(|tap| {
            let config = RingConfig { mtu: tap.mtu as usize, bytes: RING_BYTES, outgoing: true, shown: false };
            let ring = Ring::open(tap.namespace, tap.device, config)?;
            Ok(Source { ring, mirrored: tap.mirrored, captured: Captured::default() })
        });
        let sources = rings.collect::<Result<Vec<_>>>()?;
        let labels: Vec<&str> = taps.iter().map(|tap| tap.label).collect();
        let file = File::create(path).map_err(|e| Error::system(format!("cannot write {}", path.display()), e))?;
        let writer = begin(file, &labels).map_err(|e| failed(path, e))?;
        let mut writing =
            Writing { sources, writer, shared: shared.clone(), flushed: Instant::now(), sorted: Vec::new() };
        // From here on the file is a capture, if an empty one.
        writing.flush().map_err(|e| failed(path, e))?;
        let to = path.to_owned();
        let thread = thread::Builder::new()
            .name("lab-capture".to_owned())
            .spawn(move || writing.run().map_err(|e| failed(&to, e)))
            .map_err(|e| Error::system("cannot start a thread", e))?;
        Ok(Capture { shared, path: path.to_owned(), thread: Some(thread) })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was captured so far.
    pub fn captured(&self) -> Captured {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Captured { packets: get(&self.shared.packets), dropped: get(&self.shared.dropped) }
    }

    /// Ends the file; an error is one of the writer at any time before.
    pub fn stop(mut self) -> Result<Captured> {
        self.end().unwrap_or(Ok(Captured::default()))
    }

    fn end(&mut self) -> Option<Result<Captured>> {
        self.shared.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take()?;
        Some(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // A drop can't report errors.
        let _ = self.end();
    }
}

fn failed(path: &Path, error: PcapError) -> Error {
    match error {
        PcapError::IoError(error) => Error::system(format!("cannot write {}", path.display()), error),
        error => Error::Invalid(format!("cannot write {}: {error}", path.display())),
    }
}

type Writer = PcapNgWriter<BufWriter<File>>;

/// The section header and the devices.
fn begin(file: File, labels: &[&str]) -> std::result::Result<Writer, PcapError> {
    let mut writer = PcapNgWriter::with_endianness(BufWriter::with_capacity(1 << 20, file), Endianness::Little)?;
    for &label in labels {
        writer.write_pcapng_block(InterfaceDescriptionBlock {
            linktype: DataLink::ETHERNET,
            snaplen: 0,
            options: vec![
                InterfaceDescriptionOption::IfName(Cow::Borrowed(label)),
                InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
            ],
        })?;
    }
    Ok(writer)
}

/// A packet until its turn.
struct Waiting {
    device: u32,
    /// In ns since 1970.
    stamp: u64,
    length: u32,
    outgoing: bool,
    bytes: Vec<u8>,
}

/// A device that is captured.
struct Source {
    ring: Ring,
    /// See [`Tap::mirrored`].
    mirrored: bool,
    captured: Captured,
}

/// The thread's own part.
struct Writing {
    sources: Vec<Source>,
    writer: Writer,
    shared: Arc<Shared>,
    flushed: Instant,
    sorted: Vec<Waiting>,
}

impl Writing {
    fn run(mut self) -> std::result::Result<Captured, PcapError> {
        let sockets: Vec<_> = self.sources.iter().map(|source| source.ring.socket()).collect();
        loop {
            // Read before the rings, so that what came before the request is in the file.
            let stop = self.shared.stop.load(Ordering::Relaxed);
            let taken = self.take();
            self.write()?;
            if taken == 0 && stop {
                return self.finish();
            }
            if self.flushed.elapsed() > FLUSH {
                self.flush()?;
            }
            if taken == 0 {
                let mut waits: Vec<_> = sockets.iter().map(|s| PollFd::new(s.as_fd(), PollFlags::POLLIN)).collect();
                // A signal ends it early, and then there is another turn.
                let _ = poll(&mut waits, PollTimeout::from(SLEEP));
                for (Source { ring, .. }, wait) in self.sources.iter().zip(&waits) {
                    if wait.revents().is_some_and(|events| events.contains(PollFlags::POLLERR)) {
                        ring.clear_error();
                        // Until the device is up again, waiting does not wait.
                        thread::sleep(Duration::from_millis(SLEEP.into()));
                    }
                }
            }
        }
    }

    /// Takes packets out of the rings; how many.
    fn take(&mut self) -> usize {
        let sorted = &mut self.sorted;
        for (device, Source { ring, mirrored, captured }) in (0u32..).zip(&mut self.sources) {
            for _ in 0..TURN {
                let seen = ring.receive(|frame| Waiting {
                    device,
                    stamp: frame.stamp,
                    length: frame.wire_length() as u32,
                    outgoing: frame.outgoing != *mirrored,
                    bytes: frame.parts().concat(),
                });
                let Some(packet) = seen else { break };
                captured.packets += 1;
                sorted.push(packet);
            }
            captured.dropped += ring.take_dropped();
        }
        sorted.sort_by_key(|packet| packet.stamp);
        let sum = |pick: fn(&Captured) -> u64| self.sources.iter().map(|source| pick(&source.captured)).sum();
        self.shared.packets.store(sum(|c| c.packets), Ordering::Relaxed);
        self.shared.dropped.store(sum(|c| c.dropped), Ordering::Relaxed);
        self.sorted.len()
    }

    fn write(&mut self) -> std::result::Result<(), PcapError> {
        for packet in self.sorted.drain(..) {
            // epb_flags: the lowest two bits are 1 for inbound, 2 for outbound.
            let flags = EnhancedPacketOption::Flags(if packet.outgoing { 2 } else { 1 });
            self.writer.write_pcapng_block(EnhancedPacketBlock {
                interface_id: packet.device,
                timestamp: Duration::from_nanos(packet.stamp),
                original_len: packet.length,
                data: Cow::Owned(packet.bytes),
                options: vec![flags],
            })?;
        }
        Ok(())
    }

    fn flush(&mut self) -> std::result::Result<(), PcapError> {
        self.flushed = Instant::now();
        std::io::Write::flush(self.writer.get_mut()).map_err(PcapError::IoError)?;
        Ok(())
    }

    fn finish(mut self) -> std::result::Result<Captured, PcapError> {
        let now = clock::realtime();
        let mut sum = Captured::default();
        for (interface_id, Source { captured, .. }) in (0u32..).zip(&self.sources) {
            sum.packets += captured.packets;
            sum.dropped += captured.dropped;
            self.writer.write_pcapng_block(InterfaceStatisticsBlock {
                interface_id,
                // The upper half comes first, but the library writes one little-endian number.
                timestamp: now.rotate_left(32),
                options: vec![
                    InterfaceStatisticsOption::IsbIfRecv(captured.packets + captured.dropped),
                    InterfaceStatisticsOption::IsbIfDrop(captured.dropped),
                ],
            })?;
        }
        self.flush()?;
        Ok(sum)
    }
}

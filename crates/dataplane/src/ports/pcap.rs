//! Capture files in pcap format, with timestamps in micro- or nanoseconds.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use pcap_file::pcap::{PcapHeader, PcapPacket, PcapReader, PcapWriter};
use pcap_file::{DataLink, Endianness, PcapError, TsResolution};

use super::{PortError, Queue, Sent};
use crate::context::{RxBatch, TxBatch};

/// Largest packet that our own files may hold; what libpcap uses too.
const SNAPLEN: u32 = 262_144;

/// A packet read: when it was captured, and its bytes.
pub type Captured<'a> = (Duration, Cow<'a, [u8]>);

/// A capture file to read from.
#[derive(Debug)]
pub struct PcapInput {
    path: PathBuf,
    reader: PcapReader<File>,
    packets: u64,
    done: bool,
}

impl PcapInput {
    /// Opens a file and checks its header.
    pub fn open(path: &Path) -> Result<Self, PortError> {
        let error = |what: String| PortError(format!("{}: {what}", path.display()));
        let file = File::open(path).map_err(|e| error(format!("cannot be opened: {e}")))?;
        let reader = PcapReader::new(file).map_err(|e| {
            let reason = describe(&e);
            error(format!("not a pcap file ({reason}); pcapng files can be converted by `editcap -F nsecpcap`"))
        })?;
        let link = reader.header().datalink;
        if link != DataLink::ETHERNET {
            return Err(error(format!("link type {}: only Ethernet (1) is supported", u32::from(link))));
        }
        Ok(PcapInput { path: path.to_owned(), reader, packets: 0, done: false })
    }

    /// The next packet; `None` at the end of the file. After an error there is no next packet.
    pub fn next(&mut self) -> Option<Result<Captured<'_>, PortError>> {
        if self.done {
            return None;
        }
        let number = self.packets + 1;
        let error = |what: String| PortError(format!("{}: packet {number}: {what}", self.path.display()));
        match self.reader.next_packet() {
            None => {
                self.done = true;
                None
            }
            Some(Ok(packet)) if (packet.data.len() as u64) < u64::from(packet.orig_len) => {
                self.done = true;
                let (kept, len) = (packet.data.len(), packet.orig_len);
                Some(Err(error(format!(
                    "only {kept} of {len} bytes were captured; capture whole packets (tcpdump -s 0)"
                ))))
            }
            Some(Ok(packet)) => {
                self.packets = number;
                Some(Ok((packet.timestamp, packet.data)))
            }
            Some(Err(e)) => {
                self.done = true;
                Some(Err(error(format!("the file is damaged or ends early ({})", describe(&e)))))
            }
        }
    }
}

/// A capture file to write to, with nanosecond timestamps.
pub struct PcapOutput {
    path: PathBuf,
    writer: PcapWriter<BufWriter<File>>,
}

impl PcapOutput {
    /// Creates or overwrites a file.
    pub fn create(path: &Path) -> Result<Self, PortError> {
        let error = |e: String| PortError(format!("{}: cannot be written: {e}", path.display()));
        let file = File::create(path).map_err(|e| error(e.to_string()))?;
        let header = PcapHeader {
            snaplen: SNAPLEN,
            ts_resolution: TsResolution::NanoSecond,
            endianness: Endianness::native(),
            ..PcapHeader::default()
        };
        let writer = PcapWriter::with_header(BufWriter::with_capacity(1 << 16, file), header)
            .map_err(|e| error(describe(&e)))?;
        Ok(PcapOutput { path: path.to_owned(), writer })
    }

    /// Appends a packet.
    pub fn write(&mut self, time: Duration, packet: &[u8]) -> Result<(), PortError> {
        let packet = PcapPacket::new(time, packet.len() as u32, packet);
        let result = self.writer.write_packet(&packet);
        result.map(drop).map_err(|e| PortError(format!("{}: cannot be written: {}", self.path.display(), describe(&e))))
    }

    /// Writes out what is buffered.
    pub fn finish(self) -> Result<(), PortError> {
        let path = self.path;
        let result = self.writer.into_writer().flush();
        result.map_err(|e| PortError(format!("{}: cannot be written: {e}", path.display())))
    }
}

/// One line, with the cause that the crate's own text leaves out.
pub(super) fn describe(error: &PcapError) -> String {
    match error {
        PcapError::IoError(error) => error.to_string(),
        other => other.to_string(),
    }
}

/// A port over capture files. What it sends has the time of sending. The first worker receives all packets; every one
/// sends.
pub struct PcapPort {
    input: Option<PcapInput>,
    output: Option<Arc<Mutex<PcapOutput>>>,
    error: Option<PortError>,
    finished: bool,
}

impl PcapPort {
    /// Opens the files, for a number of workers.
    pub fn open(input: Option<&Path>, output: Option<&Path>, workers: usize) -> Result<Vec<Self>, PortError> {
        let mut input = input.map(PcapInput::open).transpose()?;
        let output = output.map(PcapOutput::create).transpose()?.map(|output| Arc::new(Mutex::new(output)));
        let port = |_| {
            let input = input.take();
            PcapPort { finished: input.is_none(), input, output: output.clone(), error: None }
        };
        Ok((0..workers).map(port).collect())
    }
}

impl Queue for PcapPort {
    fn receive(&mut self, batch: &mut RxBatch<'_>) {
        let Some(input) = &mut self.input else { return };
        while batch.room() > 0 && !self.finished {
            match input.next() {
                Some(Ok((_, packet))) => batch.push(&[&packet]),
                Some(Err(error)) => {
                    self.error = Some(error);
                    self.finished = true;
                }
                None => self.finished = true,
            }
        }
    }

    fn transmit(&mut self, batch: &mut TxBatch<'_>) -> Sent {
        let mut sent = Sent::default();
        let Some(output) = &self.output else { return sent };
        let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        for packet in batch.packets() {
            match output.write(now, packet) {
                Ok(()) => {
                    sent.packets += 1;
                    sent.bytes += packet.len() as u64;
                }
                Err(error) => {
                    self.error.get_or_insert(error);
                }
            }
        }
        sent
    }

    fn finished(&self) -> bool {
        self.finished
    }

    fn tick(&mut self, counters: &crate::counters::PortCounters) {
        if let Some(error) = &self.error {
            counters.set_error(Some(error));
        }
    }

    fn close(&mut self) -> Result<(), PortError> {
        // The last worker finishes the file.
        let output = self.output.take().and_then(Arc::into_inner);
        let output = output.map(|output| output.into_inner().unwrap_or_else(PoisonError::into_inner));
        let written = output.map_or(Ok(()), PcapOutput::finish);
        self.error.take().map_or(written, Err)
    }
}

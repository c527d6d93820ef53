//! Ports over capture files: any that [`CaptureInput`] reads, and pcap files with nanoseconds that are written.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::{Endianness, PcapError, TsResolution};

use super::capture::CaptureInput;
use super::error::PortError;
use super::queue::{Queue, Sent};
use crate::counters::PortCounters;
use crate::packets::{RxBatch, TxBatch};

/// Largest packet that our own files may hold; what libpcap uses too.
const SNAPLEN: u32 = 262_144;

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

/// A port over capture files. What it sends has the time of sending. The first worker receives all packets, whatever
/// interface the file says that they were at; every one sends.
pub struct PcapPort {
    input: Option<CaptureInput>,
    output: Option<Arc<Mutex<PcapOutput>>>,
    error: Option<PortError>,
    finished: bool,
}

impl PcapPort {
    /// Opens the files, for a number of workers.
    pub fn open(input: Option<&Path>, output: Option<&Path>, workers: usize) -> Result<Vec<Self>, PortError> {
        let mut input = input.map(CaptureInput::open).transpose()?;
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
            match input.next_packet() {
                Some(Ok(packet)) => batch.push(&[packet.frame]),
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
            // The file's writer takes a packet in one piece.
            let joined;
            let bytes = if packet.rest.is_empty() {
                packet.head
            } else {
                joined = packet.to_vec();
                &joined
            };
            match output.write(now, bytes) {
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

    fn tick(&mut self, counters: &PortCounters) {
        let skipped = || self.input.as_ref().and_then(CaptureInput::skipped);
        if let Some(what) = self.error.as_ref().map(PortError::to_string).or_else(skipped) {
            counters.set_error(Some(what));
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

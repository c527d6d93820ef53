//! pcapng files that are written (draft-ietf-opsawg-pcapng), with names of interfaces and times in nanoseconds.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use pcap_file::{DataLink, Endianness, PcapError};

use super::error::PortError;
use super::pcap::describe;

/// Resolution of times: ten to the power of minus nine seconds.
const NANOSECONDS: u8 = 9;
/// In a packet's flags: the interface has received it, or sent it.
const RECEIVED: u32 = 1;
const SENT: u32 = 2;

/// A file that packets are written to.
pub struct PcapngOutput {
    path: PathBuf,
    writer: PcapNgWriter<BufWriter<File>>,
}

/// A packet of such a file.
#[derive(Clone, Copy, Debug)]
pub struct PcapngPacket<'p> {
    /// Number of its interface.
    pub interface: u32,
    /// Since 1970.
    pub time: Duration,
    /// Whether the interface has sent it, not received.
    pub is_sent: bool,
    /// Bytes that it had.
    pub length: u32,
    /// Those that are written.
    pub bytes: &'p [u8],
    /// What is said of it.
    pub comment: Option<&'p str>,
}

impl PcapngOutput {
    /// Creates or overwrites a file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn create(path: &Path) -> Result<Self, PortError> {
        let failed = |error: String| PortError(format!("{}: cannot be written: {error}", path.display()));
        let file = File::create(path).map_err(|error| failed(error.to_string()))?;
        let file = BufWriter::with_capacity(1 << 16, file);
        let writer =
            PcapNgWriter::with_endianness(file, Endianness::native()).map_err(|error| failed(describe(&error)))?;
        Ok(PcapngOutput { path: path.to_owned(), writer })
    }

    fn failed(&self, error: &PcapError) -> PortError {
        PortError(format!("{}: cannot be written: {}", self.path.display(), describe(error)))
    }

    /// Adds an interface; they are numbered from 0.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn interface(&mut self, name: &str) -> Result<(), PortError> {
        let name = InterfaceDescriptionOption::IfName(Cow::Borrowed(name));
        let options = vec![name, InterfaceDescriptionOption::IfTsResol(NANOSECONDS)];
        let block = InterfaceDescriptionBlock { linktype: DataLink::ETHERNET, snaplen: 0, options };
        self.writer.write_pcapng_block(block).map(drop).map_err(|error| self.failed(&error))
    }

    /// Appends a packet.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&mut self, packet: &PcapngPacket) -> Result<(), PortError> {
        let flags = EnhancedPacketOption::Flags(if packet.is_sent { SENT } else { RECEIVED });
        let comment = packet.comment.map(|comment| EnhancedPacketOption::Comment(Cow::Borrowed(comment)));
        let block = EnhancedPacketBlock {
            interface_id: packet.interface,
            timestamp: packet.time,
            original_len: packet.length,
            data: Cow::Borrowed(packet.bytes),
            options: std::iter::once(flags).chain(comment).collect(),
        };
        self.writer.write_pcapng_block(block).map(drop).map_err(|error| self.failed(&error))
    }

    /// Writes out what is buffered.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(mut self) -> Result<(), PortError> {
        let flushed = self.writer.get_mut().flush();
        flushed.map_err(|error| self.failed(&PcapError::IoError(error)))
    }
}

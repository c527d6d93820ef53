//! Capture files of packets with comments (draft-ietf-opsawg-pcapng). An interface is a port.

use std::borrow::Cow;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::time::Duration;

use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use pcap_file::{DataLink, Endianness, PcapError};

/// Resolution of the time stamps: ten to the power of minus nine seconds.
const NANOSECONDS: u8 = 9;

/// A packet.
pub struct Packet {
    /// Since 1970.
    pub at: Duration,
    /// The port where it came in.
    pub port: String,
    /// Bytes that it had.
    pub length: u32,
    /// Those that are written.
    pub bytes: Vec<u8>,
    /// What is said of it.
    pub comment: String,
}

/// Writes them.
pub fn write(path: &Path, packets: &[Packet]) -> Result<(), PcapError> {
    let file = BufWriter::new(File::create(path).map_err(PcapError::IoError)?);
    let mut writer = PcapNgWriter::with_endianness(file, Endianness::native())?;
    let mut ports: Vec<&str> = Vec::new();
    for Packet { port, .. } in packets {
        if !ports.contains(&port.as_str()) {
            ports.push(port);
            writer.write_pcapng_block(InterfaceDescriptionBlock {
                linktype: DataLink::ETHERNET,
                snaplen: 0,
                options: vec![
                    InterfaceDescriptionOption::IfName(Cow::Borrowed(port)),
                    InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
                ],
            })?;
        }
    }
    for Packet { at, port, length, bytes, comment } in packets {
        let interface = ports.iter().position(|own| own == port).unwrap_or_default();
        writer.write_pcapng_block(EnhancedPacketBlock {
            interface_id: interface as u32,
            timestamp: *at,
            original_len: *length,
            data: Cow::Borrowed(bytes),
            // Inbound.
            options: vec![EnhancedPacketOption::Flags(1), EnhancedPacketOption::Comment(Cow::Borrowed(comment))],
        })?;
    }
    std::io::Write::flush(writer.get_mut()).map_err(PcapError::IoError)
}

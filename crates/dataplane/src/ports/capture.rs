//! Whole capture files, pcap or pcapng, read at once: traces that programs are tried with.

use std::io::Read;

use pcap_file::DataLink;
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::{Block, PcapNgReader};

use super::PortError;
use super::pcap::describe;

/// First bytes of a pcapng file: its section header's block type.
const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// A frame of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracePacket {
    /// Name of the interface that it was captured at, where the file tells.
    pub interface: Option<String>,
    /// Its bytes.
    pub frame: Vec<u8>,
}

/// Reads a capture file's content. `name` is for messages.
pub fn read_trace(name: &str, content: &[u8]) -> Result<Vec<TracePacket>, PortError> {
    let packets = if content.starts_with(&PCAPNG) { pcapng(content) } else { pcap(content) };
    let packets = packets.map_err(|what| PortError(format!("{name}: {what}")))?;
    if packets.is_empty() {
        return Err(PortError(format!("{name}: holds no packet")));
    }
    Ok(packets)
}

fn pcap(content: impl Read) -> Result<Vec<TracePacket>, String> {
    let mut reader =
        PcapReader::new(content).map_err(|e| format!("neither a pcap nor a pcapng file ({})", describe(&e)))?;
    ethernet(reader.header().datalink)?;
    let mut packets = Vec::new();
    while let Some(packet) = reader.next_packet() {
        let packet = packet.map_err(|e| damaged(packets.len(), &describe(&e)))?;
        packets.push(TracePacket { interface: None, frame: packet.data.into_owned() });
    }
    Ok(packets)
}

fn pcapng(content: impl Read) -> Result<Vec<TracePacket>, String> {
    let mut reader = PcapNgReader::new(content).map_err(|e| format!("not a pcapng file ({})", describe(&e)))?;
    let mut interfaces: Vec<Option<String>> = Vec::new();
    let mut packets = Vec::new();
    while let Some(block) = reader.next_block() {
        match block.map_err(|e| damaged(packets.len(), &describe(&e)))? {
            Block::SectionHeader(_) => interfaces.clear(),
            Block::InterfaceDescription(interface) => {
                ethernet(interface.linktype)?;
                interfaces.push(interface.options.iter().find_map(|option| match option {
                    pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption::IfName(name) => {
                        Some(name.to_string())
                    }
                    _ => None,
                }));
            }
            Block::EnhancedPacket(packet) => packets.push(TracePacket {
                interface: interfaces.get(packet.interface_id as usize).cloned().flatten(),
                frame: packet.data.into_owned(),
            }),
            Block::SimplePacket(packet) => packets.push(TracePacket {
                interface: interfaces.first().cloned().flatten(),
                frame: packet.data.into_owned(),
            }),
            _ => {}
        }
    }
    Ok(packets)
}

fn ethernet(link: DataLink) -> Result<(), String> {
    if link == DataLink::ETHERNET {
        return Ok(());
    }
    Err(format!("link type {}: only Ethernet (1) is supported", u32::from(link)))
}

fn damaged(packets: usize, why: &str) -> String {
    format!("damaged behind packet {packets}, or ends early ({why})")
}

//! Bytes to headers with named fields.

use std::ops::Range;

use baker::ir::interp::load_bits;
use baker::ir::{Field, Program, Protocol};

use crate::entries::value::address;

/// A header of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Index of its protocol in [`Program::protocols`].
    pub protocol: usize,
    /// Its bytes in the packet, with options.
    pub bytes: Range<usize>,
    /// The fields of its fixed header.
    pub fields: Vec<FieldValue>,
}

/// A field of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldValue {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: u128,
    /// Its value in the notation of its type, as packet text accepts it.
    pub shown: String,
}

/// What follows a header: protocol, field, value of the field, protocol that follows. The program's own demultiplexing
/// is code; these well-known numbers are enough to show packets to people. Protocols that the program lacks stay bytes.
const FOLLOWS: [(&str, &str, u128, &str); 9] = [
    ("ether", "type", 0x0800, "ipv4"),
    ("ether", "type", 0x0806, "arp"),
    ("ether", "type", 0x86dd, "ipv6"),
    ("ipv4", "protocol", 1, "icmp"),
    ("ipv4", "protocol", 6, "tcp"),
    ("ipv4", "protocol", 17, "udp"),
    ("ipv6", "next_header", 6, "tcp"),
    ("ipv6", "next_header", 17, "udp"),
    ("ipv6", "next_header", 58, "icmpv6"),
];

/// The headers of a received or sent frame, outermost first. What is not recognised, or too short, is no layer.
pub fn dissect(program: &Program, bytes: &[u8]) -> Vec<Layer> {
    let mut layers = Vec::new();
    let mut next = Some(program.channels[Program::RX.0 as usize].protocol.0 as usize);
    let mut start = 0;
    while let Some(index) = next {
        let protocol = &program.protocols[index];
        let Some(layer) = layer(protocol, index, bytes, start) else { break };
        start = layer.bytes.end;
        next = following(program, protocol, &layer.fields);
        layers.push(layer);
    }
    layers
}

fn layer(protocol: &Protocol, index: usize, bytes: &[u8], start: usize) -> Option<Layer> {
    let header = bytes.get(start..start + protocol.size as usize)?;
    let field = |field: &Field| {
        let value = load_bits(header, field.bits)?;
        Some(FieldValue { name: field.name.clone(), value, shown: shown(field, value) })
    };
    let fields = protocol.fields.iter().map(field).collect::<Option<Vec<_>>>()?;
    // The one variable length that must be known to find what follows.
    let ihl = fields.iter().find(|field| protocol.name == "ipv4" && field.name == "ihl");
    let length = ihl.map_or(0, |ihl| ihl.value as usize * 4).max(protocol.size as usize);
    (start + length <= bytes.len()).then(|| Layer { protocol: index, bytes: start..start + length, fields })
}

fn following(program: &Program, protocol: &Protocol, fields: &[FieldValue]) -> Option<usize> {
    let matches = |(this, name, value, _): &&(&str, &str, u128, &str)| {
        *this == protocol.name && fields.iter().any(|field| field.name == *name && field.value == *value)
    };
    // Only the first fragment holds the header that follows.
    if fields.iter().any(|field| field.name == "fragment_offset" && field.value != 0) {
        return None;
    }
    let (.., next) = FOLLOWS.iter().find(matches)?;
    program.protocols.iter().position(|protocol| protocol.name == *next)
}

/// A value of a field, in the notation of its type.
pub fn shown(field: &Field, value: u128) -> String {
    if let Some(address) = address(field.bits.width, &field.type_name, value) {
        return address;
    }
    match field.bits.width {
        16 if field.name.contains("type") || field.name.contains("checksum") => format!("0x{value:04x}"),
        _ => value.to_string(),
    }
}

//! Bytes to text: packets as they may be written in a case, hex dumps, and the differences of two packets.

use std::fmt::Write;

use baker::ir::Program;
use baker::ir::interp::{load_bits, store_bits};

use super::checksum::checksum;
use super::dissect::{Layer, dissect};

/// Bytes per line of a hex dump.
const PER_LINE: usize = 16;

/// The packet as text that [`super::build`] turns into the same bytes. Fields that have their default, and checksums
/// that are right, are left out.
pub fn text(program: &Program, bytes: &[u8]) -> String {
    let mut parts = Vec::new();
    let mut end = 0;
    for layer in dissect(program, bytes) {
        let protocol = &program.protocols[layer.protocol];
        let fixed = layer.bytes.start + protocol.size as usize;
        let right = has_right_checksum(program, &layer, bytes);
        let fields = layer.fields.iter().zip(&protocol.fields).enumerate().filter_map(|(index, (found, field))| {
            let implied = match protocol.header_checksum() {
                Some(checksum) if checksum == index => right,
                _ => found.value == field.default,
            };
            (!implied).then(|| format!("{}={}", found.name, found.shown))
        });
        let mut part = format!("{}({})", protocol.name, fields.collect::<Vec<_>>().join(", "));
        if fixed < layer.bytes.end {
            let _ = write!(part, "+hex({})", hex(&bytes[fixed..layer.bytes.end]));
        }
        parts.push(part);
        end = layer.bytes.end;
    }
    let rest = &bytes[end..];
    if rest.len() > 1 && rest.iter().all(|byte| *byte == 0) {
        parts.push(format!("zero({})", rest.len()));
    } else if !rest.is_empty() || parts.is_empty() {
        parts.push(format!("hex({})", hex(rest)));
    }
    parts.join("/")
}

/// Whether the checksum is the one that `build` computes.
fn has_right_checksum(program: &Program, layer: &Layer, bytes: &[u8]) -> bool {
    let protocol = &program.protocols[layer.protocol];
    let Some(field) = protocol.header_checksum().map(|index| &protocol.fields[index]) else { return false };
    let mut header = bytes[layer.bytes.clone()].to_vec();
    let found = load_bits(&header, field.bits);
    store_bits(&mut header, field.bits, 0);
    found == Some(checksum(&header).into())
}

/// The packet for people: one line per header with all its fields, then a hex dump.
pub fn describe(program: &Program, bytes: &[u8]) -> String {
    let mut out = String::new();
    let mut end = 0;
    for layer in dissect(program, bytes) {
        let fields: Vec<String> = layer.fields.iter().map(|field| format!("{} {}", field.name, field.shown)).collect();
        let protocol = &program.protocols[layer.protocol];
        let _ = write!(out, "{}: {}", protocol.name, fields.join(", "));
        let options = layer.bytes.len() - protocol.size as usize;
        let _ = if options > 0 { writeln!(out, ", {options} bytes of options") } else { writeln!(out) };
        end = layer.bytes.end;
    }
    let _ = writeln!(out, "{} bytes, {} after these headers", bytes.len(), bytes.len() - end);
    out + &hex_dump(bytes)
}

/// Lines of an offset and 16 bytes each.
pub fn hex_dump(bytes: &[u8]) -> String {
    let line = |(index, chunk): (usize, &[u8])| format!("{:04x}  {}\n", index * PER_LINE, hex(chunk));
    bytes.chunks(PER_LINE).enumerate().map(line).collect()
}

/// What differs between two packets: lengths, then fields by name, then the lines of the hex dumps that differ. Empty
/// where they are equal. Every line ends with a newline.
pub fn differences(program: &Program, expected: &[u8], found: &[u8]) -> String {
    let mut out = String::new();
    if expected == found {
        return out;
    }
    if expected.len() != found.len() {
        let _ = writeln!(out, "length: expected {}, found {}", expected.len(), found.len());
    }
    let (layers, others) = (dissect(program, expected), dissect(program, found));
    for (layer, other) in layers.iter().zip(&others) {
        let name = &program.protocols[layer.protocol].name;
        if layer.protocol != other.protocol {
            let _ = writeln!(out, "header: expected {name}, found {}", program.protocols[other.protocol].name);
            break;
        }
        for (field, other) in layer.fields.iter().zip(&other.fields) {
            if field != other {
                let _ = writeln!(out, "{name}.{}: expected {}, found {}", field.name, field.shown, other.shown);
            }
        }
    }
    let lines = expected.len().max(found.len()).div_ceil(PER_LINE);
    for line in 0..lines {
        let part = |bytes: &[u8]| bytes.chunks(PER_LINE).nth(line).unwrap_or(&[]).to_vec();
        let (expected, found) = (part(expected), part(found));
        if expected != found {
            let _ = writeln!(out, "{:04x}  expected  {}", line * PER_LINE, hex(&expected));
            let _ = writeln!(out, "      found     {}", hex(&found));
            let mark = |index| if expected.get(index) == found.get(index) { "   " } else { "^^ " };
            let marks: String = (0..expected.len().max(found.len())).map(mark).collect();
            let _ = writeln!(out, "                {}", marks.trim_end());
        }
    }
    out
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

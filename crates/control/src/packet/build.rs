//! Packet text to bytes.

use baker::ir::arith::mask;
use baker::ir::interp::store_bits;
use baker::ir::{Field, Program, Protocol};

use super::checksum::checksum;
use super::cursor::Cursor;
use super::written::{Definitions, MAX_PACKET, PacketError};
use crate::entries::value::literal;
use crate::messages::{did_you_mean, list};

/// Layers that are no protocol.
const BUILTIN: [&str; 4] = ["hex", "text", "zero", "pad"];
/// Definitions that lead to each other at most.
const MAX_DEPTH: usize = 16;

/// The bytes that a packet's text stands for.
pub fn build(program: &Program, text: &str, definitions: &Definitions) -> Result<Vec<u8>, PacketError> {
    let mut builder = Builder { program, definitions, bytes: Vec::new(), header: None };
    builder.layers(text, 0)?;
    builder.end_header();
    Ok(builder.bytes)
}

/// A header whose bytes may still grow by `+`.
struct Header<'p> {
    start: usize,
    protocol: &'p Protocol,
    /// Whether the text gives the checksum.
    checksum_given: bool,
}

struct Builder<'p> {
    program: &'p Program,
    definitions: &'p Definitions,
    bytes: Vec<u8>,
    header: Option<Header<'p>>,
}

impl<'p> Builder<'p> {
    fn layers(&mut self, text: &str, depth: usize) -> Result<(), PacketError> {
        let mut cursor = Cursor::new(text);
        loop {
            let at = cursor.at();
            self.layer(&mut cursor, depth)?;
            if self.bytes.len() > MAX_PACKET {
                return Err(cursor.error(at, format!("the packet is longer than {MAX_PACKET} bytes")));
            }
            if cursor.take('+') {
                if self.header.is_none() {
                    let at = cursor.at();
                    return Err(cursor.error(at, "there is no header that these bytes could be added to"));
                }
            } else if cursor.take('/') {
                self.end_header();
            } else if let Some(other) = cursor.peek() {
                let at = cursor.at();
                return Err(cursor.error(at, format!("expected `/` or `+` and a layer, or the end, found `{other}`")));
            } else {
                return Ok(());
            }
        }
    }

    fn layer(&mut self, cursor: &mut Cursor, depth: usize) -> Result<(), PacketError> {
        let at = cursor.at();
        let name = cursor.name();
        let protocol = self.program.protocols.iter().find(|protocol| protocol.name == name);
        if let Some(definition) = self.definitions.get(name).filter(|_| cursor.peek() != Some('(')) {
            if depth == MAX_DEPTH {
                return Err(cursor.error(at, format!("definitions lead to each other more than {MAX_DEPTH} times")));
            }
            let inside = |error: PacketError| cursor.error(at, format!("in definition {name}, {error}"));
            self.layers(definition, depth + 1).map_err(inside)
        } else if let Some(protocol) = protocol {
            self.end_header();
            self.protocol(protocol, cursor)
        } else if BUILTIN.contains(&name) {
            cursor.expect('(', &format!("after {name}"))?;
            let added = self.plain(name, cursor)?;
            self.bytes.extend(added);
            cursor.expect(')', &format!("at the end of {name}(…)"))
        } else if name.is_empty() {
            let found = cursor.peek().map_or("the end".into(), |c| format!("`{c}`"));
            Err(cursor.error(at, format!("expected a layer, found {found}; {}", self.known("use one of"))))
        } else {
            let protocols = self.program.protocols.iter().map(|p| p.name.as_str());
            let names = protocols.chain(BUILTIN).chain(self.definitions.keys().map(String::as_str));
            let hint = did_you_mean(name, names);
            Err(cursor.error(at, format!("there is no layer `{name}`{hint}; {}", self.known("there are"))))
        }
    }

    fn known(&self, lead: &str) -> String {
        let names = self.program.protocols.iter().map(|p| p.name.as_str()).chain(BUILTIN);
        format!("{lead} {}", list(names.chain(self.definitions.keys().map(String::as_str))))
    }

    /// Bytes without fields.
    fn plain(&self, name: &str, cursor: &mut Cursor) -> Result<Vec<u8>, PacketError> {
        match name {
            "hex" => hex(cursor),
            "text" => quoted(cursor),
            _ => {
                let at = cursor.at();
                let digits = cursor.until(&[')', ',']);
                let number = digits.parse::<usize>().ok().filter(|number| *number <= MAX_PACKET).ok_or_else(|| {
                    cursor.error(at, format!("{digits:?} is not a number of bytes from 0 to {MAX_PACKET}"))
                })?;
                let zeros = if name == "pad" { number.checked_sub(self.bytes.len()) } else { Some(number) };
                let too_long = || format!("the packet has {} bytes already", self.bytes.len());
                Ok(vec![0; zeros.ok_or_else(|| cursor.error(at, too_long()))?])
            }
        }
    }

    fn protocol(&mut self, protocol: &'p Protocol, cursor: &mut Cursor) -> Result<(), PacketError> {
        let start = self.bytes.len();
        let mut header = vec![0; protocol.size as usize];
        let mut set = |field: &Field, value| {
            store_bits(&mut header, field.bits, value).expect("a field lies in its header");
        };
        for field in &protocol.fields {
            set(field, field.default);
        }
        let mut given: Vec<usize> = Vec::new();
        if cursor.take('(') && !cursor.take(')') {
            loop {
                let at = cursor.at();
                let name = cursor.name();
                let Some(index) = protocol.fields.iter().position(|field| field.name == name) else {
                    let fields = || protocol.fields.iter().map(|field| field.name.as_str());
                    let hint = did_you_mean(name, fields());
                    let problem = format!("{} has no field `{name}`{hint}; it has {}", protocol.name, list(fields()));
                    return Err(cursor.error(at, problem));
                };
                if given.contains(&index) {
                    return Err(cursor.error(at, format!("`{name}` is given twice")));
                }
                given.push(index);
                cursor.expect('=', &format!("after {}.{name}", protocol.name))?;
                let at = cursor.at();
                let text = cursor.until(&[',', ')', '(', '/', '=']);
                let field = &protocol.fields[index];
                set(field, self.value(field, text).map_err(|problem| cursor.error(at, problem))?);
                if !cursor.take(',') {
                    cursor.expect(')', &format!("or `,` after {}.{name}", protocol.name))?;
                    break;
                }
            }
        }
        self.bytes.extend(header);
        let checksum_given = protocol.header_checksum().is_some_and(|field| given.contains(&field));
        self.header = Some(Header { start, protocol, checksum_given });
        Ok(())
    }

    fn value(&self, field: &Field, text: &str) -> Result<u128, String> {
        let (mut text, mut depth) = (text, 0);
        while let Some(definition) = self.definitions.get(text) {
            text = definition.trim();
            depth += 1;
            if depth > MAX_DEPTH {
                return Err(format!("definitions lead to each other more than {MAX_DEPTH} times"));
            }
        }
        let most = mask(field.bits.width);
        let value = literal(field.bits.width, text).filter(|(negative, value)| !negative && *value <= most);
        value.map(|(_, value)| value).ok_or_else(|| {
            let address = match field.bits.width {
                48 => ", or an Ethernet address such as 02:00:00:00:00:01",
                32 => ", or an IPv4 address such as 10.0.0.1",
                128 => ", or an IPv6 address such as 2001:db8::1",
                _ => "",
            };
            let hint = did_you_mean(text, self.definitions.keys().map(String::as_str));
            format!("{text:?} is no value for `{}`{hint}; use a number from 0 to {most}{address}", field.name)
        })
    }

    /// Computes the checksum of the header that ends here.
    fn end_header(&mut self) {
        let Some(Header { start, protocol, checksum_given: false }) = self.header.take() else { return };
        let Some(field) = protocol.header_checksum().map(|index| &protocol.fields[index]) else { return };
        let header = &mut self.bytes[start..];
        store_bits(header, field.bits, 0).expect("a field lies in its header");
        let sum = checksum(header);
        store_bits(header, field.bits, sum.into()).expect("a field lies in its header");
    }
}

/// Pairs of hexadecimal digits, with or without blanks between.
fn hex(cursor: &mut Cursor) -> Result<Vec<u8>, PacketError> {
    let mut bytes = Vec::new();
    while !matches!(cursor.peek(), Some(')') | None) {
        let at = cursor.at();
        let pair = [cursor.next(), cursor.next()].map(|c| c.and_then(|c| c.to_digit(16)));
        let [Some(high), Some(low)] = pair else {
            return Err(cursor.error(at, "expected two hexadecimal digits for each byte"));
        };
        bytes.push((high << 4 | low) as u8);
    }
    Ok(bytes)
}

/// Text in double quotes, with the escapes `\n`, `\r`, `\t`, `\\`, `\"` and `\xNN`.
fn quoted(cursor: &mut Cursor) -> Result<Vec<u8>, PacketError> {
    let start = cursor.at();
    cursor.expect('"', "before the text")?;
    let mut bytes = Vec::new();
    loop {
        match cursor.next() {
            Some('"') => return Ok(bytes),
            Some('\\') => bytes.push(match cursor.next() {
                Some('n') => b'\n',
                Some('r') => b'\r',
                Some('t') => b'\t',
                Some('\\') => b'\\',
                Some('"') => b'"',
                Some('x') => match [cursor.next(), cursor.next()].map(|c| c.and_then(|c| c.to_digit(16))) {
                    [Some(high), Some(low)] => (high << 4 | low) as u8,
                    _ => return Err(cursor.error(start, "expected two hexadecimal digits after `\\x` in the text")),
                },
                _ => return Err(cursor.error(start, "unknown escape in the text: use \\n \\r \\t \\\\ \\\" or \\xNN")),
            }),
            Some(c) => bytes.extend(c.encode_utf8(&mut [0; 4]).bytes()),
            None => return Err(cursor.error(start, "the text has no closing `\"`")),
        }
    }
}

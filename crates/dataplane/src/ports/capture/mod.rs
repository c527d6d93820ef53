//! Capture files, pcap or pcapng by what they hold and not by their names, packet by packet.
//!
//! What is damaged, or was not captured whole, is passed over and told (see [`Skipped`]), and the packets behind it are
//! read: the last record of a file is often incomplete, because its writer was killed. `pcap-file`, by which such
//! files are written, stops at the first fault.
//!
//! | file | idea |
//! |---|---|
//! | `window` | the bytes ahead in a file of any length |
//! | `record` | what a format finds |
//! | `pcap`, `pcapng` | the records of each format, and where the next one begins behind damage |
//! | `skipped` | what was passed over |

mod pcap;
mod pcapng;
mod record;
mod skipped;
#[cfg(test)]
mod tests;
mod window;

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::ports::error::PortError;
use record::{ETHERNET, Found, Trouble};
use skipped::Skipped;
use window::Window;

/// A packet of a capture file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured<'f> {
    /// When it was captured, since 1970. Where the file does not say, as the packet before it.
    pub time: Duration,
    /// Number of the interface that it was captured at, from 0 in each section of a pcapng file.
    pub number: Option<u32>,
    /// Name of that interface, where the file tells.
    pub interface: Option<Arc<str>>,
    /// The file says that the interface sent it, and did not receive it.
    pub outgoing: bool,
    /// Its bytes, all of them.
    pub frame: &'f [u8],
}

enum Format {
    Pcap(pcap::Records),
    PcapNg(pcapng::Blocks),
}

/// A capture file that is read from.
pub struct CaptureInput {
    name: String,
    window: Window<Box<dyn Read + Send>>,
    format: Format,
    skipped: Skipped,
    /// Bytes of the record that was given out last.
    last: usize,
    /// Packets given out.
    packets: u64,
    done: bool,
}

impl CaptureInput {
    /// Opens a file and looks at what it is.
    pub fn open(path: &Path) -> Result<Self, PortError> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| PortError(format!("{name}: cannot be opened: {error}")))?;
        Self::new(name, Box::new(file))
    }

    /// As [`CaptureInput::open`], of a file's content; `name` is for messages.
    pub fn of(name: &str, content: Vec<u8>) -> Result<Self, PortError> {
        Self::new(name.to_owned(), Box::new(Cursor::new(content)))
    }

    fn new(name: String, file: Box<dyn Read + Send>) -> Result<Self, PortError> {
        let mut window = Window::new(file);
        let format = (|| -> Result<Format, String> {
            let read = |error: io::Error| format!("cannot be read: {error}");
            let head = window.peek(pcapng::MAGIC.len()).map_err(read)?;
            if head.starts_with(&pcapng::MAGIC) {
                return Ok(Format::PcapNg(
                    pcapng::Blocks::open(&mut window)
                        .map_err(read)?
                        .ok_or("not a pcapng file: its first block is damaged")?,
                ));
            }
            let head = window.peek(pcap::HEADER).map_err(read)?;
            let (records, link) = pcap::Records::of(head)
                .ok_or_else(|| format!("neither a pcap nor a pcapng file: {}", beginning(head)))?;
            if link != ETHERNET {
                return Err(other_link(link));
            }
            window.skip(pcap::HEADER);
            Ok(Format::Pcap(records))
        })();
        let format = format.map_err(|what| PortError(format!("{name}: {what}")))?;
        Ok(CaptureInput { name, window, format, skipped: Skipped::default(), last: 0, packets: 0, done: false })
    }

    /// The next packet; `None` at the end of the file. After an error there is no next packet. A file of which no
    /// packet can be used, though there are some, is an error.
    pub fn next_packet(&mut self) -> Option<Result<Captured<'_>, PortError>> {
        if self.done {
            return None;
        }
        self.window.skip(std::mem::take(&mut self.last));
        loop {
            let found = match &mut self.format {
                Format::Pcap(records) => records.next(&mut self.window, &mut self.skipped),
                Format::PcapNg(blocks) => blocks.next(&mut self.window, &mut self.skipped),
            };
            match found {
                Ok(Found::Packet { bytes, record, time, number, interface, outgoing }) => {
                    (self.packets, self.last) = (self.packets + 1, record);
                    let frame = &self.window.bytes()[bytes];
                    return Some(Ok(Captured { time, number, interface, outgoing, frame }));
                }
                Ok(Found::Other) => {}
                Ok(Found::End) => {
                    self.done = true;
                    let unusable = self.packets == 0 && !self.skipped.is_nothing();
                    return unusable
                        .then(|| Err(self.error(&format!("no packet of it can be used: {}", self.skipped))));
                }
                Err(trouble) => {
                    self.done = true;
                    return Some(Err(match trouble {
                        Trouble::Read(error) => self.error(&format!("cannot be read: {error}")),
                        Trouble::Link(link) => self.error(&other_link(link)),
                    }));
                }
            }
        }
    }

    /// What was passed over so far, in one line that begins with the file's name; `None`: nothing.
    pub fn skipped(&self) -> Option<String> {
        (!self.skipped.is_nothing()).then(|| format!("{}: {}", self.name, self.skipped))
    }

    fn error(&self, what: &str) -> PortError {
        PortError(format!("{}: {what}", self.name))
    }
}

/// What a file that is no capture begins with.
fn beginning(head: &[u8]) -> String {
    let known = pcap::Records::knows(head);
    match head.len() {
        0 => "it is empty".into(),
        len if len < pcap::HEADER && known => format!("its header has {len} of {} bytes", pcap::HEADER),
        _ => {
            let bytes: Vec<String> = head.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
            format!("it begins with {}", bytes.join(" "))
        }
    }
}

fn other_link(link: u32) -> String {
    format!("link type {link}: only Ethernet ({ETHERNET}) is supported")
}

/// A frame of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracePacket {
    /// See [`Captured::number`].
    pub number: Option<u32>,
    /// See [`Captured::interface`].
    pub interface: Option<Arc<str>>,
    /// See [`Captured::outgoing`].
    pub outgoing: bool,
    /// Its bytes.
    pub frame: Vec<u8>,
}

/// A whole capture file, read at once: packets that programs are tried with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Its packets.
    pub packets: Vec<TracePacket>,
    /// See [`CaptureInput::skipped`].
    pub skipped: Option<String>,
}

/// Reads a capture file's content. `name` is for messages.
pub fn read_trace(name: &str, content: &[u8]) -> Result<Trace, PortError> {
    let mut input = CaptureInput::of(name, content.to_vec())?;
    let mut packets = Vec::new();
    while let Some(packet) = input.next_packet() {
        let Captured { number, interface, outgoing, frame, .. } = packet?;
        packets.push(TracePacket { number, interface, outgoing, frame: frame.to_vec() });
    }
    if packets.is_empty() {
        return Err(PortError(format!("{name}: holds no packet")));
    }
    Ok(Trace { packets, skipped: input.skipped() })
}

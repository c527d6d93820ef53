//! What leaves a program as capture files: one of all packets, and one for each port.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use pcap_file::{DataLink, Endianness, PcapError};

use crate::ports::{PcapOutput, PortError};

/// Resolution of times: ten to the power of minus nine seconds.
const NANOSECONDS: u8 = 9;
/// In a packet's flags: the interface has sent it.
const SENT: u32 = 2;

/// Where what leaves is written.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReplayOutputs<'o> {
    /// A file of all packets, in order: pcapng with an interface for each port where its name ends in `.pcapng`, else
    /// pcap.
    pub file: Option<&'o Path>,
    /// A directory for a pcap file of each port, with the port's name. It is made where there is none.
    pub directory: Option<&'o Path>,
    /// Numbers and names of the ports. Each has its interface or file, whether packets leave by it or not.
    pub ports: &'o [(u8, String)],
}

/// Where a packet leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// By a port.
    Port(u8),
    /// To the host.
    Host,
    /// To the controller of this name.
    Controller(String),
}

impl End {
    fn name(&self, ports: &[(u8, String)]) -> String {
        match self {
            End::Port(number) => {
                let known = ports.iter().find(|(known, _)| known == number);
                known.map_or_else(|| format!("port {number}"), |(_, name)| name.clone())
            }
            End::Host => "host".into(),
            End::Controller(name) => format!("controller {name}"),
        }
    }
}

/// The files that are written to.
pub(super) struct Outputs {
    pcap: Option<PcapOutput>,
    pcapng: Option<PcapNg>,
    directory: Option<(PathBuf, Vec<(String, PcapOutput)>)>,
    /// Ends with the names of their interfaces and files.
    ends: Vec<(End, String)>,
    ports: Vec<(u8, String)>,
}

impl Outputs {
    /// Makes them.
    pub fn create(to: ReplayOutputs) -> Result<Self, PortError> {
        let is_pcapng = |path: &&Path| path.extension().is_some_and(|end| end.eq_ignore_ascii_case("pcapng"));
        let mut outputs = Outputs {
            pcap: to.file.filter(|path| !is_pcapng(path)).map(PcapOutput::create).transpose()?,
            pcapng: to.file.filter(is_pcapng).map(PcapNg::create).transpose()?,
            directory: None,
            ends: Vec::new(),
            ports: to.ports.to_vec(),
        };
        if let Some(directory) = to.directory {
            std::fs::create_dir_all(directory)
                .map_err(|error| PortError(format!("{}: cannot be made: {error}", directory.display())))?;
            outputs.directory = Some((directory.to_owned(), Vec::new()));
        }
        for (number, _) in to.ports {
            outputs.index(&End::Port(*number))?;
        }
        Ok(outputs)
    }

    /// Whether anything is written.
    pub fn are_any(&self) -> bool {
        self.pcap.is_some() || self.pcapng.is_some() || self.directory.is_some()
    }

    /// Writes a packet that leaves.
    pub fn write(&mut self, end: &End, time: Duration, packet: &[u8]) -> Result<(), PortError> {
        let index = self.index(end)?;
        if let Some(pcap) = &mut self.pcap {
            pcap.write(time, packet)?;
        }
        if let Some(pcapng) = &mut self.pcapng {
            pcapng.write(index as u32, time, packet)?;
        }
        if let Some((_, files)) = &mut self.directory {
            files[index].1.write(time, packet)?;
        }
        Ok(())
    }

    /// Number of an end's interface and file, which are made where there are none.
    fn index(&mut self, end: &End) -> Result<usize, PortError> {
        if let Some(index) = self.ends.iter().position(|(known, _)| known == end) {
            return Ok(index);
        }
        let mut name = end.name(&self.ports);
        // A port may be called `host`.
        while self.ends.iter().any(|(_, known)| *known == name) {
            name += "'";
        }
        if let Some(pcapng) = &mut self.pcapng {
            pcapng.interface(&name)?;
        }
        if let Some((directory, files)) = &mut self.directory {
            let file = directory.join(format!("{}.pcap", name.replace('/', "_")));
            files.push((name.clone(), PcapOutput::create(&file)?));
        }
        self.ends.push((end.clone(), name));
        Ok(self.ends.len() - 1)
    }

    /// Writes out what is buffered.
    pub fn finish(self) -> Result<(), PortError> {
        self.pcap.map_or(Ok(()), PcapOutput::finish)?;
        self.pcapng.map_or(Ok(()), PcapNg::finish)?;
        let files = self.directory.into_iter().flat_map(|(_, files)| files);
        files.into_iter().try_for_each(|(_, file)| file.finish())
    }
}

/// A pcapng file (draft-ietf-opsawg-pcapng).
struct PcapNg {
    path: PathBuf,
    writer: PcapNgWriter<BufWriter<File>>,
}

impl PcapNg {
    fn create(path: &Path) -> Result<Self, PortError> {
        let failed =
            |error: &dyn std::fmt::Display| PortError(format!("{}: cannot be written: {error}", path.display()));
        let file = File::create(path).map_err(|error| failed(&error))?;
        let file = BufWriter::with_capacity(1 << 16, file);
        let writer =
            PcapNgWriter::with_endianness(file, Endianness::native()).map_err(|error| failed(&cause(&error)))?;
        Ok(PcapNg { path: path.to_owned(), writer })
    }

    fn failed(&self, error: &PcapError) -> PortError {
        PortError(format!("{}: cannot be written: {}", self.path.display(), cause(error)))
    }

    /// Adds an interface; they are numbered from 0.
    fn interface(&mut self, name: &str) -> Result<(), PortError> {
        let name = InterfaceDescriptionOption::IfName(Cow::Borrowed(name));
        let options = vec![name, InterfaceDescriptionOption::IfTsResol(NANOSECONDS)];
        let block = InterfaceDescriptionBlock { linktype: DataLink::ETHERNET, snaplen: 0, options };
        self.writer.write_pcapng_block(block).map(drop).map_err(|error| self.failed(&error))
    }

    fn write(&mut self, interface: u32, time: Duration, packet: &[u8]) -> Result<(), PortError> {
        let block = EnhancedPacketBlock {
            interface_id: interface,
            timestamp: time,
            original_len: packet.len() as u32,
            data: Cow::Borrowed(packet),
            options: vec![EnhancedPacketOption::Flags(SENT)],
        };
        self.writer.write_pcapng_block(block).map(drop).map_err(|error| self.failed(&error))
    }

    fn finish(mut self) -> Result<(), PortError> {
        let flushed = self.writer.get_mut().flush();
        flushed.map_err(|error| self.failed(&PcapError::IoError(error)))
    }
}

/// An error of the library in a line, with the cause that its own text leaves out.
fn cause(error: &PcapError) -> String {
    match error {
        PcapError::IoError(error) => error.to_string(),
        other => other.to_string(),
    }
}

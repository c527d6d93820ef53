//! What leaves a program as capture files: one of all packets, and one for each port.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::ports::{PcapOutput, PcapngOutput, PcapngPacket, PortError};

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
    pcapng: Option<PcapngOutput>,
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
            pcapng: to.file.filter(is_pcapng).map(PcapngOutput::create).transpose()?,
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
            let (interface, length) = (index as u32, packet.len() as u32);
            let sent = PcapngPacket { interface, time, is_sent: true, length, bytes: packet, comment: None };
            pcapng.write(&sent)?;
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
        self.pcapng.map_or(Ok(()), PcapngOutput::finish)?;
        let files = self.directory.into_iter().flat_map(|(_, files)| files);
        files.into_iter().try_for_each(|(_, file)| file.finish())
    }
}

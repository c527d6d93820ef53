//! The programs at the receivers' ends, which count what comes: `sink.bpf.c` of each measurement.

use std::os::fd::{AsFd, AsRawFd};

use aya::Ebpf;
use aya::maps::{Array, Map};
use aya::programs::{SchedClassifier, TcAttachType};
use lab::Namespace;

use crate::text;

/// In the map, behind the receivers' counts: all packets, and those that were not as they must be.
pub const ALL: u32 = 4096;

/// Of one measurement.
pub struct Sinks(Ebpf);

impl Sinks {
    /// The program of an object, at devices of a namespace.
    pub fn attach(object: &[u8], namespace: &Namespace, devices: &[String]) -> Result<Sinks, String> {
        let mut sinks = Ebpf::load(object).map_err(text)?;
        let program: &mut SchedClassifier = sinks.program_mut("sink").ok_or("no sink")?.try_into().map_err(text)?;
        program.load().map_err(text)?;
        for device in devices {
            let attach = || program.attach(device, TcAttachType::Ingress).map(drop).map_err(text);
            namespace.enter(attach).map_err(text)??;
        }
        Ok(Sinks(sinks))
    }

    /// The descriptor of the map, which these own.
    pub fn descriptor(&self) -> Result<i32, String> {
        match self.0.map("counts") {
            Some(Map::Array(map)) => Ok(map.fd().as_fd().as_raw_fd()),
            _ => Err("the sinks have no counts".into()),
        }
    }

    /// Packets of each receiver, by its place in the map, and those that were not as they must be.
    pub fn counted(&self, places: impl Iterator<Item = u32>) -> Result<(Vec<u64>, u64), String> {
        let counts = Array::<_, u64>::try_from(self.0.map("counts").ok_or("no counts")?).map_err(text)?;
        let at = |index: u32| counts.get(&index, 0).map_err(text);
        Ok((places.map(at).collect::<Result<_, _>>()?, at(ALL + 1)?))
    }
}

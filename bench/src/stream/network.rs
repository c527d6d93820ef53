//! The source of a stream, a box, and receivers behind its devices.
//!
//! ```text
//! source eth0 ── in ┤ box ├ out0 ── in0 ┤ receivers 10.1.0.2 … 10.1.0.64
//!                         ├ out1 ── in1 ┤ receivers 10.1.1.2 …
//! ```

use std::time::Duration;

use lab::{LinkConfig, Mac, Namespace, veth};

use super::sinks::{ALL, Sinks};
use crate::text;

/// Most receivers of a device.
const EACH: usize = 63;
/// Devices where there are many receivers.
const DEVICES: usize = 16;
const PATIENCE: Duration = Duration::from_secs(5);
/// Of UDP, everywhere.
pub const PORT: u16 = 5004;
pub const SOURCE: [u8; 4] = [10, 0, 0, 1];
pub const BOX: [u8; 4] = [10, 0, 0, 2];
const BOX_MAC: Mac = [2, 0, 0, 0, 0, 1];

/// The programs at the receivers' ends.
pub const SINK: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/stream-sink.bpf.o"));

/// A receiver of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receiver {
    /// Which device leads there, from 0 on.
    pub device: u8,
    /// Its host in the device's network.
    pub host: u8,
}

impl Receiver {
    pub fn address(self) -> [u8; 4] {
        [10, 1, self.device, self.host]
    }

    pub fn mac(self) -> Mac {
        [2, 0, 0, 1, self.device, self.host]
    }

    /// The box's address in its network.
    pub fn gateway(self) -> [u8; 4] {
        [10, 1, self.device, 1]
    }

    pub fn gateway_mac(self) -> Mac {
        [2, 0, 0, 2, self.device, 1]
    }
}

/// What the box's devices to the receivers do with super-packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// They take packets: the kernel divides, and computes checksums.
    Packets,
    /// They hand them on undivided, as a network card divides them.
    SuperPackets,
}

/// All of it.
pub struct Network {
    pub source: Namespace,
    /// Where the system under test runs.
    pub system: Namespace,
    pub sink: Namespace,
    pub receivers: Vec<Receiver>,
    sinks: Sinks,
}

impl Network {
    /// With so many receivers. The box's devices have addresses, and its kernel knows the receivers, where the system
    /// is one that uses it.
    pub fn new(receivers: usize, by_kernel: bool, links: Links) -> Result<Self, String> {
        let namespace = |label| Namespace::new(label).map_err(text);
        let (source, system, sink) = (namespace("source")?, namespace("system")?, namespace("sink")?);
        let devices = match receivers {
            0..=EACH => 1,
            _ if receivers <= 2 * EACH => 2,
            _ => DEVICES,
        };
        let each = receivers.div_ceil(devices);
        let receiver = |number| Receiver { device: (number / each) as u8, host: (number % each + 2) as u8 };
        let receivers: Vec<Receiver> = (0..receivers).map(receiver).collect();
        let config = |mac: Mac, address: [u8; 4]| match by_kernel {
            true => LinkConfig::host().mac(mac).address(format!("{}/24", std::net::Ipv4Addr::from(address))),
            false => LinkConfig::port().mac(mac),
        };
        veth(&source, "eth0", &system, "in").map_err(text)?;
        source.configure("eth0", &LinkConfig::port()).map_err(text)?;
        system.configure("in", &config(BOX_MAC, BOX)).map_err(text)?;
        for device in 0..devices {
            let (out, end) = (format!("out{device}"), format!("in{device}"));
            veth(&system, &out, &sink, &end).map_err(text)?;
            let first = Receiver { device: device as u8, host: 2 };
            system.configure(&out, &config(first.gateway_mac(), first.gateway())).map_err(text)?;
            sink.configure(&end, &LinkConfig::port()).map_err(text)?;
            if links == Links::SuperPackets {
                let words = ["ethtool", "-K", &out, "tx", "on", "sg", "on", "gso", "on", "tx-udp-segmentation", "on"];
                system.check(&words).map_err(text)?;
            }
        }
        if by_kernel {
            let neighbour = |to: &Receiver| {
                let (address, mac) = (std::net::Ipv4Addr::from(to.address()), lab::mac_text(to.mac()));
                format!("neighbour replace {address} lladdr {mac} dev out{} nud permanent\n", to.device)
            };
            let batch: String = receivers.iter().map(neighbour).collect();
            system.command("ip").args(["-batch", "-"]).input(batch).check().map_err(text)?;
        }
        let ends: Vec<String> = (0..devices).map(|device| format!("in{device}")).collect();
        source.wait_running("eth0", PATIENCE).map_err(text)?;
        for end in &ends {
            sink.wait_running(end, PATIENCE).map_err(text)?;
        }
        let sinks = Sinks::attach(SINK, &sink, &ends)?;
        Ok(Network { source, system, sink, receivers, sinks })
    }

    /// The devices of the box that lead to receivers.
    pub fn outputs(&self) -> Vec<String> {
        self.devices().map(|device| format!("out{device}")).collect()
    }

    /// Those at the receivers' ends.
    pub fn ends(&self) -> Vec<String> {
        self.devices().map(|device| format!("in{device}")).collect()
    }

    fn devices(&self) -> std::ops::RangeInclusive<u8> {
        0..=self.receivers.last().map_or(0, |last| last.device)
    }

    /// The descriptor of the sinks' map, which is the network's.
    pub fn counts(&self) -> Result<i32, String> {
        self.sinks.descriptor()
    }

    /// What the sinks have counted: packets of each receiver, and those that were not as they must be.
    pub fn counted(&self) -> Result<(Vec<u64>, u64), String> {
        self.sinks.counted(self.receivers.iter().map(|to| u32::from_be_bytes(to.address()) & (ALL - 1)))
    }
}

//! A model of a host-based router: packets between interfaces on one bus, through host memory or past it.
//!
//! A packet of `L` bytes keeps CPU and bus busy one after the other, because a driver starts a transfer and goes on
//! when it is told that it is done:
//!
//! | access | transfers | CPU |
//! |---|---|---|
//! | copy | `L` into host memory, `L` out of it | `per_packet` |
//! | in-place | `L` from interface to interface | `per_packet`, and the header word by word over the bus |
//! | header-copy | the header into host memory and back, `L` from interface to interface | `per_packet` |
//!
//! `n` bytes take `n / width + overhead * ceil(n / burst)` cycles of the bus. The packets per second are one over the
//! sum. While a transfer lasts the CPU waits for a share of it, which counts as load: it cannot do anything else then,
//! and the publication's measurement counts it, too.

use serde::Deserialize;

use crate::platform::{Parameter, PlatformError, Rule, check, read};

/// How the CPU gets at packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Through host memory.
    Copy,
    /// Headers are read and written in the interface's memory.
    InPlace,
    /// Headers are copied into host memory and back.
    HeaderCopy,
}

impl Access {
    /// All of them.
    pub const ALL: [Access; 3] = [Access::Copy, Access::InPlace, Access::HeaderCopy];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Access::Copy => "copy",
            Access::InPlace => "in-place",
            Access::HeaderCopy => "header-copy",
        }
    }
}

/// The bus.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bus {
    /// Clock, in hertz.
    pub clock_hz: Parameter,
    /// Bytes per cycle.
    pub width: Parameter,
    /// Bytes of one burst at most.
    pub burst: Parameter,
    /// Cycles of a burst without data.
    pub overhead: Parameter,
    /// Cycles of a read of one word by the CPU.
    pub read: Parameter,
    /// Cycles of a write of one word by the CPU.
    pub write: Parameter,
}

/// The CPU.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cpu {
    /// Seconds per packet, whatever its length.
    pub per_packet: Parameter,
    /// Share of transfers to and from host memory for which it waits.
    pub waits_for_host_memory: Parameter,
    /// Share of transfers between interfaces for which it waits.
    pub waits_for_peers: Parameter,
}

/// What is touched of headers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Bytes that are copied, each way.
    pub copied: Parameter,
    /// Bytes that are read in place.
    pub read: Parameter,
    /// Bytes that are written in place.
    pub written: Parameter,
}

/// What a published point is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// Mbit/s.
    Throughput,
    /// Percent more than with [`Access::Copy`].
    Gain,
    /// Packets per second.
    Packets,
    /// Percent of the CPU's time.
    Cpu,
}

impl What {
    /// What and in which unit.
    pub fn title(self) -> &'static str {
        match self {
            What::Throughput => "Mbit/s",
            What::Gain => "% over copy",
            What::Packets => "packets/s",
            What::Cpu => "% of the CPU",
        }
    }
}

/// A published point, or the bounds of one.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// What it is about.
    pub what: What,
    /// With which access.
    pub access: Access,
    /// Bytes of packets.
    pub bytes: u32,
    /// The least value.
    pub least: f64,
    /// The greatest.
    pub most: f64,
    /// How far from these the model may be: a share of them, of a gain percentage points.
    pub tolerance: f64,
    /// Where it is published.
    pub source: String,
}

/// A router.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostBus {
    /// Its name on the command line.
    pub name: String,
    /// Its name for people.
    pub title: String,
    /// The bus.
    pub bus: Bus,
    /// The CPU.
    pub cpu: Cpu,
    /// Headers.
    pub header: Header,
    /// What was measured on it.
    pub published: Vec<Published>,
}

/// What the router does with packets of one length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Packets per second.
    pub packets: f64,
    /// Bits per second.
    pub bits: f64,
    /// Share of the CPU's time.
    pub cpu: f64,
    /// Share of the bus's time.
    pub bus: f64,
    /// Bytes over the bus per packet.
    pub crossing: f64,
}

impl HostBus {
    /// Reads a platform file; `file` is its name in messages.
    pub fn parse(file: &str, text: &str) -> Result<HostBus, PlatformError> {
        let platform: HostBus = read(file, text)?;
        check(file, text, platform.rules())?;
        Ok(platform)
    }

    fn rules(&self) -> Vec<Rule<'_>> {
        let HostBus { bus, cpu, header, .. } = self;
        vec![
            ("bus.clock_hz".into(), &bus.clock_hz, 1e6, 1e10, false),
            ("bus.width".into(), &bus.width, 1.0, 64.0, true),
            ("bus.burst".into(), &bus.burst, bus.width.get(), 65536.0, true),
            ("bus.overhead".into(), &bus.overhead, 0.0, 1000.0, true),
            ("bus.read".into(), &bus.read, 0.0, 1000.0, true),
            ("bus.write".into(), &bus.write, 0.0, 1000.0, true),
            ("cpu.per_packet".into(), &cpu.per_packet, 1e-9, 1.0, false),
            ("cpu.waits_for_host_memory".into(), &cpu.waits_for_host_memory, 0.0, 1.0, false),
            ("cpu.waits_for_peers".into(), &cpu.waits_for_peers, 0.0, 1.0, false),
            ("header.copied".into(), &header.copied, 0.0, 4096.0, true),
            ("header.read".into(), &header.read, 0.0, 4096.0, true),
            ("header.written".into(), &header.written, 0.0, 4096.0, true),
        ]
    }

    /// Seconds that the bus takes for so many bytes in one direction.
    fn transfer(&self, bytes: f64) -> f64 {
        let bus = &self.bus;
        let cycles = (bytes / bus.width.get()).ceil() + bus.overhead.get() * (bytes / bus.burst.get()).ceil();
        cycles / bus.clock_hz.get()
    }

    /// What it does with packets of so many bytes.
    pub fn rate(&self, access: Access, bytes: u32) -> Rate {
        let (length, header) = (f64::from(bytes), self.header.copied.get().min(f64::from(bytes)));
        let words = |bytes: &Parameter| (bytes.get().min(length) / self.bus.width.get()).ceil();
        // Over host memory, between interfaces, and by the CPU; and the bytes of all.
        let (host, peers, own, crossing) = match access {
            Access::Copy => (2.0 * self.transfer(length), 0.0, 0.0, 2.0 * length),
            Access::InPlace => {
                let (read, written) = (words(&self.header.read), words(&self.header.written));
                let cycles = read * self.bus.read.get() + written * self.bus.write.get();
                let touched = (read + written) * self.bus.width.get();
                (0.0, self.transfer(length), cycles / self.bus.clock_hz.get(), length + touched)
            }
            Access::HeaderCopy => (2.0 * self.transfer(header), self.transfer(length), 0.0, length + 2.0 * header),
        };
        let Cpu { per_packet, waits_for_host_memory, waits_for_peers } = &self.cpu;
        let time = per_packet.get() + own + host + peers;
        let busy = per_packet.get() + own + host * waits_for_host_memory.get() + peers * waits_for_peers.get();
        let packets = 1.0 / time;
        Rate { packets, bits: packets * length * 8.0, cpu: busy / time, bus: (host + peers + own) / time, crossing }
    }

    /// The model's value of what was published.
    pub fn model(&self, of: &Published) -> f64 {
        let rate = self.rate(of.access, of.bytes);
        match of.what {
            What::Throughput => rate.bits / 1e6,
            What::Gain => (rate.bits / self.rate(Access::Copy, of.bytes).bits - 1.0) * 100.0,
            What::Packets => rate.packets,
            What::Cpu => rate.cpu * 100.0,
        }
    }

    /// Whether the model is as near to it as its tolerance says.
    pub fn agrees(&self, of: &Published) -> bool {
        let slack = |bound: f64| if of.what == What::Gain { of.tolerance } else { bound * of.tolerance };
        (of.least - slack(of.least)..=of.most + slack(of.most)).contains(&self.model(of))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::{AnyPlatform, built_in};

    fn pci33() -> HostBus {
        match built_in("pci33").unwrap() {
            AnyPlatform::HostBus(platform) => *platform,
            AnyPlatform::Processor(_) => panic!("pci33 is a processor"),
        }
    }

    const SIZES: [u32; 11] = [64, 65, 128, 256, 512, 1024, 1500, 2048, 4096, 8192, 9000];

    #[test]
    fn the_published_points_are_met_within_their_tolerance() {
        let platform = pci33();
        assert_eq!(platform.published.len(), 8);
        for point in &platform.published {
            assert!(platform.agrees(point), "{point:?}: the model says {}", platform.model(point));
        }
    }

    #[test]
    fn longer_packets_are_fewer_and_more_bits() {
        let platform = pci33();
        for access in Access::ALL {
            for pair in SIZES.windows(2) {
                let [short, long] = [pair[0], pair[1]].map(|bytes| platform.rate(access, bytes));
                assert!(short.packets >= long.packets && short.bits < long.bits, "{access:?} {pair:?}");
                assert!(short.bus <= long.bus, "{access:?} {pair:?}");
            }
        }
        // What peering saves grows with the length.
        let gain = |bytes| platform.rate(Access::HeaderCopy, bytes).bits / platform.rate(Access::Copy, bytes).bits;
        assert!(SIZES.windows(2).all(|pair| gain(pair[0]) <= gain(pair[1]) + 1e-3));
    }

    #[test]
    fn nothing_is_busier_than_always_and_no_byte_crosses_for_nothing() {
        let platform = pci33();
        for access in Access::ALL {
            for bytes in SIZES {
                let rate = platform.rate(access, bytes);
                assert!((0.0..=1.0).contains(&rate.cpu) && (0.0..=1.0).contains(&rate.bus), "{rate:?}");
                assert!((rate.bits - rate.packets * f64::from(bytes) * 8.0).abs() < 1.0);
                // All that crosses fits into the bus's time.
                let most = platform.bus.clock_hz.get() * platform.bus.width.get() * rate.bus;
                assert!(rate.packets * rate.crossing <= most * 1.0001, "{access:?} {bytes}: {rate:?}");
            }
        }
        let crossing = |access, bytes| platform.rate(access, bytes).crossing;
        assert_eq!(crossing(Access::Copy, 1500), 3000.0);
        assert_eq!(crossing(Access::HeaderCopy, 1500), 1628.0);
        assert_eq!(crossing(Access::InPlace, 1500), 1560.0);
        assert_eq!(crossing(Access::HeaderCopy, 40), 120.0);
    }

    #[test]
    fn a_twice_as_fast_bus_is_worth_what_it_saves() {
        let (slow, mut fast) = (pci33(), pci33());
        fast.bus.clock_hz.set(66e6);
        let time = |platform: &HostBus| 1.0 / platform.rate(Access::Copy, 8192).packets - 69e-6;
        assert!((time(&slow) / time(&fast) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn a_tolerance_is_no_more_than_it_says() {
        let platform = pci33();
        let mut point = platform.published[0].clone();
        let value = platform.model(&point);
        (point.least, point.most, point.tolerance) = (value * 1.06, value * 1.06, 0.05);
        assert!(!platform.agrees(&point));
        point.tolerance = 0.06;
        assert!(platform.agrees(&point));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let text = crate::platform::text_of("pci33");
        let line = |what: &str| text[..text.find(what).unwrap()].matches('\n').count() + 1;
        let cases = [
            ("clock_hz = { value = 33e6", "clock_hz = { value = 3", "bus.clock_hz: 3 is not from 1000000 to"),
            ("width = { value = 4", "width = { value = 4.5", "bus.width: 4.5 is not a whole number"),
            ("access = \"copy\"", "access = \"dma\"", "unknown variant `dma`"),
            ("copied = {", "coped = {", "unknown field `coped`"),
        ];
        for (from, to, wanted) in cases {
            let error = HostBus::parse("b.toml", &text.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.starts_with(&format!("b.toml:{}: ", line(from))) && error.contains(wanted), "{to}: {error}");
        }
    }
}

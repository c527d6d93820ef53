//! Millions of packets per second on veth devices: the kernel itself makes the frames.
//!
//! ```text
//! source eth0 ── p1 ┤ the system under test ├ p2 ── eth0 sink
//! ```
//!
//! All of it runs on the CPU of the source, one batch after the other, so what a system costs is the difference between
//! the time per packet with it and that of source and sink alone.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use aya::maps::Array;
use aya::programs::{Xdp, XdpFlags};
use aya::{Ebpf, Pod};
use dataplane::xdp::send_live;
use lab::{LinkConfig, Namespace, RawPort, veth};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use crate::text;
use crate::veth::PORTS;

/// Bytes of a frame.
const FRAME: usize = 60;
/// Frames in the source's list at most.
pub const MOST: usize = 1 << 16;
const SOURCE_CPU: usize = 1;
/// Until a device runs.
const PATIENCE: Duration = Duration::from_secs(5);
/// Frames to warm up with, and to find out how many make a window.
const WARM: u32 = 1 << 19;

/// The programs of both ends, and one that lets everything pass.
pub const LINE: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/xdp-line.o"));

#[derive(Clone, Copy)]
#[repr(C)]
struct Frame([u32; FRAME / 4]);
// SAFETY: plain words, as `struct frame` of peers/xdp/line.c.
unsafe impl Pod for Frame {}

#[derive(Clone, Copy)]
#[repr(C)]
struct Position {
    next: u32,
    count: u32,
}
// SAFETY: plain words, as `struct position` of peers/xdp/line.c.
unsafe impl Pod for Position {}

/// Packets that were sent, and that reached the sink.
pub struct Counted {
    pub sent: u64,
    pub arrived: u64,
    /// While they were sent.
    pub seconds: f64,
}

/// Source, system and sink.
pub struct Line {
    source: Namespace,
    /// Where the system under test runs.
    pub system: Namespace,
    sink: Namespace,
    ends: Ebpf,
}

impl Line {
    /// With these settings of the system's ports; the kernel forwards where `forwards` says so.
    pub fn new(ports: [LinkConfig; 2], forwards: bool) -> Result<Self, String> {
        let namespace = |label| Namespace::new(label).map_err(text);
        let (source, system, sink) = (namespace("source")?, namespace("system")?, namespace("sink")?);
        veth(&source, "eth0", &system, PORTS[0]).map_err(text)?;
        veth(&system, PORTS[1], &sink, "eth0").map_err(text)?;
        system.set_sysctl("net.ipv4.ip_forward", if forwards { "1" } else { "0" }).map_err(text)?;
        for (port, config) in PORTS.iter().zip(&ports) {
            system.configure(port, config).map_err(text)?;
        }
        for end in [&source, &sink] {
            end.configure("eth0", &LinkConfig::port()).map_err(text)?;
        }
        for end in [&source, &sink] {
            end.wait_running("eth0", PATIENCE).map_err(text)?;
        }
        // So that frames can be sent into them.
        for (end, device) in [(&system, PORTS[0]), (&source, "eth0")] {
            end.check(&["ethtool", "-K", device, "gro", "on"]).map_err(text)?;
        }
        let mut ends = Ebpf::load(LINE).map_err(text)?;
        for name in ["source", "sink"] {
            program(&mut ends, name)?.load().map_err(text)?;
        }
        attach(program(&mut ends, "sink")?, &sink, "eth0")?;
        Ok(Line { source, system, sink, ends })
    }

    /// Million packets per second that reach the sink, over about this time.
    pub fn measure(&mut self, frames: &[Vec<u8>], window: Duration) -> Result<f64, String> {
        let Counted { arrived, seconds, .. } = self.forward(frames, window)?;
        Ok(arrived as f64 / seconds / 1e6)
    }

    /// Has packets forwarded for about this time.
    pub fn forward(&mut self, frames: &[Vec<u8>], window: Duration) -> Result<Counted, String> {
        let mut list = Array::<_, Frame>::try_from(self.ends.map_mut("frames").ok_or("no frames")?).map_err(text)?;
        for (index, frame) in frames.iter().take(MOST).enumerate() {
            let word = |at: usize| frame.get(at * 4..at * 4 + 4).map_or([0; 4], |b| b.try_into().unwrap_or_default());
            list.set(index as u32, Frame(std::array::from_fn(|at| u32::from_ne_bytes(word(at)))), 0).map_err(text)?;
        }
        let mut position =
            Array::<_, Position>::try_from(self.ends.map_mut("position").ok_or("no position")?).map_err(text)?;
        position.set(0, Position { next: 0, count: frames.len().min(MOST) as u32 }, 0).map_err(text)?;
        let warm = self.send(WARM)?;
        let count = (f64::from(WARM) / warm * window.as_secs_f64()).clamp(f64::from(WARM), 2e9) as u32;
        let before = crate::received(&self.sink)?;
        let seconds = self.send(count)?;
        let arrived = crate::received(&self.sink)? - before;
        if arrived == 0 {
            return Err("no packet reached the sink".into());
        }
        Ok(Counted { sent: count.into(), arrived, seconds })
    }

    /// A socket at the source's end.
    pub fn host(&self) -> Result<RawPort, String> {
        RawPort::open(&self.source, "eth0").map_err(text)
    }

    /// Sends so many frames; the seconds that it took.
    fn send(&mut self, count: u32) -> Result<f64, String> {
        let program = program(&mut self.ends, "source")?;
        let fd = program.fd().map_err(text)?;
        let run = || {
            let mut cpu = CpuSet::new();
            cpu.set(SOURCE_CPU).map_err(text)?;
            sched_setaffinity(Pid::from_raw(0), &cpu).map_err(text)?;
            let interface = nix::net::if_::if_nametoindex("eth0").map_err(text)?;
            let start = Instant::now();
            send_live(fd.as_fd(), interface, FRAME, count).map_err(text)?;
            Ok(start.elapsed().as_secs_f64())
        };
        self.source.enter(run).map_err(text)?
    }
}

/// A program of an object.
pub fn program<'e>(object: &'e mut Ebpf, name: &str) -> Result<&'e mut Xdp, String> {
    let program = object.program_mut(name).ok_or_else(|| format!("there is no program {name}"))?;
    program.try_into().map_err(text)
}

/// Attaches a loaded program, for as long as its object is there.
pub fn attach(program: &mut Xdp, namespace: &Namespace, interface: &str) -> Result<(), String> {
    let attach = || program.attach(interface, XdpFlags::DRV_MODE).map(drop).map_err(text);
    namespace.enter(attach).map_err(text)?
}

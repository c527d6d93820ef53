//! From code to a program that the kernel has accepted.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baker::ir::{PpfId, Program};
use baker::opt::Level;
use codegen::CodegenError;
use codegen::bpf::{self, Accepted, Known, Refusal, Tier, TierError};
use codegen::kernel::{Hook, Location, MapUse, Object, Options, QUEUES};

use super::memory::SharedMemory;
use super::sys::{self, FRAGS, MapType};
use super::tap_ring::TapRing;

/// Bytes of the verifier's log that are kept.
const LOG: usize = 16 << 20;
/// Ports are numbered with 8 bits.
const PORTS: u32 = 256;
/// How the verifier says that it has seen a million instructions, or more jumps than it keeps in mind, or that it lost
/// count itself (see `touch_stack` in the code generator).
const EXHAUSTED: [&str; 3] = [" is too large. Processed ", " jumps is too complex", "verifier bug: "];

/// Sources of what a wide load loads (`BPF_PSEUDO_MAP_FD`, `BPF_PSEUDO_MAP_VALUE`).
const MAP: u8 = 1;
const VALUE: u8 = 2;

/// Why a program is not in the kernel.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// No right to do so.
    #[error(
        "the kernel lets this process load no BPF programs ({0}): it takes CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON, or root"
    )]
    Refused(io::Error),
    /// The verifier's refusal, which no program that the checker accepts should meet.
    #[error("internal error: the kernel's verifier refuses the program at instruction {at:?}, {}: {reason}", location.as_ref().map_or(String::new(), ToString::to_string))]
    Verifier {
        /// The instruction.
        at: Option<usize>,
        /// What it belongs to.
        location: Option<Location>,
        /// What it said last.
        reason: String,
        /// All that it said.
        log: String,
    },
    /// Its patience.
    #[error("the kernel's verifier gives up after a million instructions")]
    Exhausted,
    /// A PPF is too much, even by itself.
    #[error("{name} is too much for the kernel: {why}")]
    TooMuch {
        /// Which.
        ppf: PpfId,
        /// Its name.
        name: String,
        /// Why.
        why: Box<LoadError>,
    },
    /// No code.
    #[error(transparent)]
    Codegen(#[from] CodegenError),
    /// Anything else.
    #[error("bpf: {0}")]
    System(#[from] io::Error),
}

/// A program in the kernel.
#[derive(Debug)]
pub struct Loaded {
    program: OwnedFd,
    ports: PortMaps,
    /// Its other parts. The kernel empties this array when no process has it any more, so it is kept as long as the
    /// program runs.
    parts: Option<Arc<OwnedFd>>,
    /// The place of the first part in that array, for a program that is put in front of it.
    first: Option<u32>,
    tier: Tier,
    hook: Hook,
    flags: u32,
}

/// What a program knows of ports. Programs that take over from each other share it.
#[derive(Clone, Debug, Default)]
pub struct PortMaps {
    /// Devices by port, where a program sends: interfaces' indexes.
    pub devices: Option<Arc<OwnedFd>>,
    /// Sockets by port and queue, where a program punts.
    pub sockets: Option<Arc<OwnedFd>>,
    /// Rings by queue, where a program makes copies for workers.
    pub taps: Option<Arc<OwnedFd>>,
}

impl PortMaps {
    /// With those that are missing and that programs of a hook may have a use for.
    pub fn complete(mut self, hook: Hook, name: &str) -> io::Result<Self> {
        made(&mut self.devices, devices(hook), PORTS, name)?;
        if hook == Hook::Xdp {
            made(&mut self.sockets, MapType::XskMap, PORTS * QUEUES, name)?;
        }
        rings(&mut self.taps, name)?;
        Ok(self)
    }

    /// Says which interface a port sends by, if any.
    pub fn set_device(&self, port: u8, interface: Option<u32>) -> io::Result<()> {
        match (&self.devices, interface) {
            (Some(devices), Some(interface)) => sys::map_update(devices, port.into(), interface),
            // An array's entry stays, and is none where it is 0.
            (Some(devices), None) => match sys::map_delete(devices, port.into()) {
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => sys::map_update(devices, port.into(), 0),
                done => done,
            },
            (None, _) => Ok(()),
        }
    }

    /// Says which socket takes what is punted of a queue, below [`QUEUES`], until that is closed.
    pub fn set_socket(&self, port: u8, queue: u32, socket: &OwnedFd) -> io::Result<()> {
        assert!(queue < QUEUES);
        match &self.sockets {
            Some(sockets) => sys::map_update(sockets, u32::from(port) * QUEUES + queue, sys::number(socket) as u32),
            None => Ok(()),
        }
    }

    /// From now on copies of the packets of the first queues, at most [`QUEUES`], come to these rings.
    pub fn set_rings<'r>(&self, rings: impl IntoIterator<Item = &'r TapRing>) -> io::Result<()> {
        let numbers: Vec<u32> = rings.into_iter().map(|ring| sys::number(ring.map()) as u32).collect();
        assert!(numbers.len() <= QUEUES as usize);
        match &self.taps {
            Some(taps) if !numbers.is_empty() => sys::map_update_first(taps, &numbers),
            _ => Ok(()),
        }
    }
}

/// What came of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// What the program returned.
    pub verdict: u32,
    /// The packet.
    pub packet: Vec<u8>,
}

impl Loaded {
    /// Compiles a program and loads it, in the first form that the kernel takes: see [`Tier`].
    pub fn compile(
        program: &Program,
        packets: Level,
        memory: &SharedMemory,
        options: Options,
    ) -> Result<Loaded, LoadError> {
        Self::compile_for(program, packets, memory, options, PortMaps::default())
    }

    /// As [`Loaded::compile`], for ports that are known.
    pub fn compile_for(
        program: &Program,
        packets: Level,
        memory: &SharedMemory,
        options: Options,
        ports: PortMaps,
    ) -> Result<Loaded, LoadError> {
        Ok(Self::with_code(program, packets, memory, options, ports)?.0)
    }

    /// As [`Loaded::compile_for`], with the code that was loaded.
    pub fn with_code(
        program: &Program,
        packets: Level,
        memory: &SharedMemory,
        options: Options,
        ports: PortMaps,
    ) -> Result<(Loaded, Accepted<Object>), LoadError> {
        let name = &program.name;
        // A socket buffer is shown whatever its fragments are.
        let flags = if options.frags && options.hook == Hook::Xdp { FRAGS } else { 0 };
        let (entries, hook) = (program.ppfs.len() as u32, options.hook);
        let maps = Mutex::new(Maps { ports, entries, hook, flags, ..Maps::of(memory, name) });
        let accepted = bpf::compile_tiered(program, packets, memory.memory(), options, &verifier(), |object| {
            let refused = |error| match error {
                LoadError::Exhausted => Refusal::TooMuch(error),
                error => Refusal::Other(error),
            };
            // The verifier is what takes time.
            let code = locked(&maps).linked(object).map_err(|error| refused(error.into()))?;
            Ok((load(&code, object, name, (hook, flags)).map_err(refused)?, object.clone()))
        });
        let maps = maps.into_inner().unwrap_or_else(PoisonError::into_inner);
        let Accepted { tier, first: (first, code), parts } = accepted.map_err(|misfit| too_much(program, misfit))?;
        let mut code = Accepted { tier, first: code, parts: Vec::new() };
        for (ppf, (part, object)) in parts {
            maps.set_part(ppf, &part)?;
            code.parts.push((ppf, object));
        }
        Ok((maps.loaded(first, tier), code))
    }

    /// Whether the kernel has taken a program before, as [`Loaded::compile`] would find it on disk: how many
    /// instructions that were, or what was too much; `None` where that is not known.
    pub(super) fn known(
        program: &Program,
        packets: Level,
        memory: &SharedMemory,
        options: Options,
    ) -> Option<Result<usize, LoadError>> {
        Some(match bpf::known(program, packets, memory.memory(), options, &verifier())? {
            Known::Accepted(instructions) => Ok(instructions),
            Known::TooMuch(ppf, why) => Err(too_much(program, TierError::Ppf(ppf, CodegenError::Found(why).into()))),
        })
    }

    /// Loads code for a memory.
    pub fn new(object: &Object, memory: &SharedMemory, name: &str) -> Result<Loaded, LoadError> {
        let mut maps = Maps::of(memory, name);
        let code = maps.linked(object)?;
        let program = load(&code, object, name, (maps.hook, maps.flags))?;
        Ok(maps.loaded(program, Tier::Whole))
    }

    /// The form that the kernel took.
    pub fn tier(&self) -> Tier {
        self.tier
    }

    /// What it knows of ports; what it has no use for is not there.
    pub fn ports(&self) -> &PortMaps {
        &self.ports
    }

    /// Where it runs.
    pub fn hook(&self) -> Hook {
        self.hook
    }

    /// What it was loaded with ([`FRAGS`]); a program that is to take its place needs the same.
    pub(super) fn flags(&self) -> u32 {
        self.flags
    }

    /// Whether packets may come in several fragments.
    pub(super) fn takes_pieces(&self) -> bool {
        self.flags & FRAGS != 0
    }

    /// Where a program in front of it finds it: an array of programs, and the place there.
    pub(super) fn behind(&self) -> Option<(&OwnedFd, u32)> {
        self.parts.as_deref().zip(self.first)
    }

    /// Its other parts, and itself.
    pub(super) fn parts(&self) -> Option<&OwnedFd> {
        self.parts.as_deref()
    }

    /// The program, to be attached.
    pub fn program(&self) -> &OwnedFd {
        &self.program
    }

    /// Runs the program with one packet.
    pub fn run(&self, packet: &[u8]) -> io::Result<Ran> {
        self.run_divided(packet, packet.len())
    }

    /// As [`Loaded::run`], with so many bytes in the packet's first fragment (Linux 6.18).
    pub fn run_divided(&self, packet: &[u8], first: usize) -> io::Result<Ran> {
        let mut out = vec![0; packet.len() + 8192];
        let (verdict, len, _) = sys::test_run(&self.program, packet, first, &mut out)?;
        out.truncate(len);
        Ok(Ran { verdict, packet: out })
    }

    /// Runs the program with one packet: what it returned, and how long that took by the kernel's clock, the reading of
    /// it included.
    pub fn timed(&self, packet: &[u8]) -> io::Result<(u32, Duration)> {
        let (verdict, _, nanoseconds) =
            sys::test_run(&self.program, packet, packet.len(), &mut vec![0; packet.len() + 256])?;
        Ok((verdict, Duration::from_nanos(nanoseconds.into())))
    }
}

/// The maps of a program, made where they are needed first.
struct Maps<'m> {
    memory: &'m SharedMemory,
    name: &'m str,
    ports: PortMaps,
    parts: Option<Arc<OwnedFd>>,
    /// Parts that there can be.
    entries: u32,
    /// Of the programs.
    hook: Hook,
    flags: u32,
}

impl<'m> Maps<'m> {
    fn of(memory: &'m SharedMemory, name: &'m str) -> Self {
        Maps { memory, name, ports: PortMaps::default(), parts: None, entries: 1, hook: Hook::Xdp, flags: 0 }
    }

    /// Code with the numbers of maps.
    fn linked(&mut self, object: &Object) -> io::Result<Vec<u8>> {
        let name = self.name;
        let mut code = object.code.clone();
        for &(slot, map) in &object.maps {
            let (fd, source) = match map {
                MapUse::Memory => (self.memory.map(), VALUE),
                MapUse::Devices => (made(&mut self.ports.devices, devices(self.hook), PORTS, name)?, MAP),
                MapUse::Sockets => (made(&mut self.ports.sockets, MapType::XskMap, PORTS * QUEUES, name)?, MAP),
                MapUse::Parts => (made(&mut self.parts, MapType::ProgArray, self.entries + 1, name)?, MAP),
                MapUse::Taps => (rings(&mut self.ports.taps, name)?, MAP),
            };
            let at = &mut code[slot * 8..slot * 8 + 8];
            at[1] |= source << 4;
            at[4..].copy_from_slice(&sys::number(fd).to_le_bytes());
        }
        Ok(code)
    }

    fn set_part(&self, ppf: PpfId, part: &OwnedFd) -> io::Result<()> {
        match &self.parts {
            Some(parts) => sys::map_update(parts, ppf.0, sys::number(part) as u32),
            None => Ok(()),
        }
    }

    fn loaded(mut self, program: OwnedFd, tier: Tier) -> Loaded {
        let first = self.entries;
        let set = made(&mut self.parts, MapType::ProgArray, first + 1, self.name)
            .and_then(|parts| sys::map_update(parts, first, sys::number(&program) as u32));
        let first = set.is_ok().then_some(first);
        Loaded { program, ports: self.ports, parts: self.parts, first, tier, hook: self.hook, flags: self.flags }
    }
}

/// Has the kernel verify code, and take it.
fn load(code: &[u8], object: &Object, name: &str, (hook, flags): (Hook, u32)) -> Result<OwnedFd, LoadError> {
    sys::prog_load(hook, code, name, flags, &mut []).map_err(|error| match error.raw_os_error() {
        Some(libc::EPERM) => LoadError::Refused(error),
        // Its log would be as long as what it has seen.
        Some(libc::E2BIG | libc::EFAULT) => LoadError::Exhausted,
        _ => refusal(code, object, name, (hook, flags)),
    })
}

fn locked<'l, 'm>(maps: &'l Mutex<Maps<'m>>) -> MutexGuard<'l, Maps<'m>> {
    maps.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What decides which programs are too much: the kernel, and the rights of this process, without which the verifier
/// also follows paths that a processor might guess.
fn verifier() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let status = read("/proc/self/status");
    let rights = status.lines().find(|line| line.starts_with("CapEff:")).unwrap_or_default();
    format!("{} {} {rights}", read("/proc/sys/kernel/osrelease").trim(), read("/proc/sys/kernel/version").trim())
}

/// The kind of map that a hook's programs find devices in.
fn devices(hook: Hook) -> MapType {
    match hook {
        Hook::Xdp => MapType::DevMap,
        Hook::Tc => MapType::Array,
    }
}

/// The map, which is created where it is needed first.
fn made<'m>(map: &'m mut Option<Arc<OwnedFd>>, kind: MapType, entries: u32, name: &str) -> io::Result<&'m OwnedFd> {
    if map.is_none() {
        *map = Some(Arc::new(sys::map_create(kind, 4, entries, 0, name)?));
    }
    map.as_deref().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
}

/// The array of rings, which is created where it is needed first.
fn rings<'m>(map: &'m mut Option<Arc<OwnedFd>>, name: &str) -> io::Result<&'m OwnedFd> {
    if map.is_none() {
        *map = Some(Arc::new(TapRing::array(QUEUES, name)?));
    }
    map.as_deref().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
}

/// No form was taken.
pub(super) fn too_much(program: &Program, misfit: TierError<LoadError>) -> LoadError {
    match misfit {
        TierError::Other(error) => error,
        TierError::Ppf(ppf, why) => {
            let name = program.ppfs[ppf.0 as usize].name.clone();
            LoadError::TooMuch { ppf, name, why: Box::new(why) }
        }
    }
}

/// What the verifier has against a program.
fn refusal(code: &[u8], object: &Object, name: &str, (hook, flags): (Hook, u32)) -> LoadError {
    let mut log = vec![0; LOG];
    let error = match sys::prog_load(hook, code, name, flags, &mut log) {
        // It was refused a moment ago: a lack that has passed.
        Ok(_) => return io::Error::from(io::ErrorKind::ResourceBusy).into(),
        Err(error) => error,
    };
    let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
    let log = String::from_utf8_lossy(&log[..end]).into_owned();
    if log.is_empty() {
        return error.into();
    }
    if EXHAUSTED.iter().any(|said| log.contains(said)) {
        return LoadError::Exhausted;
    }
    // The last lines: the instruction, then what is wrong with it, then statistics.
    let lines: Vec<&str> = log.lines().filter(|line| !line.starts_with("processed ")).collect();
    let reason = lines.last().map_or(String::new(), |line| (*line).to_owned());
    let number = |line: &&str| line.split_once(": (").and_then(|(number, _)| number.trim().parse().ok());
    let at = lines.iter().rev().find_map(number);
    let location = at.and_then(|at| object.location(at)).cloned();
    LoadError::Verifier { at, location, reason, log }
}

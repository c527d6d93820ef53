//! `[ports]`, `[frames]`, `[workers]` and `[control]`: what the instance runs on and how it is reached.

use std::path::PathBuf;

use baker::ir::{Pin, PpfId, Program};
use dataplane::ports::{Driver, Gso, OwnAddresses, PortSpec};
use dataplane::{Access, FrameConfig, PollMode};

use crate::document::{self, Errors, Path, Table, Value};
use crate::messages::{did_you_mean, list};

/// Most frames of an instance: 64 GiB of them at 2048 bytes.
const MAX_FRAMES: u64 = 1 << 25;
/// Bytes that must pass in one piece at least (RFC 791 section 3.2).
const LEAST_MTU: u64 = 68;
/// Most bytes of a packet.
const MAX_MTU: u64 = 65535;
/// Highest CPU number: beyond what Linux supports.
const MAX_CPU: u64 = 8191;

/// A port of the instance.
#[derive(Clone, Debug)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// Its number: what `rx.port` and `tx.port` say; never 0.
    pub number: u8,
    /// Its device, where the file gives one.
    pub device: Option<Driver>,
    /// Number of the port that takes the packets that came in here and that the program puts to `host`.
    pub host: Option<u8>,
    /// How workers get at its packets.
    pub access: Access,
    /// The receiver of those for its interface's own addresses.
    pub own: OwnAddresses,
    /// Whether it sends super-packets.
    pub gso: Gso,
    /// What it sends at most, in bytes behind the Ethernet header; otherwise what its interface does, or what Ethernet
    /// does.
    pub mtu: Option<u32>,
}

/// How the workers run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workers {
    /// How many there are.
    pub count: usize,
    /// What they do when no port has a packet.
    pub mode: PollMode,
    /// CPU of each; where empty, the first ones, or for a single worker any.
    pub cpus: Vec<usize>,
    /// PPFs that run on workers only, as with `@worker` in the program.
    pub ppfs: Vec<PpfId>,
}

/// How the instance is reached while it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// Its name; that of the program where there is none.
    pub instance: Option<String>,
    /// Its socket; where the instance's name says if there is none.
    pub socket: Option<PathBuf>,
    /// Group whose members may use the socket as well as its owner.
    pub group: Option<String>,
}

/// What `[frames]` says.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// Number and size in bytes.
    pub config: FrameConfig,
    /// How workers get at the packets of ports that say nothing else.
    pub access: Access,
    /// Those of controllers, by name, where it says so.
    pub controllers: Vec<(String, u32)>,
}

/// `[frames]`.
pub(super) fn frames(value: Option<&Value>, program: &Program, errors: &mut Errors) -> Frames {
    let mut frames = FrameConfig::default();
    let (root, least) = (Path::Root, u64::from(program.limits.copies) + 1);
    let path = root.key("frames");
    let Some(table) = value.and_then(|value| document::table(value, &path, errors)) else {
        return Frames::default();
    };
    document::only(table, &path, &["count", "size", "access", "controllers"], errors);
    if let Some(count) = table.get("count") {
        let count = document::integer(count, &path.key("count"), least, MAX_FRAMES, errors);
        frames.count = count.map_or(frames.count, |count| count as u32);
    }
    if let Some(value) = table.get("size") {
        let path = path.key("size");
        let size = document::integer(value, &path, 512, 65536, errors).unwrap_or(2048);
        if !size.is_power_of_two() {
            let accepted = "512, 1024, 2048, 4096, 8192, 16384, 32768 or 65536";
            errors.add(value.span().start, &path, format!("{size} is not a power of two"), accepted);
        }
        frames.frame_size = size as u32;
    }
    let controllers = table.get("controllers").map(|value| controller_frames(value, &path, program, errors));
    let access = access(table, &path, errors).unwrap_or_default();
    Frames { config: frames, access, controllers: controllers.unwrap_or_default() }
}

/// `controllers` of `[frames]`: a number for each that is named. Whether all of them suffice is seen when ports are
/// open.
fn controller_frames(value: &Value, path: &Path, program: &Program, errors: &mut Errors) -> Vec<(String, u32)> {
    let path = path.key("controllers");
    let Some(table) = document::table(value, &path, errors) else { return Vec::new() };
    let wired = || program.controllers.iter().map(|controller| controller.name.as_str());
    let mut found = Vec::new();
    for (key, value) in table {
        let name: &str = key.get_ref();
        let path = path.key(name);
        if !wired().any(|own| own == name) {
            let problem =
                format!("the program is not wired to a controller of this name{}", did_you_mean(name, wired()));
            errors.add(key.span().start, &path, problem, list(wired()));
            continue;
        }
        let frames = document::integer(value, &path, 2, MAX_FRAMES, errors);
        found.extend(frames.map(|frames| (name.to_owned(), frames as u32)));
    }
    found.sort();
    found
}

/// `own`: the receiver of packets for the interface's own addresses.
fn own(table: &Table, path: &Path, errors: &mut Errors) -> OwnAddresses {
    const OWNERS: &str = "\"program\" or \"kernel\" (its own stack, before anything is done with them)";
    let Some(value) = table.get("own") else { return OwnAddresses::default() };
    let path = path.key("own");
    match document::string(value, &path, OWNERS, errors) {
        Some("kernel") => return OwnAddresses::Kernel,
        Some("program") | None => {}
        Some(other) => errors.add(value.span().start, &path, format!("{other:?} gets no packets"), OWNERS),
    }
    OwnAddresses::Program
}

/// `gso`: whether it sends super-packets.
fn gso(table: &Table, path: &Path, errors: &mut Errors) -> Gso {
    const CHOICES: &str =
        "\"auto\" (where packets come out at the other end), \"on\" (also where super-packets may) or \"off\"";
    let Some(value) = table.get("gso") else { return Gso::default() };
    let path = path.key("gso");
    match document::string(value, &path, CHOICES, errors) {
        Some("on") => return Gso::On,
        Some("off") => return Gso::Off,
        Some("auto") | None => {}
        Some(other) => errors.add(value.span().start, &path, format!("{other:?} is no choice"), CHOICES),
    }
    Gso::Auto
}

/// `access`, where it is there and right.
fn access(table: &Table, path: &Path, errors: &mut Errors) -> Option<Access> {
    const MODES: &str = "\"copy\" (into host memory and out again), \"in-place\" (where packets lie) or \"header-copy\" (what \
                         the program reaches of them)";
    let (value, path) = (table.get("access")?, path.key("access"));
    let name = document::string(value, &path, MODES, errors)?;
    let access = name.parse().ok();
    if access.is_none() {
        errors.add(value.span().start, &path, format!("{name:?} is not an access mode"), MODES);
    }
    access
}

/// `[workers]`: how many, their mode and CPUs. A list of CPUs says how many, too.
pub(super) fn workers(value: Option<&Value>, program: &Program, errors: &mut Errors) -> Workers {
    const MODES: &str = "\"interrupt\" (sleeps while no packet comes) or \"busy\" (polls without sleeping)";
    let mut workers = Workers { count: 1, mode: PollMode::Interrupt, cpus: Vec::new(), ppfs: Vec::new() };
    let root = Path::Root;
    let path = root.key("workers");
    let Some(table) = value.and_then(|value| document::table(value, &path, errors)) else { return workers };
    document::only(table, &path, &["count", "mode", "cpus", "ppfs"], errors);
    if let Some(value) = table.get("mode") {
        let path = path.key("mode");
        match document::string(value, &path, MODES, errors) {
            Some("interrupt") => workers.mode = PollMode::Interrupt,
            Some("busy") => workers.mode = PollMode::Busy,
            Some(other) => errors.add(value.span().start, &path, format!("{other:?} is not a mode"), MODES),
            None => {}
        }
    }
    if let Some(value) = table.get("cpus") {
        let path = path.key("cpus");
        for (index, cpu) in document::array(value, &path, errors).unwrap_or_default().iter().enumerate() {
            workers.cpus.extend(document::integer(cpu, &path.index(index), 0, MAX_CPU, errors).map(|cpu| cpu as usize));
        }
        workers.count = workers.cpus.len().max(1);
    }
    if let Some(value) = table.get("count") {
        let path = path.key("count");
        let count = document::integer(value, &path, 1, dataplane::MAX_WORKERS as u64, errors).unwrap_or(1) as usize;
        if !workers.cpus.is_empty() && workers.cpus.len() != count {
            let problem = format!("{count} workers, but `cpus` has {}", workers.cpus.len());
            errors.add(value.span().start, &path, problem, "as many workers as CPUs, or no `cpus`");
        }
        workers.count = count;
    }
    if let Some(value) = table.get("ppfs") {
        let path = path.key("ppfs");
        for (index, name) in document::array(value, &path, errors).unwrap_or_default().iter().enumerate() {
            workers.ppfs.extend(ppfs(name, &path.index(index), program, errors));
        }
    }
    workers
}

/// The PPFs of a name: one, or all of a module.
fn ppfs(value: &Value, path: &Path, program: &Program, errors: &mut Errors) -> Vec<PpfId> {
    const ACCEPTED: &str = "a PPF, as MODULE.PPF, or a module";
    let Some(name) = document::string(value, path, ACCEPTED, errors) else { return Vec::new() };
    let all = (0..).map(PpfId).zip(&program.ppfs);
    let is_named = |own: &str| own.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    let found: Vec<_> = all.filter(|(_, ppf)| is_named(&ppf.name)).collect();
    if found.is_empty() {
        let hint = did_you_mean(name, program.ppfs.iter().map(|ppf| ppf.name.as_str()));
        errors.add(value.span().start, path, format!("there is no PPF and no module {name:?}{hint}"), ACCEPTED);
    }
    if let Some((_, ppf)) = found.iter().find(|(_, ppf)| ppf.pin == Some(Pin::Kernel)) {
        let problem = format!("the program says that {} runs in the kernel", ppf.name);
        errors.add(value.span().start, path, problem, "PPFs without @kernel");
    }
    found.into_iter().map(|(id, _)| id).collect()
}

/// `[control]`: name, socket and group of the instance. Whether they can be had is seen when it starts.
pub(super) fn control(value: Option<&Value>, errors: &mut Errors) -> Control {
    let root = Path::Root;
    let path = root.key("control");
    let Some(table) = value.and_then(|value| document::table(value, &path, errors)) else { return Control::default() };
    document::only(table, &path, &["instance", "socket", "group"], errors);
    let mut text = |key: &str, accepted: &str| document::text_at(table, &path, key, accepted, errors);
    Control {
        instance: text("instance", "a name of letters, digits, `_`, `-` and `.`"),
        socket: text("socket", "a path such as \"/run/millrace/edge.sock\"").map(Into::into),
        group: text("group", "the name of a group of this system"),
    }
}

/// `[ports.NAME]`, sorted by number. A port whose number is wrong is among them with number 0, so that its name is
/// known where it is used.
pub(super) fn ports(value: Option<&Value>, usual: Access, errors: &mut Errors) -> Vec<Port> {
    let (root, mut ports) = (Path::Root, Vec::<(usize, Port)>::new());
    let path = root.key("ports");
    let Some(all) = value.and_then(|value| document::table(value, &path, errors)) else { return Vec::new() };
    let mut sections: Vec<_> = all.iter().collect();
    sections.sort_by_key(|(key, _)| key.span().start);
    for (key, value) in &sections {
        let (name, at): (&str, _) = (key.get_ref(), key.span().start);
        let path = path.key(name);
        let named = |number| Port {
            name: name.to_owned(),
            number,
            device: None,
            host: None,
            access: usual,
            own: OwnAddresses::default(),
            gso: Gso::default(),
            mtu: None,
        };
        let Some(table) = document::table(value, &path, errors) else {
            // It is not wrong to name it.
            ports.push((at, named(0)));
            continue;
        };
        let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if !name.starts_with(|c: char| c.is_ascii_alphabetic()) || !name.chars().all(valid) {
            let accepted = "a letter, then letters, digits, `_`, `-` and `.`";
            errors.add(at, &path, "not a port name", accepted);
        }
        document::only(table, &path, &["number", "device", "host", "access", "own", "gso", "mtu"], errors);
        let number = number(table, at, &path, &ports, errors);
        let device = device(table, &path, errors);
        let own = own(table, &path, errors);
        let gso = gso(table, &path, errors);
        let access = access(table, &path, errors).unwrap_or(usual);
        let mtu = table.get("mtu").and_then(|value| mtu(value, &path.key("mtu"), errors));
        ports.push((at, Port { device, access, own, gso, mtu, ..named(number) }));
    }
    let hosts: Vec<_> = ports.iter().map(|(_, port)| host(&port.name, all, &path, &ports, errors)).collect();
    for ((_, port), host) in ports.iter_mut().zip(hosts) {
        port.host = host;
    }
    let mut ports: Vec<Port> = ports.into_iter().map(|(_, port)| port).collect();
    ports.sort_by_key(|port| port.number);
    ports
}

/// What a port sends at most.
pub(crate) fn mtu(value: &Value, path: &Path, errors: &mut Errors) -> Option<u32> {
    document::integer(value, path, LEAST_MTU, MAX_MTU, errors).map(|mtu| mtu as u32)
}

/// The port's number; 0 where it is wrong.
fn number(table: &Table, at: usize, path: &Path, others: &[(usize, Port)], errors: &mut Errors) -> u8 {
    let Some(value) = table.get("number") else {
        errors.add(at, path, "`number` is missing", "number = 1 to 255, what rx.port and tx.port say");
        return 0;
    };
    let path = path.key("number");
    let number = document::integer(value, &path, 1, 255, errors).unwrap_or(0) as u8;
    if let Some((_, other)) = others.iter().find(|(_, other)| number != 0 && other.number == number) {
        let problem = format!("port {} has number {number} already", other.name);
        errors.add(value.span().start, &path, problem, "a number of its own for each port");
        return 0;
    }
    number
}

fn device(table: &Table, path: &Path, errors: &mut Errors) -> Option<dataplane::ports::Driver> {
    let value = table.get("device")?;
    let path = path.key("device");
    let text = document::string(value, &path, "a string \"DRIVER:DEVICE\", such as \"afpacket:eth0\"", errors)?;
    // The port's name is checked by itself.
    match format!("port={text}").parse::<PortSpec>() {
        Ok(spec) => Some(spec.driver),
        Err(error) => {
            let drivers = dataplane::ports::DRIVERS.map(|(driver, device)| format!("{driver}:{device}"));
            let problem = error.problem.replace("NAME=DRIVER", "DRIVER");
            errors.add(value.span().start, &path, problem, list(drivers.iter().map(String::as_str)));
            None
        }
    }
}

/// The number of the port that `host` names.
fn host(name: &str, all: &Table, path: &Path, ports: &[(usize, Port)], errors: &mut Errors) -> Option<u8> {
    let (port, path) = (all.get(name)?.get_ref().as_table()?, path.key(name));
    let (value, path) = (port.get("host")?, path.key("host"));
    let others = || ports.iter().map(|(_, port)| port.name.as_str()).filter(|other| *other != name);
    let accepted = format!("the name of another port: {}", list(others()));
    let host = document::string(value, &path, &accepted, errors)?;
    match ports.iter().find(|(_, other)| other.name == host && host != name) {
        Some((_, other)) => Some(other.number),
        None => {
            let problem = match host == name {
                true => "a port can't be its own host port".to_string(),
                false => format!("there is no port {host:?}{}", did_you_mean(host, others())),
            };
            errors.add(value.span().start, &path, problem, accepted);
            None
        }
    }
}

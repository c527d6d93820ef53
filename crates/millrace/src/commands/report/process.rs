//! What a report says of an instance's process: what the kernel knows of it, its cgroup, its log.

use std::fs;
use std::path::{Path, PathBuf};

use control::socket::Status;
use sha2::{Digest, Sha256};

use super::archive::{Contents, Kind};
use super::host::{ethtool, interfaces, read};
use super::program::output;
use crate::apps;

/// Where cgroups are.
const CGROUPS: &str = "/sys/fs/cgroup";
/// What a cgroup says of itself.
const OF_CGROUP: [&str; 14] = [
    "cpu.max",
    "cpu.stat",
    "cpu.pressure",
    "cpuset.cpus.effective",
    "io.stat",
    "io.pressure",
    "memory.max",
    "memory.current",
    "memory.peak",
    "memory.events",
    "memory.pressure",
    "memory.stat",
    "pids.max",
    "pids.current",
];
/// Lines of the log.
const LINES: &str = "500";
/// Drivers of ports whose device is an interface.
const INTERFACES: [&str; 5] = ["auto", "xdp", "tc", "afxdp", "afpacket"];

/// Adds what is known of the process of an instance.
pub fn add(contents: &mut Contents, name: &str, status: &Status) {
    let own = PathBuf::from(format!("/proc/{}", status.pid));
    let words = |text: String| text.replace('\0', " ");
    contents.add(format!("{name}/command.txt"), Kind::Log, read(&own.join("cmdline")).map(words));
    for file in ["status", "limits", "schedstat"] {
        contents.add(format!("{name}/process_{file}.txt"), Kind::Log, read(&own.join(file)));
    }
    contents.add(format!("{name}/program.txt"), Kind::Log, programs(status, &own));
    let enter = enter(&own);
    let enter: Vec<&str> = enter.iter().map(String::as_str).collect();
    if !enter.is_empty() {
        contents.add(format!("{name}/interfaces.txt"), Kind::Log, interfaces(&enter));
    }
    for device in status.ports.values() {
        let Some((driver, device)) = device.split_once(':') else { continue };
        // Behind a comma there are options.
        let device = device.split(',').next().unwrap_or(device);
        if INTERFACES.contains(&driver) {
            let file = device.replace('/', "_");
            contents.add(format!("{name}/ethtool_{file}.txt"), Kind::Log, ethtool(&enter, device));
        }
    }
    let cgroup = read(&own.join("cgroup"));
    let path = cgroup.as_deref().ok().and_then(|text| text.lines().find_map(|line| line.strip_prefix("0::")));
    match (path, &cgroup) {
        (Some(path), _) => contents.add(format!("{name}/cgroup.txt"), Kind::Log, state(path)),
        (None, Ok(_)) => contents.miss(&format!("{name}/cgroup.txt"), "it is in no cgroup of version 2"),
        (None, Err(error)) => contents.miss(&format!("{name}/cgroup.txt"), error),
    }
    let unit = path.and_then(|path| path.rsplit('/').find(|part| part.ends_with(".service")));
    match unit {
        Some(unit) => contents.add(format!("{name}/log.txt"), Kind::Log, log(unit)),
        None => contents.miss(&format!("{name}/log.txt"), "the instance is no service of systemd's"),
    }
}

/// The last lines of the log of a unit, or of all that fit a pattern.
pub fn log(unit: &str) -> Result<String, String> {
    let words = ["journalctl", "--unit", unit, "--lines", LINES, "--no-pager", "--utc", "--output", "short-iso"];
    let text = output(&words)?;
    if text.starts_with("-- No entries --") { Err(format!("there is no log of {unit}")) } else { Ok(text) }
}

/// The start of a command that runs others in a process' network namespace; empty where it is the own one.
fn enter(process: &Path) -> Vec<String> {
    let theirs = process.join("ns/net");
    let is_same = fs::read_link(&theirs).ok() == fs::read_link("/proc/self/ns/net").ok();
    if is_same { Vec::new() } else { vec!["nsenter".into(), format!("--net={}", theirs.display()), "--".into()] }
}

/// The recent state of a cgroup.
fn state(path: &str) -> Result<String, String> {
    let folder = Path::new(CGROUPS).join(path.trim_start_matches('/'));
    let file = |name: &&str| {
        let text = fs::read_to_string(folder.join(name)).ok()?;
        Some(format!("{name}\n{text}\n"))
    };
    let all: String = OF_CGROUP.iter().filter_map(file).collect();
    if all.is_empty() {
        Err(format!("{} says nothing of itself", folder.display()))
    } else {
        Ok(format!("{path}\n\n{all}"))
    }
}

/// The digests of Millrace's program, and of the files of the Baker program as they are now.
fn programs(status: &Status, process: &Path) -> Result<String, String> {
    let exe = process.join("exe");
    let name = fs::read_link(&exe).map_or_else(|error| error.to_string(), |path| path.display().to_string());
    let digest = fs::read(&exe).map_or_else(|error| error.to_string(), |bytes| digest(&bytes));
    let mut out = format!("Millrace: {name}\n{digest}\n\nprogram: {}\n", status.program);
    let path = process.join("cwd").join(&status.program);
    // What is no file is built in, by the name of its folder.
    let stem = Path::new(&status.program).file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let app = if path.is_file() { path.display().to_string() } else { stem.unwrap_or_default() };
    let source = match apps::find(&app) {
        Ok(source) => source,
        Err(error) => return Ok(out + &format!("{error}\n")),
    };
    match apps::check(&source) {
        Ok(compilation) => {
            let line = |name: &str, text: &str| format!("{} {name}\n", digest_of(text));
            out.extend(compilation.sources.iter().map(|(_, file)| line(&file.name, &file.text)));
        }
        // Its text counts, not whether it is right.
        Err(_) => out += &format!("{} {} (it has mistakes now)\n", digest_of(&source.text), source.name),
    }
    Ok(out)
}

fn digest_of(text: &str) -> String {
    digest(text.as_bytes())
}

/// SHA-256, in hexadecimal.
fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

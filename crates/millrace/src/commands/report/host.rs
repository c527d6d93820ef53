//! What a report says of the machine.

use std::fs;
use std::path::Path;

use super::archive::{Contents, Kind};
use super::program::output;

/// Files that say what machine it is.
const FILES: [(&str, &str); 7] = [
    ("host/kernel.txt", "/proc/version"),
    ("host/command_line.txt", "/proc/cmdline"),
    ("host/system.txt", "/etc/os-release"),
    ("host/cpu.txt", "/proc/cpuinfo"),
    ("host/cpus.txt", "/sys/devices/system/cpu/online"),
    ("host/memory.txt", "/proc/meminfo"),
    ("host/interrupts.txt", "/proc/interrupts"),
];
/// Where the kernel shows the interfaces of this process' network namespace.
const INTERFACES: &str = "/sys/class/net";
/// What it says of each.
const OF_INTERFACE: [&str; 6] = ["address", "mtu", "operstate", "speed", "duplex", "tx_queue_len"];

/// Adds what is known of the machine.
pub fn add(contents: &mut Contents) {
    for (name, path) in FILES {
        contents.add(name, Kind::Log, read(Path::new(path)));
    }
    contents.add("host/interfaces.txt", Kind::Log, interfaces(&[]));
}

/// The text of a file, or which one can't be read, and why.
pub fn read(path: &Path) -> Result<String, String> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The interfaces of a network namespace; `enter` are the words of a command that runs others in it. Without `ip`, and
/// in the own namespace, what the kernel shows as files.
pub fn interfaces(enter: &[&str]) -> Result<String, String> {
    let said = output(&[enter, &["ip", "-details", "-statistics", "link"]].concat());
    if said.is_ok() || !enter.is_empty() {
        return said;
    }
    let mut names: Vec<_> =
        fs::read_dir(INTERFACES).map_err(|error| format!("{INTERFACES}: {error}"))?.flatten().collect();
    names.sort_by_key(|entry| entry.file_name());
    let line = |entry: &fs::DirEntry| {
        let value = |name: &&str| {
            let value = fs::read_to_string(entry.path().join(name)).ok()?;
            Some(format!(" {name} {}", value.trim()))
        };
        let driver = fs::read_link(entry.path().join("device/driver")).ok();
        let driver = driver.and_then(|path| Some(format!(" driver {}", path.file_name()?.to_string_lossy())));
        let values: String = OF_INTERFACE.iter().filter_map(value).chain(driver).collect();
        format!("{}:{values}\n", entry.file_name().to_string_lossy())
    };
    Ok(names.iter().map(line).collect())
}

/// What drivers say of an interface.
pub fn ethtool(enter: &[&str], device: &str) -> Result<String, String> {
    let ask = |option: &str| output(&[enter, &["ethtool", option, device]].concat());
    // Without this one there is none of the others. Those that a driver does not know are left out.
    let driver = ask("--driver")?;
    let others = ["--show-features", "--show-channels", "--show-ring", "--statistics"];
    Ok([driver].into_iter().chain(others.into_iter().filter_map(|option| ask(option).ok())).collect())
}

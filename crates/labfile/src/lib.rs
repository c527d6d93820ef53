//! A lab as its file describes it. Every mistake is told with file, line, key and what is accepted.
//!
//! | file | what it reads |
//! |---|---|
//! | `host` | `[hosts.NAME]` |
//! | `link` | `[[links]]` |
//! | `quantity` | times, rates, shares |

mod host;
mod link;
mod quantity;

use std::path::PathBuf;

use control::document::{self, ConfigError, Errors, Path, Value};

pub use host::{Command, Host};
pub use link::Link;

/// Highest CPU number: beyond what Linux supports.
const MAX_CPU: u64 = 8191;

/// A device of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Index of the host.
    pub host: usize,
    /// The device's name.
    pub device: String,
}

impl End {
    /// `HOST:DEVICE`.
    pub fn show(&self, hosts: &[Host]) -> String {
        format!("{}:{}", hosts[self.host].name, self.device)
    }

    /// Whether only Millrace uses it.
    pub fn is_port(&self, hosts: &[Host]) -> bool {
        hosts[self.host].devices.iter().any(|device| device.name == self.device && device.port)
    }
}

/// A capture of some devices.
#[derive(Clone, Debug)]
pub struct CaptureTo {
    /// The file.
    pub file: PathBuf,
    /// The devices.
    pub taps: Vec<End>,
}

/// A lab.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Its name, where the file gives one.
    pub name: Option<String>,
    /// From which the links draw their random decisions.
    pub seed: u64,
    /// The CPU that the emulator has for itself.
    pub emulator_cpu: Option<usize>,
    /// Its hosts.
    pub hosts: Vec<Host>,
    /// Its links.
    pub links: Vec<Link>,
    /// Its captures.
    pub captures: Vec<CaptureTo>,
}

impl Plan {
    /// Reads a file. Errors come in the order of the text, at most 100 of them.
    pub fn parse(file: &str, text: &str) -> Result<Plan, Vec<ConfigError>> {
        let mut errors = Errors::new(file, text);
        let root = document::root(text, &mut errors);
        if !errors.is_empty() {
            return Err(errors.finish());
        }
        let path = Path::Root;
        document::only(&root, &path, &["name", "seed", "emulator_cpu", "hosts", "links", "captures"], &mut errors);
        let name = root.get("name").and_then(|value| {
            let path = path.key("name");
            let name = document::string(value, &path, "a name for the lab", &mut errors)?;
            if !is_name(name) {
                errors.add(value.span().start, &path, format!("{name:?} is not a name"), NAME);
            }
            Some(name.to_owned())
        });
        let mut integer = |key: &str, most: u64| {
            root.get(key).and_then(|value| document::integer(value, &path.key(key), 0, most, &mut errors))
        };
        let (seed, emulator_cpu) = (integer("seed", i64::MAX as u64), integer("emulator_cpu", MAX_CPU));
        let hosts = match root.get("hosts") {
            Some(value) => host::hosts(value, &path.key("hosts"), &mut errors),
            None => {
                errors.add(0, &path, "there are no hosts", "[hosts.NAME] for each");
                Vec::new()
            }
        };
        let links = root.get("links").map(|value| link::links(value, &path.key("links"), &hosts, &mut errors));
        let mut links = links.unwrap_or_default();
        has_links(&hosts, &links, &mut errors);
        let captures = root.get("captures").map(|v| captures(v, &path.key("captures"), &hosts, &links, &mut errors));
        if !errors.is_empty() {
            return Err(errors.finish());
        }
        for end in captures.iter().flatten().flat_map(|capture| &capture.taps).filter(|end| end.is_port(&hosts)) {
            links.iter_mut().filter(|link| link.ends.contains(end)).for_each(|link| link.captured = true);
        }
        let (seed, emulator_cpu) = (seed.unwrap_or(0), emulator_cpu.map(|cpu| cpu as usize));
        Ok(Plan { name, seed, emulator_cpu, hosts, links, captures: captures.unwrap_or_default() })
    }
}

/// What a lab's name may be.
pub const NAME: &str = "1 to 64 letters, digits, `_`, `-` and `.`, the first a letter or digit";

/// Whether this may be a lab's name.
pub fn is_name(name: &str) -> bool {
    let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    name.len() <= 64 && name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(valid)
}

/// A device with settings but without a link would not exist.
fn has_links(hosts: &[Host], links: &[Link], errors: &mut Errors) {
    let root = Path::Root;
    let section = root.key("hosts");
    for (index, host) in hosts.iter().enumerate() {
        for device in &host.devices {
            let end = End { host: index, device: device.name.clone() };
            if !links.iter().any(|link| link.ends.contains(&end)) {
                let (path, accepted) =
                    (section.key(&host.name), format!("a link with the end \"{}\"", end.show(hosts)));
                let path = path.key("devices");
                errors.add(device.at, &path.key(&device.name), "no link has this device", accepted);
            }
        }
    }
}

fn captures(value: &Value, path: &Path, hosts: &[Host], links: &[Link], errors: &mut Errors) -> Vec<CaptureTo> {
    const FILE: &str = "file = \"NAME.pcapng\"";
    const DEVICES: &str = "devices = [\"HOST:DEVICE\", …]";
    let mut captures: Vec<CaptureTo> = Vec::new();
    for (index, value) in document::array(value, path, errors).unwrap_or_default().iter().enumerate() {
        let path = path.index(index);
        let Some(table) = document::table(value, &path, errors) else { continue };
        document::only(table, &path, &["file", "devices"], errors);
        let mut get = |key: &'static str, accepted: &str| {
            let found = table.get(key);
            if found.is_none() {
                errors.add(value.span().start, &path, format!("`{key}` is missing"), accepted);
            }
            found.map(|value| (value, path.key(key)))
        };
        let (file, devices) = (get("file", FILE), get("devices", DEVICES));
        let file = file.and_then(|(value, path)| {
            let file = document::string(value, &path, FILE, errors)?;
            if captures.iter().any(|other| other.file.as_os_str() == file) {
                errors.add(value.span().start, &path, "another capture has this file", "a file of its own for each");
            }
            Some(PathBuf::from(file))
        });
        let mut taps = Vec::new();
        if let Some((value, path)) = devices {
            let list = document::array(value, &path, errors).unwrap_or_default();
            if list.is_empty() && value.get_ref().is_array() {
                errors.add(value.span().start, &path, "there is no device", DEVICES);
            }
            for (index, value) in list.iter().enumerate() {
                let path = path.index(index);
                let Some(end) = link::end(value, &path, hosts, errors) else { continue };
                if !links.iter().any(|link| link.ends.contains(&end)) {
                    let ends = links.iter().flat_map(|link| &link.ends).map(|end| end.show(hosts));
                    let ends: Vec<_> = ends.collect();
                    let accepted = control::messages::list(ends.iter().map(String::as_str));
                    errors.add(value.span().start, &path, "no link has this device", accepted);
                }
                taps.push(end);
            }
        }
        captures.extend(file.map(|file| CaptureTo { file, taps }));
    }
    captures
}

//! `[hosts.NAME]`: devices with addresses, routes, kernel parameters, and what runs there.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use control::document::{self, Errors, Path, Table, Value};
use lab::Mac;

use super::quantity::time;

/// How long a command may take to be ready where the file does not say.
const PATIENCE: Duration = Duration::from_secs(20);
/// Longest that the file may say.
const MOST_PATIENCE: Duration = Duration::from_secs(3600);
const ADDRESS: &str = "an address with its prefix length, such as \"10.0.1.11/24\" or \"fd00::1/64\"";

/// A host.
#[derive(Clone, Debug)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Whether it routes.
    pub forwarding: bool,
    /// Its devices that have settings, by name.
    pub devices: Vec<Device>,
    /// Destination (`default` or a prefix) and gateway.
    pub routes: Vec<(String, String)>,
    /// Kernel parameters of its namespace.
    pub sysctls: Vec<(String, String)>,
    /// What runs there.
    pub commands: Vec<Command>,
}

/// A device's settings.
#[derive(Clone, Debug)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Where it stands in the file.
    pub at: usize,
    /// Its addresses with prefix lengths.
    pub addresses: Vec<String>,
    /// Its Ethernet address, where it is not a random one.
    pub mac: Option<Mac>,
    /// Only Millrace uses it: the kernel answers nothing there.
    pub port: bool,
}

/// A program to run.
#[derive(Clone, Debug)]
pub struct Command {
    /// Where it stands in the file: commands are started in that order, whatever their hosts.
    pub at: usize,
    /// Program and arguments.
    pub words: Vec<String>,
    /// What it prints when it is ready; what comes after it waits for that.
    pub ready: Option<String>,
    /// It is waited for and must succeed.
    pub wait: bool,
    /// How long it may take to be ready, or to its end if that is waited for.
    pub within: Duration,
    /// Where its output goes; otherwise to ours.
    pub log: Option<PathBuf>,
}

/// `[hosts]`, in the order of the file.
pub fn hosts(value: &Value, path: &Path, errors: &mut Errors) -> Vec<Host> {
    let Some(all) = document::table(value, path, errors) else { return Vec::new() };
    in_order(all).map(|(name, at, value)| host(name, at, value, &path.key(name), errors)).collect()
}

/// The entries of a table in the order of the file.
fn in_order<'v, 't>(table: &'v Table<'t>) -> impl Iterator<Item = (&'v str, usize, &'v Value<'t>)> {
    let mut entries: Vec<_> = table.iter().map(|(key, v)| (key.get_ref().as_ref(), key.span().start, v)).collect();
    entries.sort_by_key(|(_, at, _)| *at);
    entries.into_iter()
}

fn host(name: &str, at: usize, value: &Value, path: &Path, errors: &mut Errors) -> Host {
    let mut host = Host {
        name: name.to_owned(),
        forwarding: false,
        devices: Vec::new(),
        routes: Vec::new(),
        sysctls: Vec::new(),
        commands: Vec::new(),
    };
    let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) || !name.chars().all(valid) || name.len() > 32 {
        errors.add(at, path, "not a name for a host", "a letter, then letters, digits, `_` and `-`, 32 at most");
    }
    let Some(table) = document::table(value, path, errors) else { return host };
    document::only(table, path, &["forwarding", "devices", "routes", "sysctls", "commands"], errors);
    if let Some(value) = table.get("forwarding") {
        host.forwarding = document::boolean(value, &path.key("forwarding"), errors).unwrap_or(false);
    }
    if let Some(value) = table.get("devices") {
        let path = path.key("devices");
        for (name, at, value) in document::table(value, &path, errors).into_iter().flat_map(in_order) {
            host.devices.extend(device(name, at, value, &path.key(name), errors));
        }
    }
    host.routes = pairs(table, "routes", path, errors, |to, gateway, path, at, errors| {
        let gateway_ok = gateway.parse::<IpAddr>();
        if to != "default" && !is_prefix(to) {
            errors.add(
                at,
                path,
                format!("{to:?} is not a destination"),
                "default, or a prefix such as \"10.2.0.0/16\"",
            );
        } else if gateway_ok.is_err() {
            errors.add(
                at,
                path,
                format!("{gateway:?} is not an address"),
                "the gateway's address, such as \"10.0.1.1\"",
            );
        } else if gateway_ok.is_ok_and(|gateway| to != "default" && gateway.is_ipv6() != to.contains(':')) {
            errors.add(at, path, "prefix and gateway are of two versions of IP", "both of one version");
        }
    });
    host.sysctls = pairs(table, "sysctls", path, errors, |key, _, path, at, errors| {
        if !key.starts_with("net.") && !key.starts_with("net/") {
            errors.add(at, path, "not of a network namespace", "a parameter that begins with \"net.\"");
        }
    });
    if let Some(value) = table.get("commands") {
        let path = path.key("commands");
        for (index, value) in document::array(value, &path, errors).unwrap_or_default().iter().enumerate() {
            host.commands.extend(command(value, &path.index(index), errors));
        }
    }
    host
}

/// A table of strings.
fn pairs(
    table: &Table,
    key: &str,
    path: &Path,
    errors: &mut Errors,
    check: impl Fn(&str, &str, &Path, usize, &mut Errors),
) -> Vec<(String, String)> {
    let (Some(value), path) = (table.get(key), path.key(key)) else { return Vec::new() };
    let mut pairs = Vec::new();
    for (name, _, value) in document::table(value, &path, errors).into_iter().flat_map(in_order) {
        let path = path.key(name);
        if let Some(text) = document::string(value, &path, "a string", errors) {
            check(name, text, &path, value.span().start, errors);
            pairs.push((name.to_owned(), text.to_owned()));
        }
    }
    pairs
}

/// Whether this is `ADDRESS/LENGTH`.
fn is_prefix(text: &str) -> bool {
    let parse = |(address, length): (&str, &str)| {
        let most = if address.parse::<IpAddr>().ok()?.is_ipv6() { 128 } else { 32 };
        length.parse::<u32>().ok().filter(|length| *length <= most)
    };
    text.split_once('/').and_then(parse).is_some()
}

fn device(name: &str, at: usize, value: &Value, path: &Path, errors: &mut Errors) -> Option<Device> {
    let table = document::table(value, path, errors)?;
    document::only(table, path, &["addresses", "mac", "port"], errors);
    let mut device = Device { name: name.to_owned(), at, addresses: Vec::new(), mac: None, port: false };
    if let Some(value) = table.get("addresses") {
        let path = path.key("addresses");
        for (index, value) in document::array(value, &path, errors).unwrap_or_default().iter().enumerate() {
            let path = path.index(index);
            let Some(text) = document::string(value, &path, ADDRESS, errors) else { continue };
            if !is_prefix(text) {
                errors.add(value.span().start, &path, format!("{text:?} is not an address with its length"), ADDRESS);
            }
            device.addresses.push(text.to_owned());
        }
    }
    if let Some(value) = table.get("mac") {
        let path = path.key("mac");
        let accepted = "an Ethernet address of one station, such as \"02:00:00:00:00:11\"";
        if let Some(text) = document::string(value, &path, accepted, errors) {
            device.mac = mac(text);
            if device.mac.is_none() {
                errors.add(value.span().start, &path, format!("{text:?} is not such an address"), accepted);
            }
        }
    }
    if let Some(value) = table.get("port") {
        let path = path.key("port");
        device.port = document::boolean(value, &path, errors).unwrap_or(false);
        if device.port && !device.addresses.is_empty() {
            errors.add(value.span().start, &path, "this device has addresses", "one of the two");
        }
    }
    Some(device)
}

/// Six bytes, not all zero and not of a group.
fn mac(text: &str) -> Option<Mac> {
    let bytes: Vec<u8> = text
        .split(':')
        .map(|pair| u8::from_str_radix(pair, 16).ok().filter(|_| pair.len() == 2 && !pair.starts_with('+')))
        .collect::<Option<_>>()?;
    let mac: Mac = bytes.try_into().ok()?;
    (mac[0] & 1 == 0 && mac != [0; 6]).then_some(mac)
}

fn command(value: &Value, path: &Path, errors: &mut Errors) -> Option<Command> {
    const ACCEPTED: &str =
        "a command line, such as \"ping -c 1 10.0.1.1\"; quotes as in a shell, but nothing is expanded";
    let table = document::table(value, path, errors)?;
    document::only(table, path, &["run", "ready", "wait", "within", "log"], errors);
    let Some(run) = table.get("run") else {
        errors.add(value.span().start, path, "`run` is missing", ACCEPTED);
        return None;
    };
    let text = document::string(run, &path.key("run"), ACCEPTED, errors)?;
    let words = shlex::split(text).filter(|words| !words.is_empty());
    if words.is_none() {
        errors.add(run.span().start, &path.key("run"), format!("{text:?} is not a command line"), ACCEPTED);
    }
    let mut text = |key: &str, accepted: &str| document::text_at(table, path, key, accepted, errors);
    let (ready, log) = (text("ready", "what it prints when it is ready"), text("log", "a path").map(PathBuf::from));
    let wait = table.get("wait").and_then(|value| document::boolean(value, &path.key("wait"), errors)).unwrap_or(false);
    if let (Some(value), true) = (table.get("ready"), wait) {
        let problem = "`wait` is given, too: its end is waited for";
        errors.add(value.span().start, &path.key("ready"), problem, "one of the two");
    }
    let within = table.get("within").and_then(|value| time(value, &path.key("within"), MOST_PATIENCE, errors));
    Some(Command { at: value.span().start, words: words?, ready, wait, within: within.unwrap_or(PATIENCE), log })
}

//! `[controllers.routes]` of a configuration.

use std::collections::BTreeMap;
use std::time::Duration;

use baker::syntax::duration;
use control::application::Section;
use control::document::{self, Errors, Path, Table};

use crate::kernel::event::TABLE_MAIN;

/// What becomes of packets that can't be sent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The host gets them.
    Host,
    /// They are dropped.
    Drop,
}

/// The settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whether the tables are kept in step at all.
    pub mirror: bool,
    /// The kernel's table of routes, beside that of its own addresses.
    pub table: u32,
    /// Packets to neighbours whose Ethernet address is not known.
    pub unresolved: Fate,
    /// Packets without a route, and for destinations that are unreachable or prohibited.
    pub unreachable: Fate,
    /// The kernel's interfaces of ports, where it is not the usual one.
    pub interfaces: BTreeMap<u8, String>,
    /// How often all is compared with the kernel.
    pub check: Duration,
    /// Bytes of events that may wait.
    pub receive_buffer: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            mirror: true,
            table: TABLE_MAIN,
            unresolved: Fate::Host,
            unreachable: Fate::Drop,
            interfaces: BTreeMap::new(),
            check: Duration::from_secs(60),
            receive_buffer: 32 << 20,
        }
    }
}

/// Reads a section.
pub fn read(section: &Section, errors: &mut Errors) -> Settings {
    let mut settings = Settings::default();
    let path = section.path;
    let Some(table) = document::table(section.value, &path, errors) else { return settings };
    let known = ["mirror", "table", "unresolved", "unreachable", "interfaces", "check", "receive_buffer"];
    document::only(table, &path, &known, errors);
    if let Some(value) = table.get("mirror") {
        settings.mirror = document::boolean(value, &path.key("mirror"), errors).unwrap_or(true);
    }
    if let Some(value) = table.get("table") {
        let number = document::integer(value, &path.key("table"), 1, u32::MAX.into(), errors);
        settings.table = number.map_or(TABLE_MAIN, |number| number as u32);
    }
    settings.unresolved = fate(table, &path, "unresolved", settings.unresolved, errors);
    settings.unreachable = fate(table, &path, "unreachable", settings.unreachable, errors);
    if let Some(value) = table.get("check") {
        let (path, accepted) = (path.key("check"), "a time from \"1s\" to \"24h\", such as \"60s\"");
        if let Some(text) = document::string(value, &path, accepted, errors) {
            let seconds = 1_000_000_000..=24 * 3600 * 1_000_000_000;
            match duration(text).filter(|time| seconds.contains(time)) {
                Some(time) => settings.check = Duration::from_nanos(time),
                None => errors.add(value.span().start, &path, format!("{text:?} is no such time"), accepted),
            }
        }
    }
    if let Some(value) = table.get("receive_buffer") {
        let bytes = document::integer(value, &path.key("receive_buffer"), 4096, 1 << 30, errors);
        settings.receive_buffer = bytes.map_or(settings.receive_buffer, |bytes| bytes as usize);
    }
    if let Some(value) = table.get("interfaces") {
        let path = path.key("interfaces");
        for (name, value) in document::table(value, &path, errors).into_iter().flatten() {
            let key: &str = name.get_ref();
            let path = path.key(key);
            let Some(port) = section.ports.number(key) else {
                let ports: Vec<&str> = section.ports.names().collect();
                errors.add(name.span().start, &path, "there is no such port", ports.join(", "));
                continue;
            };
            let interface = document::string(value, &path, "the name of an interface of the kernel", errors);
            settings.interfaces.extend(interface.map(|interface| (port, interface.to_owned())));
        }
    }
    settings
}

fn fate(table: &Table, path: &Path, key: &str, default: Fate, errors: &mut Errors) -> Fate {
    let Some(value) = table.get(key) else { return default };
    let (path, accepted) = (path.key(key), "\"host\" or \"drop\"");
    match document::string(value, &path, accepted, errors) {
        Some("host") => Fate::Host,
        Some("drop") => Fate::Drop,
        Some(other) => {
            errors.add(value.span().start, &path, format!("{other:?} is neither"), accepted);
            default
        }
        None => default,
    }
}

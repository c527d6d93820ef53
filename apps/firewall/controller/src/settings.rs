//! `[controllers.firewall]`: the rules, read from the configuration.
//!
//! ```toml
//! [controllers.firewall]
//! accounting = true                           # optional: count packets and bytes of flows, also where nobody looks
//! rules = [                                   # the first that matches counts; all keys but `action` are optional
//!     { name = "web", action = "permit", entry = "wan", protocol = "tcp", to = "10.0.1.80", to_port = [80, 443] },
//!     { action = "deny", from = ["192.0.2.0/24", "2001:db8::/32"] },
//!     { action = "permit", protocol = "udp", from_port = 53, to_port = "1024-65535" },
//!     { action = "permit", protocol = "icmp", icmp_type = [8, "3/4"] },
//! ]
//! ```

use control::document::{self, Errors, Path, Table, Value, wrong_kind};
use control::entries::PortNames;
use control::messages::{did_you_mean, list};
use toml::de::DeValue;

use super::compile::MAX_RULES;
use super::rule::{Net, Range, Rule};
use super::services::ENTRIES;

/// Numbers of protocols that rules know by name (IANA, "Assigned Internet Protocol Numbers").
pub(super) const PROTOCOLS: [(&str, u8); 4] = [("tcp", 6), ("udp", 17), ("icmp", 1), ("icmpv6", 58)];
const KEYS: [&str; 9] = ["name", "action", "entry", "protocol", "from", "to", "from_port", "to_port", "icmp_type"];

/// Reads the rules, and whether flows are counted in any case. `text` is that of the whole file.
pub(super) fn read(
    value: &Value,
    path: &Path,
    text: &str,
    ports: &PortNames,
    errors: &mut Errors,
) -> (Vec<Rule>, bool) {
    let Some(table) = document::table(value, path, errors) else { return Default::default() };
    document::only(table, path, &["rules", "accounting"], errors);
    let accounting = table.get("accounting").and_then(|own| document::boolean(own, &path.key("accounting"), errors));
    (rules(table, path, text, ports, errors), accounting.unwrap_or(false))
}

fn rules(table: &Table, path: &Path, text: &str, ports: &PortNames, errors: &mut Errors) -> Vec<Rule> {
    let path = path.key("rules");
    let Some(value) = table.get("rules") else { return Vec::new() };
    let values = document::array(value, &path, errors).unwrap_or(&[]);
    if values.len() > MAX_RULES {
        errors.add(value.span().start, &path, format!("{} rules", values.len()), format!("{MAX_RULES} at most"));
        return Vec::new();
    }
    let mut rules = Vec::with_capacity(values.len());
    // Lines are counted on, not each from the start.
    let (mut line, mut counted) = (1, 0);
    for (index, value) in values.iter().enumerate() {
        let start = value.span().start;
        line += text[counted..start].bytes().filter(|byte| *byte == b'\n').count();
        counted = start;
        rules.extend(Reader { ports, line, errors }.rule(value, &path.index(index)));
    }
    rules
}

struct Reader<'r, 't> {
    ports: &'r PortNames,
    line: usize,
    errors: &'r mut Errors<'t>,
}

impl Reader<'_, '_> {
    fn rule(&mut self, value: &Value, path: &Path) -> Option<Rule> {
        let table = document::table(value, path, self.errors)?;
        document::only(table, path, &KEYS, self.errors);
        let name = document::text_at(table, path, "name", "a name", self.errors).unwrap_or_default();
        let permit = self.action(table, value, path)?;
        let entry = match table.get("entry") {
            Some(value) => self.entry(value, &path.key("entry"))?,
            None => u64::MAX,
        };
        let protocol = match table.get("protocol") {
            Some(value) => Some(self.protocol(value, &path.key("protocol"))?),
            None => None,
        };
        let from = self.nets(table, path, "from")?;
        let to = self.nets(table, path, "to")?;
        let versions = |nets: &[Net], v6: bool| nets.is_empty() || nets.iter().any(|net| net.v6 == v6);
        if ![false, true].iter().any(|v6| versions(&from, *v6) && versions(&to, *v6)) {
            let problem = "no packet has an IPv4 and an IPv6 address";
            self.errors.add(value.span().start, path, problem, "`from` and `to` of one version");
            return None;
        }
        let from_ports = self.services(table, path, "from_port", protocol)?;
        let mut services = self.services(table, path, "to_port", protocol)?;
        services.extend(self.services(table, path, "icmp_type", protocol)?);
        Some(Rule { name, line: self.line, permit, entry, protocol, from, to, from_ports, services })
    }

    fn action(&mut self, table: &Table, rule: &Value, path: &Path) -> Option<bool> {
        let accepted = "permit or deny";
        let Some(value) = table.get("action") else {
            self.errors.add(rule.span().start, path, "`action` is missing", accepted);
            return None;
        };
        let path = path.key("action");
        match document::string(value, &path, accepted, self.errors)? {
            "permit" => Some(true),
            "deny" => Some(false),
            other => {
                let problem = format!("{other:?} is no action{}", did_you_mean(other, ["permit", "deny"]));
                self.errors.add(value.span().start, &path, problem, accepted);
                None
            }
        }
    }

    /// A value, or a list of them that is not empty.
    fn several<T>(
        &mut self,
        value: &Value,
        path: &Path,
        mut one: impl FnMut(&mut Self, &Value, &Path) -> Option<T>,
    ) -> Option<Vec<T>> {
        let DeValue::Array(values) = value.get_ref() else { return Some(vec![one(self, value, path)?]) };
        if values.is_empty() {
            self.errors.add(value.span().start, path, "this list is empty, so nothing matches", "at least one value");
            return None;
        }
        values.iter().enumerate().map(|(index, value)| one(self, value, &path.index(index))).collect()
    }

    fn entry(&mut self, value: &Value, path: &Path) -> Option<u64> {
        let bits = self.several(value, path, |reader, value, path| {
            let numbered = |name: &str| reader.ports.number(name).filter(|number| usize::from(*number) < ENTRIES);
            let names: Vec<&str> = reader.ports.names().filter(|name| numbered(name).is_some()).collect();
            let accepted = format!("a port with a number below {ENTRIES}: {}", list(names.iter().copied()));
            let name = document::string(value, path, &accepted, reader.errors)?;
            let number = numbered(name);
            if number.is_none() {
                let problem = format!("there is no such port {name:?}{}", did_you_mean(name, names));
                reader.errors.add(value.span().start, path, problem, accepted);
            }
            number
        })?;
        Some(bits.into_iter().fold(0, |bits, number| bits | 1 << number))
    }

    fn protocol(&mut self, value: &Value, path: &Path) -> Option<u8> {
        let names = PROTOCOLS.map(|(name, _)| name);
        let accepted = format!("one of {}, or a number from 0 to 255", list(names));
        match value.get_ref() {
            DeValue::String(name) => {
                let known = PROTOCOLS.iter().find(|(known, _)| known == name).map(|(_, number)| *number);
                if known.is_none() {
                    let problem = format!("{name:?} is no protocol that is known by name{}", did_you_mean(name, names));
                    self.errors.add(value.span().start, path, problem, accepted);
                }
                known
            }
            DeValue::Integer(_) => document::integer(value, path, 0, 255, self.errors).map(|number| number as u8),
            _ => {
                wrong_kind(value, path, &accepted, self.errors);
                None
            }
        }
    }

    fn nets(&mut self, table: &Table, path: &Path, key: &str) -> Option<Vec<Net>> {
        let Some(value) = table.get(key) else { return Some(Vec::new()) };
        if value.get_ref().as_str() == Some("any") {
            return Some(Vec::new());
        }
        self.several(value, &path.key(key), |reader, value, path| {
            let accepted =
                "an address or a prefix, such as \"10.0.1.0/24\" or \"2001:db8::/32\", a list of them, or \"any\"";
            let text = document::string(value, path, accepted, reader.errors)?;
            let net = Net::parse(text);
            if net.is_none() {
                let problem = format!("{text:?} is no prefix, or has bits beyond its length");
                reader.errors.add(value.span().start, path, problem, accepted);
            }
            net
        })
    }

    /// Ports, or types and codes of ICMP.
    fn services(&mut self, table: &Table, path: &Path, key: &str, protocol: Option<u8>) -> Option<Vec<Range>> {
        let Some(value) = table.get(key) else { return Some(Vec::new()) };
        let (path, icmp) = (path.key(key), key == "icmp_type");
        let needed: &[&str] = if icmp { &["icmp", "icmpv6"] } else { &["tcp", "udp"] };
        let given = PROTOCOLS.iter().find(|(_, number)| Some(*number) == protocol).map(|(name, _)| *name);
        if !given.is_some_and(|name| needed.contains(&name)) {
            let problem = "the protocol of this rule has none";
            self.errors.add(value.span().start, &path, problem, format!("with protocol {}", needed.join(" or ")));
            return None;
        }
        self.several(value, &path, |reader, value, path| reader.service(value, path, icmp))
    }

    fn service(&mut self, value: &Value, path: &Path, icmp: bool) -> Option<Range> {
        let (accepted, most) = match icmp {
            true => ("a type from 0 to 255, \"TYPE/CODE\", or a list of them", 255),
            false => ("a port from 0 to 65535, \"FIRST-LAST\", or a list of them", 65535),
        };
        let found = match value.get_ref() {
            DeValue::Integer(integer) => {
                let number = u16::from_str_radix(integer.as_str(), integer.radix()).ok().filter(|n| *n <= most);
                number.map(|number| if icmp { number << 8..=number << 8 | 0xff } else { number..=number })
            }
            DeValue::String(text) if icmp => text.split_once('/').and_then(|(kind, code)| {
                let service = u16::from(kind.parse::<u8>().ok()?) << 8 | u16::from(code.parse::<u8>().ok()?);
                Some(service..=service)
            }),
            DeValue::String(text) => text.split_once('-').and_then(|(first, last)| {
                let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
                (first <= last).then_some(first..=last)
            }),
            _ => None,
        };
        if found.is_none() {
            self.errors.add(value.span().start, path, "not a value of this key", accepted);
        }
        found
    }
}

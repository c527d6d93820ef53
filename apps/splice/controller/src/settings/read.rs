//! Reads `[controllers.splice]`. docs/splice.md describes every key.

mod pools;

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use baker::syntax::duration;
use control::access_log::LogSettings;
use control::document::{self, Errors, Path, Table, Value};
use control::entries::PortNames;
use control::messages::{did_you_mean, list};
use toml::de::DeValue;

use super::address::{holds, mapped, text_of};
use crate::settings::{
    Addressing, Balance, Check, HttpCheck, Interface, MOST_IDLE, PathMatch, Pool, Reuse, Route, Server, Service,
    Settings, Timeouts, WhenFull,
};

const SECOND: u64 = 1_000_000_000;
/// Servers of a pool at most.
const MOST_SERVERS: usize = 1000;
/// Own ports are not below, where nothing else is said.
const LOWEST_PORT: u16 = 1024;
/// Own ports at interfaces that the kernel has, too: below those that Linux gives its own connections
/// (`net.ipv4.ip_local_port_range`) unless told otherwise.
const SHARED_PORTS: (u16, u16) = (10_000, 32_767);
/// Services at most: as many as the program's table has room for.
const MOST_SERVICES: usize = 1000;

/// Reads the settings. None where there are errors.
pub fn settings(value: &Value, path: &Path, ports: &PortNames, errors: &mut Errors) -> Option<Settings> {
    let table = document::table(value, path, errors)?;
    document::only(table, path, &["interfaces", "pools", "services", "timeouts", "limits", "log"], errors);
    let mut reader = Reader { ports, errors };
    let interfaces = reader.named(table, path, "interfaces", Reader::interface)?;
    let interfaces: Vec<Arc<Interface>> = interfaces.into_iter().map(|(_, interface)| Arc::new(interface)).collect();
    // What is wrong about one of these would be said of all that need it, too.
    if !reader.errors.is_empty() {
        return None;
    }
    let pools =
        reader.named(table, path, "pools", |reader, name, value, path| reader.pool(name, value, path, &interfaces))?;
    let pools: Vec<Arc<Pool>> = pools.into_iter().map(|(_, pool)| Arc::new(pool)).collect();
    if !reader.errors.is_empty() {
        return None;
    }
    let services =
        reader.named(table, path, "services", |reader, name, value, path| reader.service(name, value, path, &pools))?;
    let services: Vec<Service> = services.into_iter().map(|(_, service)| service).collect();
    reader.no_endpoint_twice(value, path, &services);
    let timeouts = reader.timeouts(table.get("timeouts"), &path.key("timeouts"));
    let log = table.get("log").and_then(|value| LogSettings::read(value, &path.key("log"), reader.errors));
    let (mut request_head, mut request_body, mut connections) = (16384, u64::MAX, 65536);
    let mut when_full = WhenFull::Refuse;
    if let Some(value) = table.get("limits") {
        let path = path.key("limits");
        let limits = document::table(value, &path, reader.errors)?;
        document::only(limits, &path, &["request_head", "request_body", "connections", "when_full"], reader.errors);
        request_head = reader.number(limits, &path, "request_head", 256, 65536, request_head);
        request_body = reader.number(limits, &path, "request_body", 0, 1 << 60, request_body);
        connections = reader.number(limits, &path, "connections", 1, 120_000, connections);
        let names = [("refuse", WhenFull::Refuse), ("oldest_idle", WhenFull::OldestIdle)];
        when_full = reader.one_of(limits, &path, "when_full", &names, when_full);
    }
    let (request_head, connections) = (request_head as usize, connections as usize);
    errors.is_empty().then_some(Settings {
        interfaces,
        pools,
        services,
        timeouts,
        request_head,
        request_body,
        connections,
        when_full,
        log,
    })
}

struct Reader<'r, 't> {
    ports: &'r PortNames,
    errors: &'r mut Errors<'t>,
}

impl Reader<'_, '_> {
    /// A table of tables by name; those that are wrong are left out.
    fn named<T>(
        &mut self,
        table: &Table,
        path: &Path,
        key: &str,
        mut one: impl FnMut(&mut Self, &str, &Value, &Path) -> Option<T>,
    ) -> Option<Vec<(String, T)>> {
        let path = path.key(key);
        let Some(value) = table.get(key) else {
            self.errors.add(0, &path, "is missing", format!("[{path}.NAME]"));
            return None;
        };
        let mut found = Vec::new();
        for (name, value) in document::table(value, &path, self.errors)? {
            let name: &str = name.get_ref();
            found.extend(one(self, name, value, &path.key(name)).map(|own| (name.to_owned(), own)));
        }
        Some(found)
    }

    fn number(&mut self, table: &Table, path: &Path, key: &str, min: u64, max: u64, default: u64) -> u64 {
        let found = table.get(key).map(|value| document::integer(value, &path.key(key), min, max, self.errors));
        found.flatten().unwrap_or(default)
    }

    fn time(&mut self, table: &Table, path: &Path, key: &str, default: u64) -> u64 {
        let (Some(value), path) = (table.get(key), path.key(key)) else { return default };
        let accepted = "a time from \"1ms\" to \"24h\", such as \"5s\"";
        let Some(text) = document::string(value, &path, accepted, self.errors) else { return default };
        let found = duration(text).filter(|time| (1_000_000..=24 * 3600 * SECOND).contains(time));
        if found.is_none() {
            self.errors.add(value.span().start, &path, format!("{text:?} is no such time"), accepted);
        }
        found.unwrap_or(default)
    }

    /// What a value's text stands for.
    fn parsed<T>(
        &mut self,
        value: &Value,
        path: &Path,
        accepted: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        document::parsed(value, path, accepted, self.errors, parse)
    }

    /// What one of some words stands for.
    fn one_of<T: Copy>(&mut self, table: &Table, path: &Path, key: &str, names: &[(&str, T)], default: T) -> T {
        let Some(value) = table.get(key) else { return default };
        let accepted = format!("one of {}", list(names.iter().map(|(name, _)| *name)));
        let found = self.parsed(value, &path.key(key), &accepted, |text| {
            names.iter().find(|(name, _)| *name == text).map(|(_, meaning)| *meaning)
        });
        found.unwrap_or(default)
    }

    /// A value, or a list of them.
    fn several<T>(
        &mut self,
        table: &Table,
        path: &Path,
        key: &str,
        mut one: impl FnMut(&mut Self, &Value, &Path) -> Option<T>,
    ) -> Option<Vec<T>> {
        let (Some(value), path) = (table.get(key), path.key(key)) else { return Some(Vec::new()) };
        let DeValue::Array(values) = value.get_ref() else { return Some(vec![one(self, value, &path)?]) };
        values.iter().enumerate().map(|(index, value)| one(self, value, &path.index(index))).collect()
    }

    fn missing(&mut self, value: &Value, path: &Path, key: &str, accepted: &str) {
        self.errors.add(value.span().start, path, format!("`{key}` is missing"), accepted);
    }

    fn interface(&mut self, name: &str, value: &Value, path: &Path) -> Option<Interface> {
        let table = document::table(value, path, self.errors)?;
        document::only(table, path, &["mac", "addresses", "gateways", "ports"], self.errors);
        let port = self.ports.number(name).filter(|number| *number < 64);
        if port.is_none() {
            let names = || self.ports.names();
            let problem = format!("there is no port {name:?} with a number below 64{}", did_you_mean(name, names()));
            let accepted = list(names());
            self.errors.add(value.span().start, path, problem, accepted);
        }
        let accepted = "an Ethernet address of one station, such as \"02:00:00:00:00:01\"";
        // Without, the interface is the kernel's, too.
        let given = table.get("mac");
        let mac = given.map_or(Some([0; 6]), |mac| self.parsed(mac, &path.key("mac"), accepted, mac_address));
        let accepted = "an own address with the length of its prefix, such as \"10.0.2.254/24\"";
        let addresses =
            self.several(table, path, "addresses", |reader, value, path| reader.parsed(value, path, accepted, prefix));
        let accepted = "the address of a router";
        let gateways = self.several(table, path, "gateways", |reader, value, path| {
            reader.parsed(value, path, accepted, |text| Some(mapped(text.parse().ok()?)))
        });
        let accepted = "the first and the last port, such as \"1024-65535\"";
        let ports = match table.get("ports") {
            None => Some(if given.is_some() { (LOWEST_PORT, u16::MAX) } else { SHARED_PORTS }),
            Some(value) => self.parsed(value, &path.key("ports"), accepted, |text| {
                let (first, last) = text.split_once('-')?;
                let ports: (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
                (0 < ports.0 && ports.0 <= ports.1).then_some(ports)
            }),
        };
        let (port, mac, ports) = (port?, mac?, ports?);
        Some(Interface { port, mac, is_shared: given.is_none(), addresses: addresses?, gateways: gateways?, ports })
    }

    fn service(&mut self, name: &str, value: &Value, path: &Path, pools: &[Arc<Pool>]) -> Option<Service> {
        let table = document::table(value, path, self.errors)?;
        document::only(table, path, &["address", "routes", "pool"], self.errors);
        let accepted = "an address with a port, such as \"10.0.1.80:80\", or a list of them";
        let endpoints =
            self.several(table, path, "address", |reader, value, path| reader.parsed(value, path, accepted, endpoint))?;
        if endpoints.is_empty() {
            self.missing(value, path, "address", accepted);
        }
        let mut routes = Vec::new();
        if let Some(value) = table.get("routes") {
            let path = path.key("routes");
            for (index, value) in document::array(value, &path, self.errors)?.iter().enumerate() {
                routes.extend(self.route(value, &path.index(index), pools));
            }
        }
        if let Some(value) = table.get("pool") {
            let pool = self.pool_named(value, &path.key("pool"), pools);
            routes.extend(pool.map(|pool| Route { host: None, path: PathMatch::Any, methods: Vec::new(), pool }));
        }
        if routes.is_empty() {
            self.missing(value, path, "pool", "a pool for what no route takes, or routes");
        }
        Some(Service { name: name.into(), endpoints, routes })
    }

    fn pool_named(&mut self, value: &Value, path: &Path, pools: &[Arc<Pool>]) -> Option<usize> {
        let names = || pools.iter().map(|pool| pool.name.as_str());
        let accepted = format!("one of {}", list(names()));
        let name = document::string(value, path, &accepted, self.errors)?;
        let found = names().position(|own| own == name);
        if found.is_none() {
            let problem = format!("there is no pool {name:?}{}", did_you_mean(name, names()));
            self.errors.add(value.span().start, path, problem, accepted);
        }
        found
    }

    fn route(&mut self, value: &Value, path: &Path, pools: &[Arc<Pool>]) -> Option<Route> {
        let table = document::table(value, path, self.errors)?;
        document::only(table, path, &["host", "path", "method", "pool"], self.errors);
        let host = document::text_at(table, path, "host", "a host's name, or \"*.example\"", self.errors);
        let accepted = "a path such as \"/index.html\", or with * at its end for all that begin so";
        let matched = match table.get("path") {
            None => PathMatch::Any,
            Some(value) => self.parsed(value, &path.key("path"), accepted, |text| {
                let (own, prefix) = text.strip_suffix('*').map_or((text, false), |own| (own, true));
                (own.starts_with('/') && !own.contains('*'))
                    .then(|| if prefix { PathMatch::Prefix(own.into()) } else { PathMatch::Exact(own.into()) })
            })?,
        };
        let accepted = "a method such as \"GET\", or a list of them";
        let methods = self.several(table, path, "method", |reader, value, path| {
            reader.parsed(value, path, accepted, |text| {
                (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_uppercase())).then(|| text.to_owned())
            })
        })?;
        let Some(pool) = table.get("pool") else {
            self.missing(value, path, "pool", "the name of a pool");
            return None;
        };
        let pool = self.pool_named(pool, &path.key("pool"), pools)?;
        Some(Route { host: host.map(|host| host.to_ascii_lowercase()), path: matched, methods, pool })
    }

    fn no_endpoint_twice(&mut self, value: &Value, path: &Path, services: &[Service]) {
        let path = path.key("services");
        let all: Vec<_> = services.iter().flat_map(|service| service.endpoints.iter()).collect();
        if all.len() > MOST_SERVICES {
            let problem = format!("{} addresses of services", all.len());
            self.errors.add(value.span().start, &path, problem, format!("{MOST_SERVICES} at most"));
        }
        let mut seen = Vec::new();
        for service in services {
            for (address, port) in &service.endpoints {
                if seen.contains(&(address, port)) {
                    let problem = format!("{} is there twice", text_of(*address, *port));
                    let path = path.key(&service.name);
                    let at = inside(value, &["services", &service.name, "address"]);
                    self.errors.add(at.span().start, &path.key("address"), problem, "addresses that differ");
                }
                seen.push((address, port));
            }
        }
    }

    fn timeouts(&mut self, value: Option<&Value>, path: &Path) -> Timeouts {
        let mut timeouts = Timeouts {
            request: 10 * SECOND,
            connect: SECOND,
            response: 60 * SECOND,
            keep_alive: 60 * SECOND,
            idle: 3600 * SECOND,
            idle_pool: 30 * SECOND,
        };
        let Some(value) = value else { return timeouts };
        let Some(table) = document::table(value, path, self.errors) else { return timeouts };
        document::only(
            table,
            path,
            &["request", "connect", "response", "keep_alive", "idle", "idle_pool"],
            self.errors,
        );
        timeouts.request = self.time(table, path, "request", timeouts.request);
        timeouts.connect = self.time(table, path, "connect", timeouts.connect);
        timeouts.response = self.time(table, path, "response", timeouts.response);
        timeouts.keep_alive = self.time(table, path, "keep_alive", timeouts.keep_alive);
        timeouts.idle = self.time(table, path, "idle", timeouts.idle);
        timeouts.idle_pool = self.time(table, path, "idle_pool", timeouts.idle_pool);
        timeouts
    }
}

/// A value inside others, or the innermost of these that is there.
fn inside<'v, 't>(value: &'v Value<'t>, keys: &[&str]) -> &'v Value<'t> {
    let Some((key, rest)) = keys.split_first() else { return value };
    let found = value.get_ref().as_table().and_then(|table| table.get(*key));
    found.map_or(value, |found| inside(found, rest))
}

fn mac_address(text: &str) -> Option<[u8; 6]> {
    let mut mac = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut mac {
        *byte = parts.next().filter(|part| part.len() == 2).and_then(|part| u8::from_str_radix(part, 16).ok())?;
    }
    (parts.next().is_none() && mac[0] & 1 == 0 && mac != [0; 6]).then_some(mac)
}

/// An address with the length of its prefix, as of IPv6.
fn prefix(text: &str) -> Option<(Ipv6Addr, u8)> {
    let (address, length) = text.split_once('/')?;
    let (address, length): (IpAddr, u8) = (address.parse().ok()?, length.parse().ok()?);
    let most = if address.is_ipv4() { 32 } else { 128 };
    (length <= most).then(|| (mapped(address), 128 - most + length))
}

fn endpoint(text: &str) -> Option<(Ipv6Addr, u16)> {
    let found: std::net::SocketAddr = text.parse().ok()?;
    (found.port() != 0 && !found.ip().is_unspecified()).then(|| (mapped(found.ip()), found.port()))
}

//! Reads `[controllers.media.pools]`: origins, how they are chosen and checked.

use control::messages::{did_you_mean, list};

use super::*;
use crate::settings::pools::{Balance, Check, Kind, Pool, Server};

/// Pools, and servers of one, at most.
const MOST: usize = 1024;

impl Reader<'_, '_> {
    pub(super) fn pools(&mut self, value: &Value, path: &Path) -> Vec<Pool> {
        let Some(table) = document::table(value, path, self.errors) else { return Vec::new() };
        if table.len() > MOST {
            self.errors.add(value.span().start, path, format!("{} pools", table.len()), format!("{MOST} at most"));
        }
        let one = |(name, value): (&toml::Spanned<_>, &Value)| {
            let name: &std::borrow::Cow<str> = name.get_ref();
            self.pool(name, value, &path.key(name))
        };
        table.iter().filter_map(one).collect()
    }

    fn pool(&mut self, name: &str, value: &Value, path: &Path) -> Option<Pool> {
        let table = document::table(value, path, self.errors)?;
        document::only(table, path, &["balance", "servers", "check"], self.errors);
        if !is_name(name) {
            let accepted = "letters, digits, - and _";
            self.errors.add(value.span().start, path, format!("{name:?} can't be a name"), accepted);
        }
        let balances = [("round_robin", Balance::RoundRobin), ("least_sessions", Balance::LeastSessions)];
        let balance = match table.get("balance") {
            None => Balance::RoundRobin,
            Some(value) => {
                let accepted = format!("one of {}", list(balances.map(|(name, _)| name)));
                self.parsed(value, &path.key("balance"), &accepted, |text| {
                    balances.iter().find(|(name, _)| *name == text).map(|(_, balance)| *balance)
                })?
            }
        };
        let check = self.check(table.get("check"), &path.key("check"))?;
        let path = path.key("servers");
        let Some(list) = table.get("servers") else {
            self.errors.add(value.span().start, &path, "is missing", "at least one server");
            return None;
        };
        let (servers, source) = match list.get_ref() {
            DeValue::Table(_) => (Vec::new(), Some(self.source(list, &path, name)?)),
            _ => (self.servers(list, &path)?, None),
        };
        Some(Pool { name: name.to_owned(), kind: Kind::Origins, balance, servers, source: source.map(Arc::new), check })
    }

    /// Servers of a pool, whose names and addresses differ.
    pub(super) fn servers(&mut self, list: &Value, path: &Path) -> Option<Vec<Server>> {
        let Some(values) = list.get_ref().as_array() else {
            document::wrong_kind(list, path, "a list of servers, or { etcd = … } or { kubernetes = … }", self.errors);
            return None;
        };
        if values.is_empty() || values.len() > MOST {
            let problem = format!("{} servers", values.len());
            self.errors.add(list.span().start, path, problem, format!("1 to {MOST}"));
        }
        let mut servers: Vec<Server> = Vec::new();
        for (index, value) in values.iter().enumerate() {
            let path = path.index(index);
            let Some(server) = self.server(value, &path) else { continue };
            let same = |own: &Server| (&own.host, own.port) == (&server.host, server.port);
            if servers.iter().any(|own| own.name == server.name || same(own)) {
                let problem = format!("there are two servers {:?}", server.name);
                self.errors.add(value.span().start, &path, problem, "names and addresses that differ");
            }
            servers.push(server);
        }
        Some(servers)
    }

    fn server(&mut self, value: &Value, path: &Path) -> Option<Server> {
        let table = document::table(value, path, self.errors)?;
        document::only(table, path, &["name", "address", "weight"], self.errors);
        let Some(given) = table.get("address") else {
            self.errors.add(value.span().start, path, "`address` is missing", ADDRESS);
            return None;
        };
        let (host, port) = self.address(given, &path.key("address"))?;
        let name = document::text_at(table, path, "name", "a name", self.errors);
        let weight = self.number(table, path, "weight", 0, 1000, 1) as u32;
        let name = name.unwrap_or_else(|| wire::rtsp::url::authority(&host, port));
        Some(Server { name, host, port, weight })
    }

    /// A host, and its port if there is one.
    pub(super) fn address(&mut self, given: &Value, path: &Path) -> Option<(String, Option<u16>)> {
        self.parsed(given, path, ADDRESS, |text| {
            let (host, port) = host_port(text)?;
            Some((host.to_ascii_lowercase(), port))
        })
    }

    pub(super) fn check(&mut self, value: Option<&Value>, path: &Path) -> Option<Check> {
        let mut check = Check::default();
        let Some(value) = value else { return Some(check) };
        let table = document::table(value, path, self.errors)?;
        document::only(table, path, &["path", "status", "interval", "timeout", "rise", "fall"], self.errors);
        if let Some(value) = table.get("path") {
            check.path = Some(self.parsed(value, &path.key("path"), PATH, plain_path)?);
        }
        check.status = match table.get("status") {
            Some(_) => Some(self.number(table, path, "status", 100, 599, 200) as u16),
            None => check.path.as_ref().map(|_| 200),
        };
        check.interval = self.time(table, path, "interval", check.interval);
        check.timeout = self.time(table, path, "timeout", check.timeout);
        check.rise = self.number(table, path, "rise", 1, 100, check.rise.into()) as u32;
        check.fall = self.number(table, path, "fall", 1, 100, check.fall.into()) as u32;
        Some(check)
    }

    /// The pool of a stream and the path of its URL there: the URL has the pool in the place of a host.
    pub(super) fn pool_of(&mut self, table: &Table, value: &Value, path: &Path) -> Option<(String, String)> {
        let names = || self.pools.iter().map(|pool| pool.name.as_str());
        let given = table.get("pool")?;
        let accepted = format!("one of {}", list(names()));
        let name = given.get_ref().as_str().unwrap_or_default().to_owned();
        if !names().any(|own| own == name) {
            let problem = format!("there is no pool {name:?}{}", did_you_mean(&name, names()));
            self.errors.add(given.span().start, &path.key("pool"), problem, accepted);
            return None;
        }
        let Some(asked) = table.get("path") else {
            self.errors.add(value.span().start, path, "`path` is missing", PATH);
            return None;
        };
        let asked = self.parsed(asked, &path.key("path"), PATH, plain_path)?;
        Some((format!("rtsp://{name}{asked}"), name))
    }
}

const ADDRESS: &str = "a host with a port or without, such as \"10.0.2.11:554\" or \"camera.example\"";
const PATH: &str = "a path that begins with /";

fn plain_path(text: &str) -> Option<String> {
    (text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic())).then(|| text.to_owned())
}

/// It stands in the place of a host.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

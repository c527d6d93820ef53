//! Reads `[controllers.media.peers]`: other proxies, which are asked before origins.

use control::messages::list;

use super::*;
use crate::settings::members::Source;
use crate::settings::peers::{Peers, is_peer};
use crate::settings::pools::{Balance, Kind, Pool, Server};

/// Where a pod is told its name.
const POD: [&str; 2] = ["POD_NAME", "HOSTNAME"];

impl Reader<'_, '_> {
    /// What this proxy is among others; its peers become pools.
    pub(super) fn peers(&mut self, table: &Table, path: &Path) -> Option<Peers> {
        let (value, path) = (table.get("peers")?, path.key("peers"));
        let table = document::table(value, &path, self.errors)?;
        document::only(table, &path, &["name", "siblings", "parents", "user", "password", "check"], self.errors);
        let credentials = self.credentials(table, value, &path);
        let check = self.check(table.get("check"), &path.key("check"))?;
        let name = table.get("name").and_then(|value| {
            let accepted = "letters, digits, -, _, . and :";
            self.parsed(value, &path.key("name"), accepted, |text| is_peer(text).then(|| text.to_owned()))
        });
        let mut own = Peers { name, weight: 1, credentials, announce: None };
        for kind in [Kind::Siblings, Kind::Parents] {
            let (Some(given), path) = (table.get(kind.name()), path.key(kind.name())) else { continue };
            let (servers, source) = match given.get_ref() {
                DeValue::Table(_) => (Vec::new(), Some(Arc::new(self.peers_source(given, &path, kind, &mut own)?))),
                _ => (self.listed_peers(given, &path, kind, &mut own)?, None),
            };
            if self.pools.iter().any(|pool| pool.name == kind.name()) {
                let problem = format!("there is a pool {:?}, too", kind.name());
                self.errors.add(given.span().start, &path, problem, "another name for that pool");
            }
            if kind == Kind::Siblings && source.is_some() && own.name.is_none() && !table.contains_key("name") {
                let accepted =
                    format!("`name` beside `siblings`; for Kubernetes {} in the environment, too", list(POD));
                self.errors.add(given.span().start, &path, "this proxy has no name to find itself by", accepted);
            }
            if !servers.is_empty() || source.is_some() {
                let (name, balance, check) = (kind.name().to_owned(), Balance::RoundRobin, check.clone());
                self.pools.push(Pool { name, kind, balance, servers, source, check });
            }
        }
        Some(own)
    }

    /// Peers that are listed, without this proxy.
    fn listed_peers(&mut self, given: &Value, path: &Path, kind: Kind, own: &mut Peers) -> Option<Vec<Server>> {
        let mut servers = self.servers(given, path)?;
        if let Some(wrong) = servers.iter().find(|server| !is_peer(&server.name)) {
            let problem = format!("{:?} can't be the name of a peer", wrong.name);
            self.errors.add(given.span().start, path, problem, "letters, digits, -, _, . and :");
        }
        let at = servers.iter().position(|server| Some(&server.name) == own.name.as_ref());
        match (kind, at) {
            (Kind::Siblings, Some(at)) => own.weight = servers.remove(at).weight,
            (Kind::Siblings, None) => {
                let problem = "this proxy is none of them";
                let names = list(servers.iter().map(|server| server.name.as_str()));
                let accepted = format!("all of them, `name` is one of {names}");
                self.errors.add(given.span().start, path, problem, accepted);
            }
            (_, Some(_)) => {
                let problem = "this proxy is one of them";
                self.errors.add(given.span().start, path, problem, "other proxies, with names of their own");
            }
            (_, None) => {}
        }
        Some(servers)
    }

    /// Who knows peers. Among siblings that are found a proxy has a name by which it finds itself.
    fn peers_source(&mut self, given: &Value, path: &Path, kind: Kind, own: &mut Peers) -> Option<Source> {
        if kind != Kind::Siblings {
            return self.source(given, path, kind.name());
        }
        let (source, announce) = self.source_of_siblings(given, path, kind.name())?;
        own.announce = announce;
        if matches!(source, Source::Kubernetes(_)) {
            let told = || POD.iter().filter_map(|key| std::env::var(key).ok()).find(|text| is_peer(text));
            own.name = own.name.take().or_else(told);
        }
        Some(source)
    }
}

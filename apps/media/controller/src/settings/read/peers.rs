//! Reads `[controllers.media.peers]`: other proxies, which are asked before origins.

use control::messages::list;

use super::*;
use crate::settings::peers::Peers;
use crate::settings::pools::{Balance, Kind, Pool};

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
        let mut own = Peers { name, weight: 1, credentials };
        for kind in [Kind::Siblings, Kind::Parents] {
            let (Some(given), path) = (table.get(kind.name()), path.key(kind.name())) else { continue };
            let mut servers = self.servers(given, &path)?;
            if let Some(wrong) = servers.iter().find(|server| !is_peer(&server.name)) {
                let problem = format!("{:?} can't be the name of a peer", wrong.name);
                self.errors.add(given.span().start, &path, problem, "letters, digits, -, _, . and :");
            }
            let at = servers.iter().position(|server| Some(&server.name) == own.name.as_ref());
            match (kind, at) {
                (Kind::Siblings, Some(at)) => own.weight = servers.remove(at).weight,
                (Kind::Siblings, None) => {
                    let problem = "this proxy is none of them";
                    let names = list(servers.iter().map(|server| server.name.as_str()));
                    self.errors.add(
                        given.span().start,
                        &path,
                        problem,
                        format!("all of them, `name` is one of {names}"),
                    );
                }
                (_, Some(_)) => {
                    let problem = "this proxy is one of them";
                    self.errors.add(given.span().start, &path, problem, "other proxies, with names of their own");
                }
                (_, None) => {}
            }
            if self.pools.iter().any(|pool| pool.name == kind.name()) {
                let problem = format!("there is a pool {:?}, too", kind.name());
                self.errors.add(given.span().start, &path, problem, "another name for that pool");
            }
            if !servers.is_empty() {
                let (name, balance, check) = (kind.name().to_owned(), Balance::RoundRobin, check.clone());
                self.pools.push(Pool { name, kind, balance, servers, check });
            }
        }
        Some(own)
    }
}

/// What can stand in `Via` as the name of a host (RFC 2068 section 14.44).
fn is_peer(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:[]".contains(&byte))
}

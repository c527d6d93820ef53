//! What is found under names, and which of it are members. Others can write where members are found: what they write
//! may be anything.

use std::collections::{BTreeMap, BTreeSet};

use wire::rtsp::url::host_port;

use crate::settings::peers::is_peer;
use crate::settings::pools::Server;

/// Members of a pool at most.
pub const MOST_MEMBERS: usize = 1024;
/// What is kept of what is found at most.
pub const MOST_FOUND: usize = 4096;
/// The longest name, and the longest host (RFC 1035 section 2.3.4), in bytes.
const LONGEST_NAME: usize = 253;
/// The highest weight.
const MOST_WEIGHT: u64 = 1000;

/// Why something is no member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// What is said of it can't be read.
    Value,
    /// Its name can't be one.
    Name,
    /// Its host can't be one.
    Host,
    /// It has no port, or not the one that is asked for.
    Port,
    /// Its weight can't be one.
    Weight,
    /// Another one has its name, or its address.
    Twice,
    /// There are too many.
    Beyond,
}

impl Reason {
    /// As it is shown and counted.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Value => "value",
            Reason::Name => "name",
            Reason::Host => "host",
            Reason::Port => "port",
            Reason::Weight => "weight",
            Reason::Twice => "twice",
            Reason::Beyond => "beyond",
        }
    }
}

/// A server, or why it is none.
pub type Found = Result<Server, Reason>;

/// A server of what is said of it.
///
/// # Errors
/// What is wrong.
pub fn server(name: &str, host: &str, port: Option<u64>, weight: u64) -> Found {
    if name.len() > LONGEST_NAME || !is_peer(name) {
        return Err(Reason::Name);
    }
    let host = host.to_ascii_lowercase();
    // A host is one alone, without a port.
    let is_host = host.parse::<std::net::IpAddr>().is_ok() || host_port(&host) == Some((&host, None));
    if host.len() > LONGEST_NAME || !is_host || host.contains('%') {
        return Err(Reason::Host);
    }
    let port = match port {
        None => None,
        Some(port) => Some(u16::try_from(port).ok().filter(|port| *port != 0).ok_or(Reason::Port)?),
    };
    let weight = u32::try_from(weight).ok().filter(|own| u64::from(*own) <= MOST_WEIGHT).ok_or(Reason::Weight)?;
    Ok(Server { name: name.to_owned(), host, port, weight })
}

/// Members, and what is not, by its key: of two with one name or address the first one is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// Members.
    pub servers: Vec<Server>,
    /// What was left out, and why.
    pub left_out: BTreeMap<String, Reason>,
}

fn address(own: &Server) -> (&str, u16) {
    (&own.host, own.port.unwrap_or(wire::rtsp::url::PORT))
}

/// Says of all that is found, in order, what are members.
pub fn judge<'f>(found: impl IntoIterator<Item = (&'f str, &'f Found)>) -> Judged {
    let mut judged = Judged::default();
    let (mut names, mut addresses) = (BTreeSet::new(), BTreeSet::new());
    for (key, found) in found {
        let why = match found {
            Err(why) => *why,
            Ok(_) if judged.servers.len() >= MOST_MEMBERS => Reason::Beyond,
            Ok(own) if names.contains(&own.name) || addresses.contains(&address(own)) => Reason::Twice,
            Ok(own) => {
                names.insert(&own.name);
                addresses.insert(address(own));
                judged.servers.push(own.clone());
                continue;
            }
        };
        judged.left_out.insert(key.to_owned(), why);
    }
    judged
}

/// What is found, by key. Where there is too much it is the first of it, in the order of the keys, so that all who
/// look keep the same.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    found: BTreeMap<String, Found>,
    /// Whether there is more.
    beyond: bool,
}

impl Kept {
    /// Something is found now.
    pub fn set(&mut self, key: &str, found: Found) {
        self.found.insert(short(key), found);
        if self.found.len() > MOST_FOUND {
            self.found.pop_last();
            self.beyond = true;
        }
    }

    /// It is there no more. True where others may be found in its place, which are not kept.
    pub fn remove(&mut self, key: &str) -> bool {
        self.found.remove(&short(key)).is_some() && self.beyond
    }

    /// Whether there is room for more.
    pub fn has_room(&self) -> bool {
        !self.beyond
    }

    /// What are members.
    pub fn judge(&self) -> Judged {
        judge(self.found.iter().map(|(key, found)| (key.as_str(), found)))
    }
}

/// A key, as it is kept: of one that is too long for a name, the beginning with a mark that no name has.
fn short(key: &str) -> String {
    if key.len() <= LONGEST_NAME { key.to_owned() } else { key.chars().take(60).chain(['…']).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_a_server() {
        let good = server("e-1.x:[]", "Edge.Example", Some(8554), 3).unwrap();
        assert_eq!((good.host.as_str(), good.port, good.weight), ("edge.example", Some(8554), 3));
        assert_eq!(server("e", "2001:db8::1", None, 0).unwrap().host, "2001:db8::1");
        let long = "x".repeat(254);
        for (name, host, port, weight, expected) in [
            ("", "h", None, 1, Reason::Name),
            ("a b", "h", None, 1, Reason::Name),
            ("a,b", "h", None, 1, Reason::Name),
            (&long, "h", None, 1, Reason::Name),
            ("e", "", None, 1, Reason::Host),
            ("e", "h:1", None, 1, Reason::Host),
            ("e", "[::1]", None, 1, Reason::Host),
            ("e", "h/../x", None, 1, Reason::Host),
            ("e", "h\r\nX: y", None, 1, Reason::Host),
            ("e", "fe80::1%eth0", None, 1, Reason::Host),
            ("e", &long, None, 1, Reason::Host),
            ("e", "h", Some(0), 1, Reason::Port),
            ("e", "h", Some(65536), 1, Reason::Port),
            ("e", "h", None, 1001, Reason::Weight),
            ("e", "h", None, u64::MAX, Reason::Weight),
        ] {
            assert_eq!(server(name, host, port, weight), Err(expected), "{name} {host}");
        }
    }

    #[test]
    fn the_first_of_two_is_a_member_and_there_are_not_too_many() {
        let found = |name: &str, host: &str| server(name, host, Some(554), 1);
        let mut kept = Kept::default();
        for (key, found) in [
            ("d", found("d", "h4")),
            ("c", found("c", "h1")),
            ("b", Err(Reason::Value)),
            ("a", found("a", "h1")),
            ("e", found("a", "h5")),
        ] {
            kept.set(key, found);
        }
        let Judged { servers, left_out } = kept.judge();
        assert_eq!(servers.iter().map(|own| &*own.name).collect::<Vec<_>>(), ["a", "d"]);
        let expected = [("b", Reason::Value), ("c", Reason::Twice), ("e", Reason::Twice)];
        assert_eq!(left_out, expected.map(|(key, why)| (key.to_owned(), why)).into());
        assert!(!kept.remove("a"));
        assert_eq!(kept.judge().servers[0].name, "c");

        // Whatever the order in which they come, the same ones are kept.
        let all: Vec<String> = (0..MOST_FOUND + 100).map(|number| format!("m{number:05}")).collect();
        let keep = |names: &mut dyn Iterator<Item = &String>| {
            let mut kept = Kept::default();
            names.for_each(|name| kept.set(name, found(name, &format!("h-{name}"))));
            kept
        };
        let (mut one, other) = (keep(&mut all.iter()), keep(&mut all.iter().rev()));
        assert_eq!(one.judge(), other.judge());
        assert_eq!(one.judge().servers.len(), MOST_MEMBERS);
        assert_eq!(one.judge().left_out.len(), MOST_FOUND - MOST_MEMBERS);
        assert!(one.judge().left_out.values().all(|why| *why == Reason::Beyond));
        assert!(!one.remove("m99999") && one.remove("m00007"));
    }
}

//! The flows of a running firewall, as operators see them: which carry most, and the end of some by command.

use std::cmp::Reverse;
use std::net::{IpAddr, SocketAddr};

use control::application::QueryError;
use control::messages::{did_you_mean, list};
use dataplane::controller::{NameError, NamedTables, Table};
use dataplane::monotonic_ns;
use serde::{Deserialize, Serialize};

use super::flow::{FlowEntry, FlowKey, KILLED, STATES, TABLES};
use super::rates::Rates;
use super::rule::Net;
use super::settings::PROTOCOLS;

/// Flows that are listed where it is not said how many, and at most.
pub const USUAL: usize = 100;
/// See [`USUAL`].
pub const MOST: usize = 10_000;

/// By what flows are sorted, those with most first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Sort {
    /// Bits per second now.
    #[default]
    Rate,
    /// Bytes of both directions.
    Bytes,
    /// Packets of both directions.
    Packets,
    /// Time since the first packet.
    Age,
    /// Time since the last packet.
    Idle,
}

/// Which flows are meant: all that fit everything that is said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    /// One of their ends has this address, is of this prefix, or is this address with this port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// One of their ends has this port; of ICMP the identifier or the type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Of this protocol: a name that rules know, or a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// In this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Let in by the rule with this name or number; 0: by none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Which of them come first.
    #[serde(default)]
    pub sort: Sort,
    /// So many at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

impl Filter {
    /// Whether it leaves anything out.
    pub fn is_narrow(&self) -> bool {
        let Filter { address, port, protocol, state, rule, sort: _, limit: _ } = self;
        port.is_some() || [address, protocol, state, rule].iter().any(|own| own.is_some())
    }
}

/// A flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// Who has opened it; of ICMP with the identifier.
    pub client: String,
    /// To whom; of ICMP with the type of the request.
    pub server: String,
    /// The protocol, by name where rules know one.
    pub protocol: String,
    /// How far it has come.
    pub state: String,
    /// The rule that let it in: its name, or its number; none: by default.
    pub rule: Option<String>,
    /// Bits of IP packets per second, of both directions: since the last look, or since it began.
    pub bits_per_s: f64,
    /// Bytes of IP packets that the client has sent while they were counted, as is what follows.
    pub up: u64,
    /// Those of the server.
    pub down: u64,
    /// Packets of the client.
    pub up_packets: u64,
    /// Packets of the server.
    pub down_packets: u64,
    /// Milliseconds since the first packet.
    pub age_ms: u64,
    /// Milliseconds since the last packet.
    pub idle_ms: u64,
}

/// What is listed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Listed {
    /// In the order that was asked for.
    pub flows: Vec<Flow>,
    /// How many flows there are that fit.
    pub fit: usize,
    /// How many there are.
    pub all: usize,
    /// For how many milliseconds packets and bytes of flows have been counted: older ones had more.
    pub counted_ms: u64,
}

/// One end of a flow, as a filter has it.
#[derive(Clone, Copy, Debug)]
enum Side {
    Net(Net),
    End(SocketAddr),
}

/// A filter whose names are known.
#[derive(Debug)]
struct Which {
    side: Option<Side>,
    port: Option<u16>,
    protocol: Option<u8>,
    state: Option<u8>,
    /// Numbers of rules.
    rules: Option<Vec<u16>>,
}

/// The tables of flows, and their rates.
#[derive(Debug)]
pub struct Flows {
    tables: [Table<FlowKey, FlowEntry>; 2],
    finished: Table<(FlowKey, u64), FlowEntry>,
    rates: Rates,
}

impl Flows {
    /// Those of a program.
    pub fn new(tables: &NamedTables) -> Result<Flows, NameError> {
        let [replied, waiting] = TABLES.map(|name| tables.table(name));
        Ok(Flows { tables: [replied?, waiting?], finished: tables.table("flow.finished")?, rates: Rates::default() })
    }

    /// Those that fit, the first of them by the filter's order. `names` are those of the rules; `since`: when counting
    /// began.
    pub fn list(&mut self, filter: &Filter, names: &[String], since: Option<u64>) -> Result<Listed, QueryError> {
        let which = Which::new(filter, names)?;
        let now = monotonic_ns();
        let all: Vec<(FlowKey, FlowEntry)> = self.tables.iter().flat_map(Table::entries).collect();
        let since = since.unwrap_or(now);
        self.rates.look(&all, now, since);
        let mut fit: Vec<&(FlowKey, FlowEntry)> = all.iter().filter(|(key, entry)| which.fits(key, entry)).collect();
        let rate = |key: &FlowKey| self.rates.of(key);
        let sum = |pair: [u64; 2]| pair[0].saturating_add(pair[1]);
        fit.sort_by_cached_key(|(key, entry)| {
            let most = match filter.sort {
                Sort::Rate => rate(key) as u64,
                Sort::Bytes => sum(entry.octets),
                Sort::Packets => sum(entry.packets),
                Sort::Age => u64::MAX - entry.began,
                Sort::Idle => u64::MAX - entry.last(),
            };
            (Reverse(most), Reverse(sum(entry.octets)), key.low, key.high, key.low_port, key.high_port, key.protocol)
        });
        let (count, limit) = (fit.len(), filter.limit.unwrap_or(USUAL).min(MOST));
        let flows = fit.iter().take(limit).map(|(key, entry)| shown(key, entry, rate(key), now, names)).collect();
        Ok(Listed { flows, fit: count, all: all.len(), counted_ms: milliseconds(now, since) })
    }

    /// Ends those that fit: their next packets are asked for by the rules. How many; `recorded`: whether collectors are
    /// told.
    pub fn kill(&mut self, filter: &Filter, names: &[String], recorded: bool) -> Result<usize, QueryError> {
        let which = Which::new(filter, names)?;
        let mut killed = 0;
        for table in &mut self.tables {
            for (key, entry) in table.entries().into_iter().filter(|(key, entry)| which.fits(key, entry)) {
                if !table.remove(&key) {
                    continue;
                }
                killed += 1;
                if recorded {
                    // One without a place is counted by nobody: an operator's command is no flood.
                    _ = self.finished.set(&(key, entry.began), &FlowEntry { state: KILLED, ..entry });
                }
            }
        }
        Ok(killed)
    }

    /// Forgets what was seen where nobody looks any more.
    pub fn tidy(&mut self) {
        self.rates.tidy(monotonic_ns());
    }
}

impl Which {
    fn new(filter: &Filter, names: &[String]) -> Result<Which, QueryError> {
        let bad = |what: &str, text: &str, accepted: String| {
            QueryError::Bad(format!("{text:?} is no {what}; accepted: {accepted}"))
        };
        let side = filter.address.as_deref().map(|text| {
            let end = text.parse().map(Side::End).ok();
            end.or_else(|| Net::parse(text).map(Side::Net)).ok_or_else(|| {
                bad("address", text, "ADDRESS, ADDRESS:PORT or a prefix, such as \"10.0.1.0/24\"".into())
            })
        });
        let protocol = filter.protocol.as_deref().map(|text| {
            let known = PROTOCOLS.iter().find(|(name, _)| *name == text).map(|(_, number)| *number);
            let names = || PROTOCOLS.iter().map(|(name, _)| *name);
            known.or_else(|| text.parse().ok()).ok_or_else(|| {
                let hint = did_you_mean(text, names());
                bad(&format!("protocol{hint}"), text, format!("{}, or a number from 0 to 255", list(names())))
            })
        });
        let state = filter.state.as_deref().map(|text| {
            let known = (1..KILLED).find(|number| STATES[usize::from(*number)] == text);
            let names = || STATES[1..usize::from(KILLED)].iter().copied();
            known.ok_or_else(|| bad(&format!("state{}", did_you_mean(text, names())), text, list(names())))
        });
        let rules = filter.rule.as_deref().map(|text| {
            let named = (1u16..).zip(names).filter(|(_, name)| *name == text).map(|(number, _)| number);
            let found: Vec<u16> = named.chain(text.parse::<u16>().ok()).collect();
            if found.is_empty() {
                let known = || names.iter().map(String::as_str).filter(|name| !name.is_empty());
                let message = format!("there is no rule {text:?}{}", did_you_mean(text, known()));
                return Err(QueryError::NotFound(message));
            }
            Ok(found)
        });
        Ok(Which {
            side: side.transpose()?,
            port: filter.port,
            protocol: protocol.transpose()?,
            state: state.transpose()?,
            rules: rules.transpose()?,
        })
    }

    fn fits(&self, key: &FlowKey, entry: &FlowEntry) -> bool {
        let ends = key.ends(entry.low_first);
        let side = |side: &Side| match side {
            Side::End(own) => ends.contains(own),
            Side::Net(net) => ends.iter().any(|end| net.covers(&host(end.ip()))),
        };
        self.side.as_ref().is_none_or(side)
            && self.port.is_none_or(|port| ends.iter().any(|end| end.port() == port))
            && self.protocol.is_none_or(|protocol| protocol == key.protocol)
            && self.state.is_none_or(|state| state == entry.state)
            && self.rules.as_ref().is_none_or(|rules| rules.contains(&entry.rule))
    }
}

/// An address as a prefix.
fn host(address: IpAddr) -> Net {
    match address {
        IpAddr::V4(v4) => Net { v6: false, address: u32::from(v4).into(), len: 32 },
        IpAddr::V6(v6) => Net { v6: true, address: v6.into(), len: 128 },
    }
}

fn milliseconds(now: u64, since: u64) -> u64 {
    now.saturating_sub(since) / 1_000_000
}

/// What a rule is called: its name, else its number; nothing where it is none.
pub fn rule_name(names: &[String], number: u16) -> Option<String> {
    let index = usize::from(number).checked_sub(1)?;
    let name = names.get(index).filter(|name| !name.is_empty());
    Some(name.cloned().unwrap_or_else(|| format!("rule {number}")))
}

fn shown(key: &FlowKey, entry: &FlowEntry, bits_per_s: f64, now: u64, names: &[String]) -> Flow {
    let [client, server] = key.ends(entry.low_first).map(|end| end.to_string());
    let known = PROTOCOLS.iter().find(|(_, number)| *number == key.protocol);
    Flow {
        client,
        server,
        protocol: known.map_or_else(|| key.protocol.to_string(), |(name, _)| (*name).to_owned()),
        state: STATES.get(usize::from(entry.state)).copied().unwrap_or("unknown").to_owned(),
        rule: rule_name(names, entry.rule),
        bits_per_s,
        up: entry.octets[0],
        down: entry.octets[1],
        up_packets: entry.packets[0],
        down_packets: entry.packets[1],
        age_ms: milliseconds(now, entry.began),
        // Where it is not counted, to the second.
        idle_ms: milliseconds(now, entry.last()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(client: &str, server: &str, protocol: u8, state: u8, rule: u16) -> (FlowKey, FlowEntry) {
        let [client, server]: [SocketAddr; 2] = [client, server].map(|text| text.parse().unwrap());
        let mapped = |own: SocketAddr| match own.ip() {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        let low_first = mapped(client) < mapped(server);
        let (low, high) = if low_first { (client, server) } else { (server, client) };
        let ends = (mapped(low), mapped(high));
        let key = FlowKey { low: ends.0, high: ends.1, low_port: low.port(), high_port: high.port(), protocol };
        let octets = [100, 2000];
        (
            key,
            FlowEntry {
                state,
                rule,
                port: 1,
                low_first,
                fins: 0,
                seen: 1,
                next: [0; 2],
                began: 5_000_000,
                counted: 7_000_000,
                packets: [1, 2],
                octets,
            },
        )
    }

    fn names() -> Vec<String> {
        ["web", "", "games", "web"].map(str::to_owned).to_vec()
    }

    #[test]
    fn flows_fit_all_that_is_said() {
        let all = [
            flow("10.0.1.11:40000", "203.0.113.5:443", 6, 5, 0),
            flow("203.0.113.5:50000", "10.0.1.80:443", 6, 6, 1),
            flow("[2001:db8::9]:50000", "[2001:db8:1::80]:443", 6, 5, 4),
            flow("10.0.1.11:77", "203.0.113.5:8", 1, 2, 2),
        ];
        let fit = |json: serde_json::Value| {
            let filter: Filter = serde_json::from_value(json).unwrap();
            let which = Which::new(&filter, &names()).unwrap();
            (0..all.len()).filter(|at| which.fits(&all[*at].0, &all[*at].1)).collect::<Vec<_>>()
        };
        for (json, expected) in [
            (serde_json::json!({}), &[0, 1, 2, 3][..]),
            (serde_json::json!({"address": "203.0.113.5"}), &[0, 1, 3]),
            (serde_json::json!({"address": "203.0.113.5:443"}), &[0]),
            (serde_json::json!({"address": "10.0.0.0/8", "protocol": "tcp"}), &[0, 1]),
            (serde_json::json!({"address": "2001:db8::/32"}), &[2]),
            (serde_json::json!({"address": "[2001:db8:1::80]:443"}), &[2]),
            (serde_json::json!({"address": "::/0"}), &[2]),
            (serde_json::json!({"port": 443}), &[0, 1, 2]),
            (serde_json::json!({"protocol": "1"}), &[3]),
            (serde_json::json!({"state": "established"}), &[0, 2]),
            (serde_json::json!({"rule": "web"}), &[1, 2]),
            (serde_json::json!({"rule": "0"}), &[0]),
            (serde_json::json!({"rule": "2", "state": "replied"}), &[3]),
            (serde_json::json!({"rule": "2", "state": "closed"}), &[]),
        ] {
            assert_eq!(fit(json.clone()), expected, "{json}");
        }
    }

    #[test]
    fn mistakes_are_told() {
        for (json, said) in [
            (serde_json::json!({"address": "10.0.0.300"}), "\"10.0.0.300\" is no address; accepted: ADDRESS"),
            (serde_json::json!({"protocol": "tpc"}), "\"tpc\" is no protocol; did you mean `tcp`?; accepted: tcp, udp"),
            (serde_json::json!({"protocol": "256"}), "\"256\" is no protocol; accepted: tcp, udp"),
            (
                serde_json::json!({"state": "estabished"}),
                "is no state; did you mean `established`?; accepted: unreplied",
            ),
            (serde_json::json!({"state": "killed"}), "no state"),
            (serde_json::json!({"rule": "wob"}), "there is no rule \"wob\"; did you mean `web`?"),
        ] {
            let filter: Filter = serde_json::from_value(json).unwrap();
            let error = Which::new(&filter, &names()).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn a_flow_is_shown() {
        let (key, entry) = flow("203.0.113.5:50000", "10.0.1.80:443", 6, 5, 3);
        let own = shown(&key, &entry, 12.5, 10_000_000, &names());
        assert_eq!((&*own.client, &*own.server), ("203.0.113.5:50000", "10.0.1.80:443"));
        assert_eq!((&*own.protocol, &*own.state, own.rule.as_deref()), ("tcp", "established", Some("games")));
        assert_eq!((own.up, own.down, own.up_packets, own.down_packets), (100, 2000, 1, 2));
        assert_eq!((own.age_ms, own.idle_ms), (5, 3));
        let rules = [0, 2, 5].map(|rule| rule_name(&names(), rule));
        assert_eq!(rules, [None, Some("rule 2".into()), Some("rule 5".into())]);
    }
}

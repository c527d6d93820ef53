//! The flows of a running firewall, as operators see them: which carry most, and the end of some by command.

use std::cmp::Ordering;

use control::application::QueryError;
use dataplane::controller::{NameError, NamedTables, Table};
use dataplane::monotonic_ns;
use serde::{Deserialize, Serialize};

use super::filter::{Filter, Sort, Which};
use super::flow::{FlowEntry, FlowKey, KILLED, STATES, TABLES};
use super::rates::Rates;
use super::settings::PROTOCOLS;

/// Flows that are listed where it is not said how many, and at most.
pub const USUAL: usize = 100;
/// See [`USUAL`].
pub const MOST: usize = 10_000;

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
        let mut all = Vec::with_capacity(self.tables.iter().map(Table::len).sum());
        self.tables.iter().for_each(|table| table.for_each(|key, entry| all.push((key, entry))));
        let since = since.unwrap_or(now);
        self.rates.look(&all, now, since);
        let fits = all.iter().filter(|(key, entry)| which.fits(key, entry));
        let mut fit: Vec<Placed> = fits.map(|(key, entry)| Placed::new(key, entry, filter.sort, &self.rates)).collect();
        let (count, limit) = (fit.len(), filter.limit.unwrap_or(USUAL).min(MOST));
        // Of many flows few are shown: the others need no order.
        if limit < count {
            fit.select_nth_unstable_by(limit, Placed::order);
            fit.truncate(limit);
        }
        fit.sort_unstable_by(Placed::order);
        let flows = fit.iter().map(|own| shown(own.key, own.entry, self.rates.of(own.key), now, names)).collect();
        Ok(Listed { flows, fit: count, all: all.len(), counted_ms: milliseconds(now, since) })
    }

    /// Ends those that fit: their next packets are asked for by the rules. How many; `recorded`: whether collectors are
    /// told.
    pub fn kill(&mut self, filter: &Filter, names: &[String], recorded: bool) -> Result<usize, QueryError> {
        let which = Which::new(filter, names)?;
        let mut killed = 0;
        for table in &mut self.tables {
            let mut fit = Vec::new();
            table.for_each(|key, entry| fit.extend(which.fits(&key, &entry).then_some((key, entry))));
            for (key, entry) in fit {
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

/// A flow by its place in a list, those with most first.
#[derive(Debug)]
struct Placed<'a> {
    most: u64,
    octets: u64,
    key: &'a FlowKey,
    entry: &'a FlowEntry,
}

impl<'a> Placed<'a> {
    fn new(key: &'a FlowKey, entry: &'a FlowEntry, by: Sort, rates: &Rates) -> Placed<'a> {
        let sum = |pair: [u64; 2]| pair[0].saturating_add(pair[1]);
        let most = match by {
            Sort::Rate => rates.of(key) as u64,
            Sort::Bytes => sum(entry.octets),
            Sort::Packets => sum(entry.packets),
            Sort::Age => u64::MAX - entry.began,
            Sort::Idle => u64::MAX - entry.last(),
        };
        Placed { most, octets: sum(entry.octets), key, entry }
    }

    /// The same from one look to the next, also of flows with as much.
    fn order(&self, other: &Self) -> Ordering {
        let most = (other.most, other.octets).cmp(&(self.most, self.octets));
        most.then_with(|| self.key.cmp(other.key))
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
    use super::super::testing::{flow, names};
    use super::*;

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

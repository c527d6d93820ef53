//! Which flows are meant: what operators say, with its names looked up.

use std::net::{IpAddr, SocketAddr};

use control::application::QueryError;
use control::messages::{did_you_mean, list};
use serde::{Deserialize, Serialize};

use super::flow::{FlowEntry, FlowKey, KILLED, STATES};
use super::rule::Net;
use super::settings::PROTOCOLS;

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

/// One end of a flow, as a filter has it.
#[derive(Clone, Copy, Debug)]
enum Side {
    Net(Net),
    End(SocketAddr),
}

/// A filter whose names are known.
#[derive(Debug)]
pub struct Which {
    side: Option<Side>,
    port: Option<u16>,
    protocol: Option<u8>,
    state: Option<u8>,
    /// Numbers of rules.
    rules: Option<Vec<u16>>,
}

impl Which {
    /// Of a filter; `names` are those of the rules.
    ///
    /// # Errors
    /// What it names is not known.
    pub fn new(filter: &Filter, names: &[String]) -> Result<Which, QueryError> {
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

    /// Whether a flow is meant.
    pub fn fits(&self, key: &FlowKey, entry: &FlowEntry) -> bool {
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

#[cfg(test)]
mod tests {
    use super::super::testing::{flow, names};
    use super::*;

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
}

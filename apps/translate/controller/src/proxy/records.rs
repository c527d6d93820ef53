//! What of connections outlasts the process: a record of each that has a stream, or waits for one. What packets change
//! is in the program's tables.

use std::net::Ipv6Addr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wire::flow_key::FlowKey;

use super::Proxy;
use super::connections::{Connection, State};
use super::world::World;
use crate::http::request::Request;

/// In front of the numbers of connections, in keys of records.
pub(super) const CONNECTION: &str = "connection ";

/// What a request said, as far as it is of use when it is answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Said {
    /// Its first line.
    pub(super) line: String,
    pub(super) agent: Option<String>,
    pub(super) referer: Option<String>,
    /// Whether the answer has no body.
    #[serde(default)]
    pub(super) is_head: bool,
}

impl Said {
    pub(super) fn of(request: &Request) -> Said {
        let Request { line, agent, referer, method, .. } = request.clone();
        Said { line, agent, referer, is_head: method == "HEAD" }
    }
}

/// A connection that has a stream, or waits for one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ConnectionRecord {
    pub(super) generation: u32,
    /// As its client sends.
    pub(super) key: (Ipv6Addr, u16, Ipv6Addr, u16),
    /// By the monotonic clock.
    pub(super) since: Duration,
    /// The stream's number, and what it is called.
    pub(super) stream: u32,
    pub(super) shown: String,
    pub(super) said: Said,
}

impl ConnectionRecord {
    fn of(own: &Connection) -> Option<ConnectionRecord> {
        let (State::Waits(stream) | State::Plays(stream)) = own.state else { return None };
        let FlowKey { src, dst, src_port, dst_port } = own.key;
        Some(ConnectionRecord {
            generation: own.generation,
            key: (src, src_port, dst, dst_port),
            since: own.since,
            stream,
            shown: own.stream.clone().unwrap_or_default(),
            said: own.said.clone(),
        })
    }

    /// What its client's segments come with.
    pub(super) fn key(&self) -> FlowKey {
        let (src, src_port, dst, dst_port) = self.key;
        FlowKey { src, dst, src_port, dst_port }
    }
}

impl<W: World> Proxy<W> {
    /// The record of a connection is to be made anew.
    pub(super) fn touch(&mut self, connection: u32) {
        self.touched.insert(connection);
    }

    /// Records that may have changed since this was asked last, by key; without a value where there is none any more.
    pub fn take_records(&mut self) -> Vec<(String, Option<Vec<u8>>)> {
        let record = |number: u32| {
            let record = self.connections.get(&number).and_then(ConnectionRecord::of);
            // It has nothing that JSON has not.
            let value = record.and_then(|own| serde_json::to_vec(&own).ok());
            (format!("{CONNECTION}{number:08x}"), value)
        };
        std::mem::take(&mut self.touched).into_iter().map(record).collect()
    }
}

//! Where packets to receivers go next: the kernel's routes and neighbours, asked for each receiver by `ip` (iproute2),
//! on a thread of its own, when a receiver is new and every few seconds.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use dataplane::controller::{NamedTables, Record, Table};
use serde_json::Value as Json;

use crate::tables::mapped;

/// How often what is known is asked for anew.
const REFRESH: Duration = Duration::from_secs(5);
/// Until a neighbour that the kernel asks for is there.
const ASKED: Duration = Duration::from_millis(50);

/// `next_hop_t` of `apps/media/next_hops.baker`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NextHop {
    dst: [u8; 6],
    src: [u8; 6],
    port: u8,
}

impl Record for NextHop {
    const FIELDS: usize = 3;

    fn to_fields(&self, fields: &mut [u128]) {
        (self.dst, self.src, self.port).to_fields(fields);
    }

    fn from_fields(fields: &[u128]) -> Option<Self> {
        let (dst, src, port) = Record::from_fields(fields)?;
        Some(NextHop { dst, src, port })
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct NextHops {
    /// The ports by the names of their interfaces.
    ports: Arc<HashMap<String, u8>>,
    wanted: HashSet<IpAddr>,
    asks: Option<Sender<IpAddr>>,
    refreshed: Option<Instant>,
}

impl NextHops {
    /// The program's table from now on.
    pub fn use_tables(&mut self, tables: &NamedTables, ports: Arc<HashMap<String, u8>>) -> Result<(), String> {
        let table = tables.table("next_hops.hops").map_err(|error| error.to_string())?;
        let (asks, asked) = channel();
        self.ports = ports.clone();
        std::thread::Builder::new()
            .name("next hops".into())
            .spawn(move || resolve(&asked, table, &ports))
            .map_err(|error| error.to_string())?;
        self.asks = Some(asks);
        self.wanted.iter().for_each(|to| self.ask(*to));
        Ok(())
    }

    /// A receiver's next hop is needed.
    pub fn want(&mut self, to: IpAddr) {
        if self.wanted.insert(to) {
            self.ask(to);
        }
    }

    /// Asks for all anew, where that is due.
    pub fn refresh(&mut self) {
        if self.refreshed.is_none_or(|then| then.elapsed() > REFRESH) {
            self.refreshed = Some(Instant::now());
            self.wanted.iter().for_each(|to| self.ask(*to));
        }
    }

    fn ask(&self, to: IpAddr) {
        // The thread ends with its table.
        self.asks.iter().for_each(|asks| _ = asks.send(to));
    }
}

fn resolve(asked: &Receiver<IpAddr>, mut table: Table<Ipv6Addr, NextHop>, ports: &HashMap<String, u8>) {
    for to in asked {
        let mut found = next_hop(to, ports);
        if found.is_none() {
            // Whatever is sent has the kernel ask for the neighbour.
            let any: IpAddr = if to.is_ipv4() { [0; 4].into() } else { [0u16; 8].into() };
            let _ = UdpSocket::bind((any, 0)).and_then(|socket| socket.send_to(&[], (to, 9)));
            std::thread::sleep(ASKED);
            found = next_hop(to, ports);
        }
        match found {
            Some(hop) if table.get(&mapped(to)) != Some(hop) => _ = table.set(&mapped(to), &hop),
            _ => {}
        }
    }
}

fn ip(arguments: &[&str]) -> Option<Json> {
    let output = Command::new("ip").arg("-json").args(arguments).output().ok()?;
    serde_json::from_slice(&output.stdout).ok()
}

fn next_hop(to: IpAddr, ports: &HashMap<String, u8>) -> Option<NextHop> {
    let route = ip(&["route", "get", &to.to_string()])?;
    let device = route[0]["dev"].as_str()?;
    let via = route[0]["gateway"].as_str().map_or(to.to_string(), str::to_owned);
    let neighbour = ip(&["neighbour", "show", "to", &via, "dev", device])?;
    let link = ip(&["link", "show", "dev", device])?;
    let mac = |text: &Json| -> Option<[u8; 6]> {
        let bytes: Result<Vec<u8>, _> = text.as_str()?.split(':').map(|byte| u8::from_str_radix(byte, 16)).collect();
        bytes.ok()?.try_into().ok()
    };
    let (dst, src) = (mac(&neighbour[0]["lladdr"])?, mac(&link[0]["address"])?);
    Some(NextHop { dst, src, port: *ports.get(device)? })
}

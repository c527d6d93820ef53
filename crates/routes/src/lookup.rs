//! Where packets to an address go, for controllers: by the same tables as packets, on any thread.

use std::net::IpAddr;

use dataplane::controller::{NameError, NamedTables};

use crate::kernel::event::Mac;
use crate::program::{HopAction, Tables, unmapped};

/// The way to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The port that leads there.
    pub port: u8,
    /// The host's own address towards it; `None` where an operator has set the next hop, and said nothing of it.
    pub source: Option<IpAddr>,
    /// The next hop: its index in `hops` of the program's instance of `net/next_hop`. It may lead elsewhere when routes
    /// change: ask again, or let the program ask for each packet.
    pub number: u32,
    /// Ethernet addresses of frames to the next hop: source and destination.
    pub mac: (Mac, Mac),
    /// The longest packet, in bytes behind the Ethernet header.
    pub mtu: u32,
}

/// What becomes of packets to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// They go by a port.
    Route(Route),
    /// They are the host's, or it is to find the way: to its own addresses, by interfaces that are no ports, to
    /// neighbours that are not resolved yet.
    Host,
    /// They are dropped, for a drop reason of the program with this value.
    Drop(u32),
}

/// Answers for a program that imports `net/next_hop`.
#[derive(Clone, Debug)]
pub struct Lookup(Tables);

impl Lookup {
    /// By a program's tables; `None` where it has no instance of `net/next_hop`. To be made anew for a program that
    /// takes over.
    ///
    /// # Errors
    /// Where its tables are others.
    pub fn new(tables: &NamedTables) -> Result<Option<Lookup>, NameError> {
        Ok(Tables::find(tables)?.map(Lookup))
    }

    /// The way to an address, of several that which packets of this flow take.
    pub fn find(&self, address: IpAddr, flow: u32) -> Answer {
        let Lookup(tables) = self;
        let number = match address {
            IpAddr::V4(v4) => tables.routes4.find(&v4),
            IpAddr::V6(v6) => tables.routes6.find(&v6),
        };
        let hop = |number: u32| tables.hops.get(&number).unwrap_or_default();
        let mut found = hop(number.unwrap_or(0));
        if found.action == HopAction::Group {
            let way = flow.checked_rem(found.ways.into()).unwrap_or(0);
            found = hop(tables.ways.get(&found.first.wrapping_add(way)).unwrap_or(0));
        }
        match found.action {
            HopAction::Send => {
                let source = tables.sources.get(&found.number).filter(|source| !source.is_unspecified());
                Answer::Route(Route {
                    port: found.port,
                    source: source.map(unmapped),
                    number: found.number,
                    mac: (found.src, found.dst),
                    mtu: found.mtu,
                })
            }
            HopAction::Drop => Answer::Drop(found.reason),
            HopAction::Host | HopAction::Group => Answer::Host,
        }
    }
}

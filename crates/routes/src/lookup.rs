//! Where packets to an address go, for controllers: by the same tables as packets, on any thread.

use std::net::IpAddr;

use dataplane::controller::{NameError, NamedTables};

use crate::decide::Reason;
use crate::kernel::event::Mac;
use crate::program::{Hop, HopAction, Tables, unmapped};

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
        let mut found = self.first(address);
        if found.action == HopAction::Group {
            found = self.member(&found, flow.checked_rem(found.ways.into()).unwrap_or(0));
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

    /// Whether it is known what becomes of packets to an address, whichever way they take: they leave, or are dropped
    /// as a route says. It is not where a neighbour is not resolved yet, nor where the host has to know.
    pub fn is_known(&self, address: IpAddr) -> bool {
        let is_known = |hop: &Hop| match hop.action {
            HopAction::Send => true,
            HopAction::Drop => hop.reason != Hop::drop(Reason::Unresolved).reason,
            HopAction::Host | HopAction::Group => false,
        };
        let found = self.first(address);
        match found.action {
            HopAction::Group => (0..found.ways.into()).all(|way| is_known(&self.member(&found, way))),
            _ => is_known(&found),
        }
    }

    fn hop(&self, number: u32) -> Hop {
        self.0.hops.get(&number).unwrap_or_default()
    }

    /// The next hop to an address, or the group of them.
    fn first(&self, address: IpAddr) -> Hop {
        let number = match address {
            IpAddr::V4(v4) => self.0.routes4.find(&v4),
            IpAddr::V6(v6) => self.0.routes6.find(&v6),
        };
        self.hop(number.unwrap_or(0))
    }

    /// One of a group.
    fn member(&self, group: &Hop, way: u32) -> Hop {
        self.hop(self.0.ways.get(&group.first.wrapping_add(way)).unwrap_or(0))
    }
}

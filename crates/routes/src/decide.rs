//! Where packets to a prefix go, by all that is known of the kernel. Pure functions.

use std::net::IpAddr;

use smallvec::SmallVec;

use crate::kernel::event::{Action, Leg, RoutePath};
use crate::kernel::state::Kernel;
use crate::prefix::{Prefix, width};

/// Why packets are dropped. The names are those of `net/next_hop`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    NoRoute,
    Blackhole,
    Unreachable,
    Prohibited,
    Unresolved,
}

impl Reason {
    /// Its name in programs.
    pub fn name(self) -> &'static str {
        match self {
            Reason::NoRoute => "no_route",
            Reason::Blackhole => "blackhole",
            Reason::Unreachable => "unreachable",
            Reason::Prohibited => "prohibited",
            Reason::Unresolved => "neighbour_unresolved",
        }
    }
}

/// A way out of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Way {
    /// The kernel's interface.
    pub interface: u32,
    /// The neighbour; `None`: each destination is one itself, and it is not known which.
    pub neighbour: Option<IpAddr>,
    /// The host's address that the route names.
    pub source: Option<IpAddr>,
    /// The longest packet, where the route says it.
    pub mtu: Option<u32>,
    /// Of what packets.
    pub is_ipv6: bool,
}

/// Where packets go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// To the host.
    Host,
    /// Nowhere.
    Drop(Reason),
    /// By one of these, with its part of the flows.
    Ways(SmallVec<[(Way, u16); 1]>),
}

/// Where packets to a prefix go for which there is an entry, by its routes or as a neighbour's address; `None` where
/// there is to be none.
pub fn decide(kernel: &Kernel, prefix: &Prefix) -> Option<Decision> {
    match (kernel.chosen(prefix), prefix.single()) {
        (Some((path, legs)), single) => Some(by_route(path, &legs, prefix.address().is_ipv6(), single)),
        (None, Some(address)) => neighbour(kernel, address),
        (None, None) => None,
    }
}

/// Where packets to an address go.
pub fn look_up(kernel: &Kernel, address: IpAddr) -> Decision {
    decide(kernel, &Prefix::host(address))
        .or_else(|| decide(kernel, &kernel.covering(address, width(address))?))
        .unwrap_or(Decision::Drop(Reason::NoRoute))
}

fn by_route(path: &RoutePath, legs: &[Leg], is_ipv6: bool, single: Option<IpAddr>) -> Decision {
    match path.action {
        Action::Unicast => {
            let way = |leg: &Leg| {
                let (interface, neighbour) = (leg.interface, leg.gateway.or(single));
                (Way { interface, neighbour, source: path.source, mtu: path.mtu, is_ipv6 }, leg.weight)
            };
            Decision::Ways(legs.iter().map(way).collect())
        }
        Action::Host => Decision::Host,
        Action::Blackhole => Decision::Drop(Reason::Blackhole),
        Action::Unreachable => Decision::Drop(Reason::Unreachable),
        Action::Prohibit => Decision::Drop(Reason::Prohibited),
    }
}

/// A neighbour has an entry of its own where its Ethernet address is known and the route around it leads to its link.
fn neighbour(kernel: &Kernel, address: IpAddr) -> Option<Decision> {
    let own = Prefix::host(address);
    let mut known = kernel.neighbours_in(&own).filter(|key| kernel.neighbours[key].mac.is_some()).peekable();
    known.peek()?;
    let (path, legs) = kernel.chosen(&kernel.covering(address, width(address))?)?;
    let on_link = |interface: u32| legs.iter().any(|leg| leg.interface == interface && leg.gateway.is_none());
    let (_, interface) = known.find(|(_, interface)| on_link(*interface))?;
    let way = Way {
        interface: *interface,
        neighbour: Some(address),
        source: path.source,
        mtu: path.mtu,
        is_ipv6: address.is_ipv6(),
    };
    Some(Decision::Ways(SmallVec::from_elem((way, 1), 1)))
}

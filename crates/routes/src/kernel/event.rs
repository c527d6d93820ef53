//! A message of the kernel as what it says.

use std::net::IpAddr;
use std::sync::Arc;

use netlink_packet_core::{NLM_F_APPEND, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage as Message;
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage, AddressScope};
use netlink_packet_route::link::{InfoKind, LinkAttribute, LinkFlags, LinkInfo, LinkLayerType, LinkMessage};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteMetric, RouteNextHopFlags, RouteType,
    RouteVia,
};

use crate::prefix::Prefix;

/// An Ethernet address, in the order of the wire.
pub type Mac = [u8; 6];

/// The table of the kernel's own addresses (`RT_TABLE_LOCAL`).
pub const TABLE_LOCAL: u32 = 255;

/// What changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A link is there, and is so.
    Link(u32, Link),
    /// A link is gone, from this namespace at least.
    LinkGone(u32),
    /// An interface has an address.
    Address(u32, IpAddr, Address),
    /// It has it no more.
    AddressGone(u32, IpAddr),
    /// What is known of a neighbour.
    Neighbour(IpAddr, u32, Neighbour),
    /// Nothing is known of a neighbour any more.
    NeighbourGone(IpAddr, u32),
    /// A route is there.
    Route(RouteChange),
    /// A route is gone.
    RouteGone(RouteChange),
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub name: String,
    /// Where it sends Ethernet frames.
    pub mac: Option<Mac>,
    /// Bytes behind the Ethernet header.
    pub mtu: u32,
    /// It is set up.
    pub is_up: bool,
    /// Something is at its other end.
    pub has_carrier: bool,
    /// The other end of a pair of virtual devices, where that is in the same namespace.
    pub peer: Option<u32>,
}

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    pub prefix_len: u8,
    /// It is of use beyond the link.
    pub is_global: bool,
    /// Not the first one of its subnet, deprecated, or not known to be unique.
    pub is_secondary: bool,
}

/// What the kernel knows of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Where it is known, and has not failed.
    pub mac: Option<Mac>,
    /// The kernel has not heard of it for long.
    pub is_stale: bool,
}

/// What becomes of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// They go on.
    Unicast,
    /// They are the host's own, or only the host can send them on.
    Host,
    Blackhole,
    Unreachable,
    Prohibit,
}

/// One of the ways of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Leg {
    pub interface: u32,
    /// `None`: the destination is on the link.
    pub gateway: Option<IpAddr>,
    /// Its part of the flows: 1 to 256.
    pub weight: u16,
    /// The kernel does not use it.
    pub is_dead: bool,
}

/// Where a route leads. Routes to the same share it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RoutePath {
    pub action: Action,
    /// The host's address to be used.
    pub source: Option<IpAddr>,
    pub mtu: Option<u32>,
    pub legs: Vec<Leg>,
}

/// A route in a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteChange {
    pub prefix: Prefix,
    pub table: u32,
    pub metric: u32,
    pub path: Arc<RoutePath>,
    /// It takes the place of one with the same prefix, table and metric.
    pub replaces: bool,
    /// It comes behind those with the same prefix, table and metric.
    pub is_appended: bool,
}

/// What a message says; `flags` are those of its header. `None` where it is about something else, such as a route
/// for some packets only.
pub fn event(message: &Message, flags: u16) -> Option<Event> {
    match message {
        Message::NewLink(link) => Some(Event::Link(link.header.index, self::link(link)?)),
        // A bridge tells with this of a port that it loses.
        Message::DelLink(link) if link.header.interface_family != netlink_packet_route::AddressFamily::Bridge => {
            Some(Event::LinkGone(link.header.index))
        }
        Message::NewAddress(message) => {
            let (local, address) = address(message)?;
            Some(Event::Address(message.header.index, local, address))
        }
        Message::DelAddress(message) => Some(Event::AddressGone(message.header.index, address(message)?.0)),
        Message::NewNeighbour(message) => {
            let (address, neighbour) = neighbour(message)?;
            Some(Event::Neighbour(address, message.header.ifindex, neighbour))
        }
        Message::DelNeighbour(message) => Some(Event::NeighbourGone(neighbour(message)?.0, message.header.ifindex)),
        Message::NewRoute(message) => route(message, flags).map(Event::Route),
        Message::DelRoute(message) => route(message, flags).map(Event::RouteGone),
        _ => None,
    }
}

fn mac(bytes: &[u8]) -> Option<Mac> {
    bytes.try_into().ok()
}

fn link(message: &LinkMessage) -> Option<Link> {
    // Of its place in a bridge: nothing new.
    if message.header.interface_family == netlink_packet_route::AddressFamily::Bridge {
        return None;
    }
    let flags = message.header.flags;
    let mut link = Link {
        name: String::new(),
        mac: None,
        mtu: 1500,
        is_up: flags.contains(LinkFlags::Up),
        has_carrier: flags.contains(LinkFlags::LowerUp),
        peer: None,
    };
    let (mut is_veth, mut other_namespace) = (false, false);
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name.clone_from(name),
            LinkAttribute::Address(bytes) if message.header.link_layer_type == LinkLayerType::Ether => {
                link.mac = mac(bytes);
            }
            LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
            LinkAttribute::Link(peer) => link.peer = Some(*peer).filter(|peer| *peer != 0),
            LinkAttribute::LinkNetNsId(_) => other_namespace = true,
            LinkAttribute::LinkInfo(infos) => {
                is_veth |= infos.iter().any(|info| matches!(info, LinkInfo::Kind(InfoKind::Veth)));
            }
            _ => {}
        }
    }
    if !is_veth || other_namespace {
        link.peer = None;
    }
    Some(link)
}

fn address(message: &AddressMessage) -> Option<(IpAddr, Address)> {
    let (mut local, mut other) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            AddressAttribute::Local(address) => local = Some(*address),
            AddressAttribute::Address(address) => other = Some(*address),
            _ => {}
        }
    }
    let poor = AddressHeaderFlags::Secondary | AddressHeaderFlags::Deprecated | AddressHeaderFlags::Tentative;
    let address = Address {
        prefix_len: message.header.prefix_len,
        is_global: message.header.scope == AddressScope::Universe,
        is_secondary: message.header.flags.intersects(poor),
    };
    // On point-to-point links the other one is the peer's.
    Some((local.or(other)?, address))
}

fn neighbour(message: &NeighbourMessage) -> Option<(IpAddr, Neighbour)> {
    if message.header.flags.contains(NeighbourFlags::Proxy) {
        return None;
    }
    let (mut address, mut link_layer) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            NeighbourAttribute::Destination(NeighbourAddress::Inet(v4)) => address = Some(IpAddr::V4(*v4)),
            NeighbourAttribute::Destination(NeighbourAddress::Inet6(v6)) => address = Some(IpAddr::V6(*v6)),
            NeighbourAttribute::LinkLayerAddress(bytes) => link_layer = mac(bytes),
            _ => {}
        }
    }
    let state = message.header.state;
    let is_valid = matches!(
        state,
        NeighbourState::Reachable
            | NeighbourState::Stale
            | NeighbourState::Delay
            | NeighbourState::Probe
            | NeighbourState::Permanent
            | NeighbourState::Noarp
    );
    let neighbour = Neighbour { mac: link_layer.filter(|_| is_valid), is_stale: state == NeighbourState::Stale };
    Some((address?, neighbour))
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(v4) => Some(IpAddr::V4(*v4)),
        RouteAddress::Inet6(v6) => Some(IpAddr::V6(*v6)),
        _ => None,
    }
}

/// What the attributes of a route, or of one of its ways, say of a way.
#[derive(Default)]
struct LegParts {
    interface: u32,
    gateway: Option<IpAddr>,
    /// Packets get a header more, or the gateway is of another kind.
    is_special: bool,
}

impl LegParts {
    fn read(&mut self, attribute: &RouteAttribute) {
        match attribute {
            RouteAttribute::Oif(interface) => self.interface = *interface,
            RouteAttribute::Gateway(gateway) => self.gateway = ip(gateway),
            RouteAttribute::Via(RouteVia::Inet(v4)) => self.gateway = Some(IpAddr::V4(*v4)),
            RouteAttribute::Via(RouteVia::Inet6(v6)) => self.gateway = Some(IpAddr::V6(*v6)),
            RouteAttribute::Via(_) | RouteAttribute::Encap(_) | RouteAttribute::NewDestination(_) => {
                self.is_special = true;
            }
            _ => {}
        }
    }
}

fn route(message: &RouteMessage, flags: u16) -> Option<RouteChange> {
    let header = &message.header;
    // Routes for some sources or types of service only, and entries of caches. The host has all of them.
    if header.source_prefix_length != 0 || header.tos != 0 || header.flags.contains(RouteFlags::Cloned) {
        return None;
    }
    let action = match header.kind {
        RouteType::Unicast => Action::Unicast,
        RouteType::Local | RouteType::Broadcast | RouteType::Anycast | RouteType::Multicast => Action::Host,
        RouteType::BlackHole => Action::Blackhole,
        RouteType::Unreachable => Action::Unreachable,
        RouteType::Prohibit => Action::Prohibit,
        _ => return None,
    };
    let mut path = RoutePath { action, source: None, mtu: None, legs: Vec::new() };
    let (mut destination, mut table, mut metric) = (None, u32::from(header.table), 0);
    let mut single = LegParts::default();
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(address) => destination = ip(address),
            RouteAttribute::Table(number) => table = *number,
            RouteAttribute::Priority(number) => metric = *number,
            RouteAttribute::PrefSource(address) => path.source = ip(address),
            RouteAttribute::Metrics(metrics) => {
                path.mtu = metrics.iter().find_map(|metric| match metric {
                    RouteMetric::Mtu(mtu) if *mtu != 0 => Some(*mtu),
                    _ => None,
                });
            }
            RouteAttribute::MultiPath(ways) => {
                for way in ways {
                    let mut parts = LegParts { interface: way.interface_index, ..LegParts::default() };
                    way.attributes.iter().for_each(|attribute| parts.read(attribute));
                    single.is_special |= parts.is_special;
                    let is_dead = way.flags.contains(RouteNextHopFlags::Dead);
                    let weight = u16::from(way.hops) + 1;
                    path.legs.push(Leg { interface: parts.interface, gateway: parts.gateway, weight, is_dead });
                }
            }
            other => single.read(other),
        }
    }
    if path.legs.is_empty() && single.interface != 0 {
        let is_dead = header.flags.contains(RouteFlags::Dead);
        path.legs.push(Leg { interface: single.interface, gateway: single.gateway, weight: 1, is_dead });
    }
    if path.action != Action::Unicast {
        path.legs.clear();
    } else if single.is_special || path.legs.is_empty() {
        (path.action, path.legs) = (Action::Host, Vec::new());
    }
    let family = match header.address_family {
        netlink_packet_route::AddressFamily::Inet => IpAddr::from([0; 4]),
        netlink_packet_route::AddressFamily::Inet6 => IpAddr::from([0; 16]),
        _ => return None,
    };
    let prefix = Prefix::new(destination.unwrap_or(family), header.destination_prefix_length);
    let (replaces, is_appended) = (flags & NLM_F_REPLACE != 0, flags & NLM_F_APPEND != 0);
    Some(RouteChange { prefix, table, metric, path: Arc::new(path), replaces, is_appended })
}

/// The way to one address, as the kernel answers where it is asked for that. `None` where it is of a kind that only the
/// kernel can go.
pub fn way(message: &RouteMessage) -> Option<Arc<RoutePath>> {
    let mut message = message.clone();
    // The answer looks like an entry of a cache, for packets of one kind.
    message.header.flags.remove(RouteFlags::Cloned);
    (message.header.tos, message.header.source_prefix_length) = (0, 0);
    route(&message, 0).map(|route| route.path)
}

/// The main table, where nothing else is said.
pub const TABLE_MAIN: u32 = RouteHeader::RT_TABLE_MAIN as u32;

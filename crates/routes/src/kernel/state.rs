//! All that is known of the kernel's links, addresses, neighbours and routes, and what a change touches.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use smallvec::SmallVec;

use super::event::{Action, Address, Event, Leg, Link, Neighbour, RouteChange, RoutePath, TABLE_LOCAL};
use crate::prefix::{Prefix, width};

/// A route to a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pub table: u32,
    pub metric: u32,
    pub path: Arc<RoutePath>,
}

impl Route {
    /// Lower is better: the local table comes before the other one.
    fn rank(&self) -> (bool, u32) {
        (self.table != TABLE_LOCAL, self.metric)
    }
}

/// The routes to one prefix, the best first. Most prefixes have one.
pub type Routes = SmallVec<[Route; 1]>;

/// What is to be looked at again.
#[derive(Debug, Default)]
pub struct Touched {
    pub prefixes: HashSet<Prefix>,
    /// All prefixes.
    pub everything: bool,
    /// Next hops by these interfaces.
    pub interfaces: HashSet<u32>,
    /// Next hops that are these neighbours.
    pub neighbours: HashSet<(IpAddr, u32)>,
    /// Addresses of the host: all next hops.
    pub addresses: bool,
    /// The kernel may have removed routes without a word.
    pub doubtful: bool,
}

/// All that is known.
#[derive(Debug, Default)]
pub struct Kernel {
    /// The table of routes beside the local one.
    pub table: u32,
    pub links: BTreeMap<u32, Link>,
    pub addresses: BTreeMap<(u32, IpAddr), Address>,
    pub neighbours: BTreeMap<(IpAddr, u32), Neighbour>,
    pub routes: HashMap<Prefix, Routes>,
    /// Number of prefixes of each length, by family.
    lengths: [Lengths; 2],
    paths: HashSet<Arc<RoutePath>>,
}

#[derive(Debug)]
struct Lengths([u32; 129]);

impl Default for Lengths {
    fn default() -> Self {
        Lengths([0; 129])
    }
}

/// Prefixes that are the host's whatever routes there are: groups, and addresses that mean nothing without a link. To
/// them the kernel has routes of several links at once, and a packet does not say of which.
pub fn always_host() -> [Prefix; 4] {
    let prefix = |text: &str, len| text.parse().map(|address| Prefix::new(address, len));
    let all = [prefix("224.0.0.0", 4), prefix("255.255.255.255", 32), prefix("fe80::", 10), prefix("ff00::", 8)];
    all.map(|prefix| prefix.expect("an address"))
}

impl Kernel {
    /// Nothing but what holds always; routes are those of this table and of the local one.
    pub fn new(table: u32) -> Kernel {
        let mut kernel = Kernel { table, ..Kernel::default() };
        for prefix in always_host() {
            let path = RoutePath { action: Action::Host, source: None, mtu: None, legs: Vec::new() };
            let route = Route { table: TABLE_LOCAL, metric: 0, path: Arc::new(path) };
            kernel.set_routes(prefix, Routes::from_iter([route]));
        }
        kernel
    }

    /// Takes in what happened.
    pub fn apply(&mut self, event: Event, touched: &mut Touched) {
        match event {
            Event::Link(index, link) => {
                let before = self.links.insert(index, link.clone());
                if before.as_ref() == Some(&link) {
                    return;
                }
                touched.interfaces.insert(index);
                let state = |link: &Link| (link.is_up, link.has_carrier);
                if before.as_ref().map(state) != Some(state(&link)) {
                    touched.everything = true;
                    if before.is_some() && !link.is_up {
                        self.interface_down(index);
                    }
                    touched.doubtful |= before.is_some();
                }
            }
            Event::LinkGone(index) => {
                if self.links.remove(&index).is_none() {
                    return;
                }
                self.addresses.retain(|(interface, _), _| *interface != index);
                self.neighbours.retain(|(_, interface), _| *interface != index);
                self.interface_down(index);
                touched.interfaces.insert(index);
                (touched.everything, touched.doubtful, touched.addresses) = (true, true, true);
            }
            Event::Address(interface, local, address) => {
                if self.addresses.insert((interface, local), address) != Some(address) {
                    touched.addresses = true;
                }
            }
            Event::AddressGone(interface, local) => {
                if self.addresses.remove(&(interface, local)).is_some() {
                    // Routes that name it as their source go with it.
                    (touched.addresses, touched.doubtful) = (true, true);
                }
            }
            Event::Neighbour(address, interface, neighbour) => {
                let before = self.neighbours.insert((address, interface), neighbour);
                if before.and_then(|before| before.mac) != neighbour.mac {
                    touched.neighbours.insert((address, interface));
                    touched.prefixes.insert(Prefix::host(address));
                }
            }
            Event::NeighbourGone(address, interface) => {
                if self.neighbours.remove(&(address, interface)).is_some_and(|before| before.mac.is_some()) {
                    touched.neighbours.insert((address, interface));
                    touched.prefixes.insert(Prefix::host(address));
                }
            }
            Event::Route(change) => self.add(change, touched),
            Event::RouteGone(change) => self.remove(change, touched),
        }
    }

    /// The kernel removes routes of which no way is left, and says so of some only.
    fn interface_down(&mut self, index: u32) {
        let links = &self.links;
        let is_down = |leg: &Leg| leg.interface == index || !links.get(&leg.interface).is_some_and(|link| link.is_up);
        let stays = |route: &Route| route.path.legs.is_empty() || !route.path.legs.iter().all(is_down);
        let affected = self.routes.iter().filter(|(_, routes)| !routes.iter().all(stays));
        let left = |routes: &Routes| routes.iter().filter(|route| stays(route)).cloned().collect();
        let affected: Vec<(Prefix, Routes)> = affected.map(|(prefix, routes)| (*prefix, left(routes))).collect();
        affected.into_iter().for_each(|(prefix, routes)| self.set_routes(prefix, routes));
    }

    /// Whether a route in a message is one of those that count.
    fn counts(&self, change: &RouteChange) -> bool {
        let of_links = always_host().iter().any(|prefix| prefix.contains(change.prefix.address()));
        !of_links && (change.table == TABLE_LOCAL || change.table == self.table)
    }

    fn shared(&mut self, path: Arc<RoutePath>) -> Arc<RoutePath> {
        match self.paths.get(&path) {
            Some(known) => known.clone(),
            None => {
                self.paths.insert(path.clone());
                path
            }
        }
    }

    fn add(&mut self, change: RouteChange, touched: &mut Touched) {
        if !self.counts(&change) {
            return;
        }
        let mut routes = self.routes.get(&change.prefix).cloned().unwrap_or_default();
        let before = routes.clone();
        self.insert(&mut routes, &change);
        if routes != before {
            touched.prefixes.insert(change.prefix);
            self.set_routes(change.prefix, routes);
        }
    }

    /// Puts a route in its place among those of its prefix.
    fn insert(&mut self, routes: &mut Routes, change: &RouteChange) {
        let route = Route { table: change.table, metric: change.metric, path: self.shared(change.path.clone()) };
        let same = |other: &Route| (other.table, other.metric) == (route.table, route.metric);
        let first = routes.iter().position(same);
        match first {
            // Those of IPv6 with equal metrics are one route with several ways, which is told way by way or whole.
            Some(at) if change.prefix.address().is_ipv6() && !change.replaces => {
                let path = joined(&routes[at].path, &route.path);
                routes[at].path = self.shared(Arc::new(path));
            }
            Some(at) if change.replaces => {
                routes[at] = route.clone();
                let mut index = 0;
                routes.retain(|other| {
                    index += 1;
                    index - 1 == at || *other != route
                });
            }
            _ if routes.contains(&route) => {}
            _ => {
                let end = routes.iter().rposition(same).filter(|_| change.is_appended).map(|at| at + 1);
                let place = routes.iter().position(|other| other.rank() >= route.rank());
                routes.insert(end.or(place).unwrap_or(routes.len()), route);
            }
        }
    }

    fn remove(&mut self, change: RouteChange, touched: &mut Touched) {
        if !self.counts(&change) {
            return;
        }
        let Some(mut routes) = self.routes.get(&change.prefix).cloned() else { return };
        let before = routes.clone();
        let same = |other: &Route| (other.table, other.metric) == (change.table, change.metric);
        if change.prefix.address().is_ipv6() && change.path.action == Action::Unicast {
            if let Some(at) = routes.iter().position(same) {
                let mut path = (*routes[at].path).clone();
                let goes = |leg: &Leg| change.path.legs.iter().any(|gone| way(gone) == way(leg));
                path.legs.retain(|leg| !goes(leg));
                if path.legs.is_empty() {
                    routes.remove(at);
                } else {
                    routes[at].path = self.shared(Arc::new(path));
                }
            }
        } else {
            // Flags of ways may have changed since without a word.
            let ways = |path: &RoutePath| (path.action, path.legs.iter().map(way).collect::<Vec<_>>());
            let gone = ways(&change.path);
            if let Some(at) = routes.iter().position(|route| same(route) && ways(&route.path) == gone) {
                routes.remove(at);
            }
        }
        if routes != before {
            touched.prefixes.insert(change.prefix);
            self.set_routes(change.prefix, routes);
        }
    }

    fn set_routes(&mut self, prefix: Prefix, routes: Routes) {
        let count = &mut self.lengths[usize::from(prefix.address().is_ipv6())].0[usize::from(prefix.len())];
        if routes.is_empty() {
            *count -= u32::from(self.routes.remove(&prefix).is_some());
        } else {
            *count += u32::from(self.routes.insert(prefix, routes).is_none());
        }
    }

    /// Takes over what a full dump has. How many prefixes had other routes.
    pub fn replace(&mut self, dumped: Kernel, touched: &mut Touched) -> usize {
        let Kernel { links, addresses, neighbours, routes, lengths, paths, table: _ } = dumped;
        let mut corrected = 0;
        for (prefix, now) in &routes {
            if self.routes.get(prefix) != Some(now) {
                touched.prefixes.insert(*prefix);
                corrected += 1;
            }
        }
        for prefix in self.routes.keys().filter(|prefix| !routes.contains_key(prefix)) {
            touched.prefixes.insert(*prefix);
            corrected += 1;
        }
        let is_other = |index: &u32, before: &BTreeMap<u32, Link>| before.get(index) != links.get(index);
        let interfaces = links.keys().chain(self.links.keys()).filter(|index| is_other(index, &self.links));
        let interfaces: Vec<u32> = interfaces.copied().collect();
        touched.everything |= !interfaces.is_empty();
        touched.interfaces.extend(interfaces);
        touched.addresses |= addresses != self.addresses;
        let keys = neighbours.keys().chain(self.neighbours.keys());
        let mac = |all: &BTreeMap<(IpAddr, u32), Neighbour>, key| all.get(key).and_then(|neighbour| neighbour.mac);
        for key in keys.filter(|key| mac(&neighbours, key) != mac(&self.neighbours, key)) {
            touched.neighbours.insert(*key);
            touched.prefixes.insert(Prefix::host(key.0));
        }
        (self.links, self.addresses, self.neighbours) = (links, addresses, neighbours);
        (self.routes, self.lengths, self.paths) = (routes, lengths, paths);
        corrected
    }

    /// The ways that packets to a prefix take by its own routes: the best route that leads anywhere.
    pub fn chosen(&self, prefix: &Prefix) -> Option<(&Arc<RoutePath>, SmallVec<[Leg; 1]>)> {
        self.routes.get(prefix)?.iter().find_map(|route| {
            if route.path.action != Action::Unicast {
                return Some((&route.path, SmallVec::new()));
            }
            let link = |leg: &Leg| self.links.get(&leg.interface);
            let up = |leg: &&Leg| !leg.is_dead && link(leg).is_some_and(|link| link.is_up);
            let mut legs: SmallVec<[Leg; 1]> = route.path.legs.iter().filter(up).copied().collect();
            // Of several ways those count that have something at their other end, where any has.
            let carries = |leg: &Leg| link(leg).is_some_and(|link| link.has_carrier);
            if legs.iter().any(carries) {
                legs.retain(|leg| carries(leg));
            }
            (!legs.is_empty()).then_some((&route.path, legs))
        })
    }

    /// The longest prefix around an address that has a route, among those shorter than `below`.
    pub fn covering(&self, address: IpAddr, below: u8) -> Option<Prefix> {
        let counts = &self.lengths[usize::from(address.is_ipv6())].0;
        (0..below.min(width(address) + 1)).rev().filter(|len| counts[usize::from(*len)] > 0).find_map(|len| {
            let prefix = Prefix::new(address, len);
            self.chosen(&prefix).map(|_| prefix)
        })
    }

    /// The neighbours whose addresses a prefix holds.
    pub fn neighbours_in(&self, prefix: &Prefix) -> impl Iterator<Item = &(IpAddr, u32)> {
        let ends = (prefix.address(), 0)..=(prefix.last(), u32::MAX);
        self.neighbours.range(ends).map(|(key, _)| key)
    }

    /// The host's address that packets by an interface, to this neighbour or destination, come from.
    pub fn source(&self, interface: u32, towards: IpAddr, is_ipv6: bool) -> Option<IpAddr> {
        let of = |wanted: Option<u32>| {
            let family = move |address: &IpAddr| address.is_ipv6() == is_ipv6;
            let all = self
                .addresses
                .iter()
                .filter(move |((own, local), _)| family(local) && wanted.is_none_or(|wanted| *own == wanted));
            all.map(|((_, local), address)| (*local, *address))
        };
        let usable = |(_, address): &(IpAddr, Address)| address.is_global && !address.is_secondary;
        let near = |(local, address): &(IpAddr, Address)| Prefix::new(*local, address.prefix_len).contains(towards);
        let found = of(Some(interface)).filter(usable).find(near);
        let found = found.or_else(|| of(Some(interface)).find(usable)).or_else(|| of(None).find(usable));
        found.map(|(local, _)| local)
    }
}

/// Which way it is.
fn way(leg: &Leg) -> (u32, Option<IpAddr>) {
    (leg.interface, leg.gateway)
}

/// A route with the ways of both. What is told last holds of the rest.
fn joined(before: &RoutePath, told: &RoutePath) -> RoutePath {
    let mut path = told.clone();
    if before.action == Action::Unicast && told.action == Action::Unicast {
        let missing = before.legs.iter().filter(|leg| !told.legs.iter().any(|other| way(other) == way(leg)));
        path.legs.extend(missing);
        path.legs.sort_unstable();
    }
    path
}

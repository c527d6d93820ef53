//! The tables of a program, kept as the kernel has it. It knows no sockets: events come in, entries go out.
//!
//! Next hops from 1024 on, and routes that lead to them, are the mirror's. So what it has written can be told from what
//! operators and the configuration have set, also by another process later on, and a route that leads to one of theirs
//! is left as it is.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use baker::ir::TableError;
use dataplane::controller::{self, NamedTables, PortInfo};

use crate::decide::{Decision, Reason, Way, decide, look_up};
use crate::hops::{Full, Hops, Key, Rendered};
use crate::kernel::event::Event;
use crate::kernel::state::{Kernel, Touched};
use crate::ports::PortMap;
use crate::prefix::Prefix;
use crate::program::{FIRST, Hop, HopAction, Tables, unmapped};
use crate::settings::{Fate, Settings};

/// Routes that are written between two looks at events.
const CHUNK: usize = 8192;

/// A neighbour: its address and the kernel's interface to it.
pub type Neighbour = (IpAddr, u32);

/// What a route in the tables leads to.
#[derive(Clone, Copy, Debug)]
struct Installed {
    number: u32,
    /// It counts among those that lead to the next hop.
    is_counted: bool,
}

/// The tables of a program, and what is known of the kernel.
pub struct Mirror {
    named: NamedTables,
    tables: Tables,
    ports: Vec<PortInfo>,
    settings: Settings,
    pub kernel: Kernel,
    map: PortMap,
    hops: Hops,
    installed: HashMap<Prefix, Installed>,
    /// How many of them are of IPv6.
    six: usize,
    /// Those that operators or the configuration have set.
    by_hand: HashSet<Prefix>,
    pub touched: Touched,
    /// Whether all of the kernel's routes have been written once.
    is_whole: bool,
    /// Routes, or next hops of routes, that found no room.
    pub refused: u64,
}

impl Mirror {
    /// Takes over what the tables have from an instance or a program before, until [`Mirror::flush`] puts in force what
    /// is known by then.
    pub fn new(named: &NamedTables, tables: Tables, ports: &[PortInfo], settings: Settings) -> Mirror {
        let mut mirror = Mirror {
            named: named.clone(),
            hops: Hops::adopt(&tables),
            tables,
            ports: ports.to_vec(),
            kernel: Kernel::new(settings.table),
            settings,
            map: PortMap::default(),
            installed: HashMap::new(),
            six: 0,
            by_hand: HashSet::new(),
            touched: Touched { everything: true, ..Touched::default() },
            is_whole: false,
            refused: 0,
        };
        for (prefix, number) in mirror.found() {
            mirror.install(prefix, Some(Installed { number, is_counted: false }));
        }
        mirror
    }

    /// The routes in the tables that are the mirror's.
    fn found(&self) -> HashMap<Prefix, u32> {
        let four = self.tables.routes4.entries().into_iter();
        let six = self.tables.routes6.entries().into_iter();
        let four = four.map(|(controller::Prefix(address, len), number)| (IpAddr::V4(address), len, number));
        let six = six.map(|(controller::Prefix(address, len), number)| (IpAddr::V6(address), len, number));
        let own = four.chain(six).filter(|(_, _, number)| *number >= FIRST);
        own.map(|(address, len, number)| (Prefix::new(address, len as u8), number)).collect()
    }

    /// Number of routes in the tables that are the mirror's: IPv4 and IPv6.
    pub fn counts(&self) -> (usize, usize) {
        (self.installed.len() - self.six, self.six)
    }

    /// Notes what a route in the tables leads to, if it is there; what it led to before.
    fn install(&mut self, prefix: Prefix, now: Option<Installed>) -> Option<Installed> {
        let is_there = now.is_some();
        let before = match now {
            Some(now) => self.installed.insert(prefix, now),
            None => self.installed.remove(&prefix),
        };
        if prefix.address().is_ipv6() {
            self.six = self.six + usize::from(is_there) - usize::from(before.is_some());
        }
        before
    }

    /// Number of next hops.
    pub fn next_hops(&self) -> usize {
        self.hops.known()
    }

    /// Number of routes that operators or the configuration have set to prefixes that have one of the kernel.
    pub fn by_hand(&self) -> usize {
        self.by_hand.len()
    }

    /// The ports, and the kernel's interfaces to what is behind them.
    pub fn port_names(&self) -> Vec<(String, Option<String>)> {
        let interface = |port: &PortInfo| {
            let link = self.kernel.links.get(&self.map.interface(port.number)?)?;
            Some(link.name.clone())
        };
        self.ports.iter().map(|port| (port.name.clone(), interface(port))).collect()
    }

    /// Takes in what happened.
    pub fn apply(&mut self, event: Event) {
        self.kernel.apply(event, &mut self.touched);
    }

    /// Puts what happened in force in the tables. `go_on` is asked from time to time; where it says no, or the tables
    /// can't be written, all is to be begun anew. Whether it came to the end.
    pub fn flush(&mut self, go_on: &mut dyn FnMut() -> bool) -> Result<bool, TableError> {
        let touched = std::mem::take(&mut self.touched);
        if touched.everything || !touched.interfaces.is_empty() {
            let map = PortMap::new(&self.kernel, &self.ports, &self.settings, &self.map);
            if map != self.map {
                self.map = map;
                self.hops.touch(|_| true);
            }
        }
        if touched.addresses {
            self.hops.touch(|_| true);
        } else if !touched.interfaces.is_empty() {
            self.hops.touch(|way| touched.interfaces.contains(&way.interface));
        }
        touched.neighbours.iter().for_each(|neighbour| self.hops.touch_neighbour(*neighbour));
        let mut prefixes = touched.prefixes;
        if touched.everything {
            prefixes.extend(self.kernel.routes.keys().chain(self.installed.keys()));
            prefixes.extend(self.kernel.neighbours.keys().map(|(address, _)| Prefix::host(*address)));
        } else {
            let around: Vec<Prefix> = prefixes.iter().filter(|prefix| prefix.single().is_none()).copied().collect();
            let neighbours = around.iter().flat_map(|prefix| self.kernel.neighbours_in(prefix));
            prefixes.extend(neighbours.map(|(address, _)| Prefix::host(*address)));
        }
        let prefixes: Vec<Prefix> = prefixes.into_iter().collect();
        for chunk in prefixes.chunks(CHUNK) {
            self.write(chunk)?;
            if !go_on() {
                return Ok(false);
            }
        }
        // Also where no route changed.
        self.write(&[])?;
        if !self.is_whole {
            self.hops.forget_stale();
            self.is_whole = true;
            self.write_default()?;
        }
        Ok(true)
    }

    /// What holds where no route leads.
    fn write_default(&mut self) -> Result<(), TableError> {
        let (hop, _) = render(&self.kernel, &self.map, &self.settings, &Key::Drop(Reason::NoRoute));
        if self.tables.hops.get(&0) == Some(hop) { Ok(()) } else { self.tables.hops.set(&0, &hop) }
    }

    fn write(&mut self, prefixes: &[Prefix]) -> Result<(), TableError> {
        let mut writes = Vec::new();
        for prefix in prefixes {
            let wanted = match decide(&self.kernel, prefix) {
                Some(decision) => match self.number(prefix, &decision) {
                    Ok(number) => Some(number),
                    Err(Full) => {
                        self.refused += 1;
                        continue;
                    }
                },
                None => None,
            };
            match (wanted, self.installed.get_mut(prefix)) {
                (Some(wanted), Some(now)) if wanted == now.number => {
                    if std::mem::replace(&mut now.is_counted, true) {
                        self.hops.release(wanted);
                    }
                }
                (None, None) => _ = self.by_hand.remove(prefix),
                _ => writes.push((*prefix, wanted)),
            }
        }
        let Mirror { kernel, map, settings, .. } = self;
        self.hops.write((&self.named, &mut self.tables), |key| render(kernel, map, settings, key))?;
        writes.into_iter().try_for_each(|(prefix, wanted)| self.set(prefix, wanted))
    }

    /// The number of the next hop that stands for a decision, for one route more: that to this prefix.
    fn number(&mut self, prefix: &Prefix, decision: &Decision) -> Result<u32, Full> {
        let Mirror { kernel, map, settings, hops, .. } = self;
        let before = self.installed.get(prefix).map(|before| before.number);
        let mut acquire = |key: Key| hops.acquire(key.clone(), before, || render(kernel, map, settings, &key));
        let ways = match decision {
            Decision::Host => return acquire(Key::Host),
            Decision::Drop(reason) => return acquire(Key::Drop(*reason)),
            Decision::Ways(ways) => ways,
        };
        if let [(way, _)] = ways[..] {
            return acquire(Key::Way(way));
        }
        let mut members = Vec::with_capacity(ways.len());
        for (way, weight) in ways {
            match acquire(Key::Way(*way)) {
                Ok(number) => members.push((number, *weight)),
                Err(Full) => {
                    members.iter().for_each(|(number, _)| self.hops.release(*number));
                    return Err(Full);
                }
            }
        }
        let group = acquire(Key::Group(members.clone()));
        // The group counts by itself.
        members.iter().for_each(|(number, _)| self.hops.release(*number));
        group
    }

    /// Sets a route, or removes it, unless it is one of operators or of the configuration.
    fn set(&mut self, prefix: Prefix, wanted: Option<u32>) -> Result<(), TableError> {
        let own = |now: Option<u32>| now.is_none_or(|number| number == 0 || number >= FIRST);
        let len = u32::from(prefix.len());
        let changed = match prefix.address() {
            IpAddr::V4(v4) => self.tables.routes4.change_if(&controller::Prefix(v4, len), wanted.as_ref(), own),
            IpAddr::V6(v6) => self.tables.routes6.change_if(&controller::Prefix(v6, len), wanted.as_ref(), own),
        };
        let is_set = match changed {
            Ok(is_own) => {
                if is_own {
                    self.by_hand.remove(&prefix)
                } else {
                    self.by_hand.insert(prefix)
                };
                is_own
            }
            Err(TableError::NotFound) if wanted.is_none() => true,
            Err(TableError::Full) => {
                self.refused += 1;
                false
            }
            Err(error) => return Err(error),
        };
        let now = wanted.filter(|_| is_set).map(|number| Installed { number, is_counted: true });
        let before = self.install(prefix, now);
        if !is_set && let Some(number) = wanted {
            self.hops.release(number);
        }
        if let Some(Installed { number, is_counted: true }) = before {
            self.hops.release(number);
        }
        Ok(())
    }

    /// Looks for what others have changed in the tables; [`Mirror::flush`] puts it right.
    pub fn verify(&mut self) -> Result<(), TableError> {
        let found = self.found();
        let mut release = Vec::new();
        let is_other = |(prefix, now): &(&Prefix, &Installed)| found.get(*prefix) != Some(&now.number);
        let others: Vec<Prefix> = self.installed.iter().filter(is_other).map(|(prefix, _)| *prefix).collect();
        for prefix in others {
            let before = self.install(prefix, None);
            release.extend(before.filter(|before| before.is_counted).map(|before| before.number));
            self.touched.prefixes.insert(prefix);
        }
        for (prefix, number) in found {
            if !self.installed.contains_key(&prefix) {
                self.install(prefix, Some(Installed { number, is_counted: false }));
                self.touched.prefixes.insert(prefix);
            }
        }
        release.into_iter().for_each(|number| self.hops.release(number));
        self.touched.prefixes.extend(&self.by_hand);
        self.hops.verify(&self.tables);
        self.write_default()
    }

    /// Tries again to set routes that were not the mirror's.
    pub fn retry_by_hand(&mut self) {
        self.touched.prefixes.extend(&self.by_hand);
    }

    /// Frees what packets may have held before.
    pub fn settle(&mut self) -> Result<(), TableError> {
        if self.hops.is_cooling() { self.hops.settle(&self.named, &mut self.tables) } else { Ok(()) }
    }

    fn is_known(&self, neighbour: &Neighbour) -> bool {
        self.kernel.neighbours.get(neighbour).is_some_and(|known| known.mac.is_some())
    }

    fn neighbour_of(&self, way: &Way) -> Option<Neighbour> {
        way.neighbour.filter(|_| self.map.port(way.interface).is_some()).map(|address| (address, way.interface))
    }

    /// Neighbours of new next hops that are not known.
    pub fn unasked(&mut self) -> Vec<Neighbour> {
        let numbers = std::mem::take(&mut self.hops.unasked);
        let ways = numbers.into_iter().filter_map(|number| match self.hops.key(number) {
            Some(Key::Way(way)) => self.neighbour_of(way),
            _ => None,
        });
        ways.filter(|neighbour| !self.is_known(neighbour)).collect()
    }

    /// Neighbours of all next hops that are not known.
    pub fn unresolved(&self) -> Vec<Neighbour> {
        let all = self.hops.ways().filter_map(|way| self.neighbour_of(way));
        all.filter(|neighbour| !self.is_known(neighbour)).collect()
    }

    /// Neighbours that packets have been sent to since the last time, of which the kernel has not heard for long.
    pub fn in_use(&mut self) -> Result<Vec<Neighbour>, TableError> {
        let used = self.tables.used.entries();
        let zeros: Vec<(u32, u8)> = used.iter().map(|(number, _)| (*number, 0)).collect();
        self.tables.used.set_all(&zeros)?;
        let ways = used.iter().filter_map(|(number, _)| match self.hops.key(*number) {
            Some(Key::Way(way)) => self.neighbour_of(way),
            _ => None,
        });
        let quiet = |neighbour: &Neighbour| {
            self.kernel.neighbours.get(neighbour).is_none_or(|known| known.mac.is_none() || known.is_stale)
        };
        Ok(ways.filter(quiet).collect())
    }

    /// Neighbours whose packets were dropped because they are not known.
    pub fn wanted(&self) -> Vec<Neighbour> {
        if self.settings.unresolved == Fate::Host {
            return Vec::new();
        }
        let ways = |destination: IpAddr| match look_up(&self.kernel, destination) {
            Decision::Ways(ways) => ways.into_iter().map(|(way, _)| way).collect(),
            _ => Vec::new(),
        };
        let wanted = self.tables.wanted.entries().into_iter().map(|(destination, _)| unmapped(destination));
        let neighbours = wanted.flat_map(|destination| {
            ways(destination).into_iter().map(move |way| Way { neighbour: way.neighbour.or(Some(destination)), ..way })
        });
        let neighbours = neighbours.filter_map(|way| self.neighbour_of(&way));
        neighbours.filter(|neighbour| !self.is_known(neighbour)).collect()
    }
}

/// What the tables say of a next hop that is no group.
fn render(kernel: &Kernel, map: &PortMap, settings: &Settings, key: &Key) -> Rendered {
    let way = match key {
        Key::Host | Key::Group(_) => return (Hop::default(), None),
        Key::Drop(Reason::NoRoute | Reason::Unreachable | Reason::Prohibited) if settings.unreachable == Fate::Host => {
            return (Hop::default(), None);
        }
        Key::Drop(reason) => return (Hop::drop(*reason), None),
        Key::Way(way) => way,
    };
    let link = kernel.links.get(&way.interface).filter(|link| link.is_up);
    let out = map.port(way.interface).zip(link.and_then(|link| Some((link.mac?, link.mtu))));
    let Some((port, (src, mtu))) = out else { return (Hop::default(), None) };
    let none = || if way.is_ipv6 { IpAddr::from([0; 16]) } else { IpAddr::from([0; 4]) };
    let towards = way.neighbour.unwrap_or_else(none);
    let source = way.source.or_else(|| kernel.source(way.interface, towards, way.is_ipv6));
    let known = way.neighbour.and_then(|address| kernel.neighbours.get(&(address, way.interface))?.mac);
    let hop = match known {
        Some(dst) => {
            let mtu = way.mtu.map_or(mtu, |most| most.min(mtu));
            Hop { action: HopAction::Send, port, src, dst, mtu, ..Hop::default() }
        }
        None if settings.unresolved == Fate::Drop => Hop::drop(Reason::Unresolved),
        None => Hop::default(),
    };
    (hop, source)
}

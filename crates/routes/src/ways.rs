//! The kernel's way to single addresses, for controllers of programs that have no instance of `net/next_hop`: they know
//! a few servers, and a table of all routes would be too much for that.
//!
//! A thread asks, again and again: an answer waits for the kernel's lock of all interfaces, which may be held for long.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dataplane::controller::PortInfo;

use crate::kernel::event::{Action, Mac, TABLE_MAIN};
use crate::kernel::socket::{Dump, Requests};
use crate::kernel::state::Kernel;
use crate::ports::PortMap;
use crate::settings::Settings;

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(1);

/// The way to an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// The port that leads there.
    pub port: u8,
    /// The host's own address towards it.
    pub source: IpAddr,
    /// The next hop: the address itself, or a router.
    pub next_hop: IpAddr,
    /// Its Ethernet address.
    pub mac: Mac,
}

/// Why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoWay {
    /// It was not asked yet.
    Unknown,
    /// No route leads there.
    NoRoute,
    /// It is the host's own, or the way is one that only the kernel can go.
    Host,
    /// The way leads by this interface, which is no port.
    Interface(String),
    /// The next hop's Ethernet address is not known yet: the kernel asks for it.
    Unresolved(IpAddr),
}

impl fmt::Display for NoWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoWay::Unknown => f.write_str("the kernel was not asked yet for the way to it"),
            NoWay::NoRoute => f.write_str("the kernel has no route to it"),
            NoWay::Host => f.write_str("the kernel has it itself, or a way that only the kernel can go"),
            NoWay::Interface(name) => write!(f, "the kernel's way to it is by {name}, which is no port"),
            NoWay::Unresolved(next_hop) => write!(f, "{next_hop} does not answer on the link"),
        }
    }
}

/// A port's interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its Ethernet address.
    pub mac: Mac,
    /// Its addresses, with the lengths of their prefixes.
    pub addresses: Vec<(IpAddr, u8)>,
}

/// What was found at one look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The way to each address that was asked for.
    pub ways: HashMap<IpAddr, Result<Way, NoWay>>,
    /// The interfaces of ports.
    pub interfaces: BTreeMap<u8, Interface>,
}

/// See the module. The thread ends some time after this is dropped.
#[derive(Debug)]
pub struct Ways(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    wanted: Vec<IpAddr>,
    /// Something is wanted that was not looked for yet.
    is_new: bool,
    is_over: bool,
    found: Arc<Found>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ways {
    /// For an instance with these ports, in the calling thread's network namespace.
    ///
    /// # Errors
    /// Where the kernel can't be asked, or gives no thread.
    pub fn start(ports: Vec<PortInfo>) -> io::Result<Ways> {
        let (requests, shared) = (Requests::open()?, Arc::new(Shared::default()));
        let own = shared.clone();
        std::thread::Builder::new().name("ways".into()).spawn(move || run(&own, requests, &ports))?;
        Ok(Ways(shared))
    }

    /// Asks for the ways to these addresses from now on.
    pub fn want(&self, addresses: Vec<IpAddr>) {
        let mut state = self.0.lock();
        if state.wanted != addresses {
            (state.wanted, state.is_new) = (addresses, true);
            self.0.changed.notify_all();
        }
    }

    /// What was found last.
    pub fn found(&self) -> Arc<Found> {
        self.0.lock().found.clone()
    }
}

impl Drop for Ways {
    fn drop(&mut self) {
        self.0.lock().is_over = true;
        self.0.changed.notify_all();
    }
}

fn run(shared: &Shared, mut requests: Requests, ports: &[PortInfo]) {
    let (mut map, mut failed) = (PortMap::default(), false);
    loop {
        let state = shared.lock();
        let waits = |state: &mut State| !state.is_new && !state.is_over;
        let (mut state, _) =
            shared.changed.wait_timeout_while(state, PAUSE, waits).unwrap_or_else(PoisonError::into_inner);
        if state.is_over {
            return;
        }
        state.is_new = false;
        let wanted = state.wanted.clone();
        drop(state);
        match look(&mut requests, ports, &mut map, &wanted) {
            Ok(found) => {
                failed = false;
                let mut state = shared.lock();
                // What is as before stays the same to those who compare.
                if *state.found != found {
                    state.found = Arc::new(found);
                }
            }
            // What was found before holds on.
            Err(error) if !failed => {
                tracing::error!("the kernel can't be asked for its routes: {error}");
                failed = true;
            }
            Err(_) => {}
        }
    }
}

/// Asks once.
fn look(requests: &mut Requests, ports: &[PortInfo], map: &mut PortMap, wanted: &[IpAddr]) -> io::Result<Found> {
    let mut kernel = Kernel::new(TABLE_MAIN);
    for dump in [Dump::Links, Dump::Addresses, Dump::Neighbours] {
        requests.dump(dump, &mut |event| kernel.apply(event, &mut Default::default()), &mut || {})?;
    }
    *map = PortMap::new(&kernel, ports, &Settings::default(), map);
    let mut found = Found::default();
    for (number, link) in &kernel.links {
        let (Some(port), Some(mac)) = (map.port(*number), link.mac) else { continue };
        let of_link = kernel.addresses.range((*number, IpAddr::from([0; 4]))..);
        let of_link = of_link.take_while(|((own, _), _)| own == number);
        let addresses = of_link.map(|((_, address), own)| (*address, own.prefix_len)).collect();
        found.interfaces.insert(port, Interface { mac, addresses });
    }
    for address in wanted {
        found.ways.insert(*address, way(requests, &kernel, map, *address)?);
    }
    Ok(found)
}

fn way(requests: &mut Requests, kernel: &Kernel, map: &PortMap, address: IpAddr) -> io::Result<Result<Way, NoWay>> {
    let Some(path) = requests.way(address)? else { return Ok(Err(NoWay::NoRoute)) };
    let (Action::Unicast, Some(leg), Some(source)) = (path.action, path.legs.first(), path.source) else {
        return Ok(Err(NoWay::Host));
    };
    let Some(port) = map.port(leg.interface) else {
        let name = kernel.links.get(&leg.interface).map_or_else(String::new, |link| link.name.clone());
        return Ok(Err(NoWay::Interface(name)));
    };
    let next_hop = leg.gateway.unwrap_or(address);
    let neighbour = kernel.neighbours.get(&(next_hop, leg.interface));
    // Its packets do not pass the kernel, which would forget it.
    if neighbour.is_none_or(|own| own.mac.is_none() || own.is_stale) {
        requests.use_neighbour(leg.interface, next_hop)?;
    }
    let mac = neighbour.and_then(|own| own.mac);
    Ok(mac.map(|mac| Way { port, source, next_hop, mac }).ok_or(NoWay::Unresolved(next_hop)))
}

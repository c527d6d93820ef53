//! XDP programs by hand, in C: an L3 switch with the kernel's maps, and a router that asks the kernel's tables.

use aya::maps::{Array, DevMap, HashMap};
use aya::{Ebpf, Pod};
use lab::Namespace;

use super::line::{attach, program};
use crate::l3::setup::Setup;
use crate::text;
use crate::veth::PORTS;

const L3: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/l3.o"));
const FIB: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/fib.o"));

/// Marks an entry of the first table that leads to a group of the second.
const GROUP: u32 = 1 << 31;

/// `struct port` of peers/xdp/l3.c
#[derive(Clone, Copy)]
#[repr(C)]
struct Port {
    mac: u64,
    number: u8,
    domain: u8,
    unused: [u8; 6],
}
// SAFETY: plain data without padding.
unsafe impl Pod for Port {}

/// `struct next_hop`
#[derive(Clone, Copy)]
#[repr(C)]
struct NextHop {
    src: u64,
    gateway: u32,
    domain: u32,
}
// SAFETY: plain data without padding.
unsafe impl Pod for NextHop {}

/// `struct place`
#[derive(Clone, Copy)]
#[repr(C)]
struct Place {
    port: u32,
    heard: u32,
}
// SAFETY: plain data without padding.
unsafe impl Pod for Place {}

/// The L3 switch with these tables, between the ports.
pub fn l3(system: &Namespace, setup: &Setup) -> Result<Ebpf, String> {
    let mut object = Ebpf::load(L3).map_err(text)?;
    let interfaces = interfaces(system)?;
    let mut ports = Array::<_, Port>::try_from(map(&mut object, "ports")?).map_err(text)?;
    for (port, interface) in setup.ports.iter().zip(interfaces) {
        let value = Port { mac: raw(port.mac), number: port.number, domain: port.domain, unused: [0; 6] };
        ports.set(interface & 63, value, 0).map_err(text)?;
    }
    let numbers = setup.ports.iter().map(|port| port.number.into()).zip(interfaces);
    devices(&mut object, system, &numbers.collect::<Vec<_>>())?;
    let mut stations = HashMap::<_, u64, Place>::try_from(map(&mut object, "stations")?).map_err(text)?;
    for station in &setup.stations {
        let key = u64::from(station.domain) << 48 | raw(station.mac);
        stations.insert(key, Place { port: station.port.into(), heard: 0 }, 0).map_err(text)?;
    }
    let mut neighbours = HashMap::<_, u32, u64>::try_from(map(&mut object, "neighbours")?).map_err(text)?;
    for &(address, mac) in &setup.neighbours {
        neighbours.insert(address.to_be(), raw(mac), 0).map_err(text)?;
    }
    let mut local = HashMap::<_, u32, u8>::try_from(map(&mut object, "local")?).map_err(text)?;
    for address in &setup.local_addrs {
        local.insert(address.to_be(), 1, 0).map_err(text)?;
    }
    let mut hops = Array::<_, NextHop>::try_from(map(&mut object, "next_hops")?).map_err(text)?;
    for hop in &setup.next_hops {
        let value = NextHop { src: raw(hop.src), gateway: hop.gateway.to_be(), domain: hop.domain.into() };
        hops.set(hop.index, value, 0).map_err(text)?;
    }
    let (first, second) = dir_24_8(setup);
    for (name, entries) in [("tbl24", first), ("tbl8", second)] {
        let mut table = Array::<_, u32>::try_from(map(&mut object, name)?).map_err(text)?;
        for (index, entry) in (0..).zip(entries).filter(|(_, entry)| *entry != 0) {
            table.set(index, entry, 0).map_err(text)?;
        }
    }
    start(&mut object, "l3", system)?;
    Ok(object)
}

/// The router that asks the kernel.
pub fn fib(system: &Namespace) -> Result<Ebpf, String> {
    let mut object = Ebpf::load(FIB).map_err(text)?;
    devices(&mut object, system, &interfaces(system)?.map(|interface| (interface & 63, interface)))?;
    start(&mut object, "fib", system)?;
    Ok(object)
}

fn start(object: &mut Ebpf, name: &str, system: &Namespace) -> Result<(), String> {
    program(object, name)?.load().map_err(text)?;
    PORTS.iter().try_for_each(|port| attach(program(object, name)?, system, port))
}

/// Fills the map of devices, whose numbers mean something in the system's namespace only.
fn devices(object: &mut Ebpf, system: &Namespace, devices: &[(u32, u32)]) -> Result<(), String> {
    let mut map = DevMap::try_from(map(object, "devices")?).map_err(text)?;
    let mut set = || devices.iter().try_for_each(|&(number, device)| map.set(number, device, None, 0)).map_err(text);
    system.enter(&mut set).map_err(text)?
}

fn map<'e>(object: &'e mut Ebpf, name: &str) -> Result<&'e mut aya::maps::Map, String> {
    object.map_mut(name).ok_or_else(|| format!("there is no map {name}"))
}

/// The numbers of the system's ports.
fn interfaces(system: &Namespace) -> Result<[u32; 2], String> {
    let index = |port| system.enter(|| nix::net::if_::if_nametoindex(port)).map_err(text)?.map_err(text);
    Ok([index(PORTS[0])?, index(PORTS[1])?])
}

/// An Ethernet address as the low 48 bits of a little-endian load.
fn raw(mac: u64) -> u64 {
    mac.swap_bytes() >> 16
}

/// The routes in two tables (Gupta, Lin and McKeown, "Routing lookups in hardware at memory access speeds", 1998).
fn dir_24_8(setup: &Setup) -> (Vec<u32>, Vec<u32>) {
    let (mut first, mut second) = (vec![0u32; 1 << 24], Vec::new());
    let mut routes: Vec<_> = setup.routes.iter().collect();
    routes.sort_by_key(|route| route.len);
    for route in routes {
        let start = (route.prefix >> 8) as usize;
        if route.len <= 24 {
            first[start..start + (1 << (24 - route.len))].fill(route.next_hop);
            continue;
        }
        if first[start] & GROUP == 0 {
            let group = (second.len() / 256) as u32;
            second.resize(second.len() + 256, first[start]);
            first[start] = GROUP | group;
        }
        let at = (first[start] & !GROUP) as usize * 256 + (route.prefix & 255) as usize;
        second[at..at + (1 << (32 - route.len))].fill(route.next_hop);
    }
    (first, second)
}

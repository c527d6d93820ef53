//! XDP programs by hand, in C: an L3 switch with the kernel's maps, and a router that asks the kernel's tables.

use aya::maps::{Array, DevMap, HashMap};
use aya::{Ebpf, Pod};
use lab::Namespace;

use super::line::{attach, program};
use crate::l3::setup::Setup;
use crate::text;
use crate::veth::PORTS;

pub const L3: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/xdp-l3.o"));
const FIB: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/xdp-fib.o"));

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

/// `struct fdb`
#[derive(Clone, Copy)]
#[repr(C)]
struct FdbEntry {
    port: u32,
    heard: u32,
}
// SAFETY: plain data without padding.
unsafe impl Pod for FdbEntry {}

/// What is in the L3 switch's maps, by key.
struct Tables {
    ports: Vec<(u32, Port)>,
    stations: Vec<(u64, FdbEntry)>,
    neighbours: Vec<(u32, u64)>,
    local: Vec<(u32, u8)>,
    next_hops: Vec<(u32, NextHop)>,
    tbl24: Vec<(u32, u32)>,
    tbl8: Vec<(u32, u32)>,
}

impl Tables {
    /// For ports with these interfaces.
    fn new(setup: &Setup, interfaces: &[u32]) -> Self {
        let port = |port: &crate::l3::setup::Port| Port {
            mac: raw(port.mac),
            number: port.number,
            domain: port.domain,
            unused: [0; 6],
        };
        let station = |station: &crate::l3::setup::Station| {
            let key = u64::from(station.domain) << 48 | raw(station.mac);
            (key, FdbEntry { port: station.port.into(), heard: 0 })
        };
        let hop = |hop: &crate::l3::setup::NextHop| {
            (hop.index, NextHop { src: raw(hop.src), gateway: hop.gateway.to_be(), domain: hop.domain.into() })
        };
        let used = |entries: Vec<u32>| (0..).zip(entries).filter(|(_, entry)| *entry != 0).collect();
        let (first, second) = dir_24_8(setup);
        Tables {
            ports: interfaces.iter().map(|interface| interface & 63).zip(setup.ports.iter().map(port)).collect(),
            stations: setup.stations.iter().map(station).collect(),
            neighbours: setup.neighbours.iter().map(|&(address, mac)| (address.to_be(), raw(mac))).collect(),
            local: setup.local_addrs.iter().map(|address| (address.to_be(), 1)).collect(),
            next_hops: setup.next_hops.iter().map(hop).collect(),
            tbl24: used(first),
            tbl8: used(second),
        }
    }
}

/// Bytes of a key, and keys with values; none of a map that packets are redirected by.
pub type Entries = Option<(usize, Vec<(Vec<u8>, Vec<u8>)>)>;

/// What is in the L3 switch's maps, by name, for a port 1 with this interface.
pub fn contents(setup: &Setup, interface: u32) -> Vec<(&'static str, Entries)> {
    fn words<T>(entries: Vec<(u32, T)>, value: impl Fn(T) -> Vec<u8>) -> Entries {
        Some((4, entries.into_iter().map(|(key, of)| (key.to_le_bytes().to_vec(), value(of))).collect()))
    }
    let tables = Tables::new(setup, &[interface]);
    let station = |(key, FdbEntry { port, heard }): (u64, FdbEntry)| {
        (key.to_le_bytes().to_vec(), [port.to_le_bytes(), heard.to_le_bytes()].concat())
    };
    let port = |Port { mac, number, domain, unused }| [&mac.to_le_bytes()[..], &[number, domain], &unused].concat();
    let hop = |NextHop { src, gateway, domain }| {
        [&src.to_le_bytes()[..], &gateway.to_le_bytes(), &domain.to_le_bytes()].concat()
    };
    let number = |entry: u32| entry.to_le_bytes().to_vec();
    vec![
        ("ports", words(tables.ports, port)),
        ("devices", None),
        ("stations", Some((8, tables.stations.into_iter().map(station).collect()))),
        ("neighbours", words(tables.neighbours, |mac| mac.to_le_bytes().to_vec())),
        ("local", words(tables.local, |value| vec![value])),
        ("next_hops", words(tables.next_hops, hop)),
        ("tbl24", words(tables.tbl24, number)),
        ("tbl8", words(tables.tbl8, number)),
        ("counters", words((0..16).map(|counter| (counter, 0u64)).collect(), |count| count.to_le_bytes().to_vec())),
    ]
}

/// The L3 switch with these tables, between the ports.
pub fn l3(system: &Namespace, setup: &Setup) -> Result<Ebpf, String> {
    let mut object = Ebpf::load(L3).map_err(text)?;
    let interfaces = interfaces(system)?;
    let tables = Tables::new(setup, &interfaces);
    array(&mut object, "ports", tables.ports)?;
    let numbers = setup.ports.iter().map(|port| port.number.into()).zip(interfaces);
    devices(&mut object, system, &numbers.collect::<Vec<_>>())?;
    hash(&mut object, "stations", tables.stations)?;
    hash(&mut object, "neighbours", tables.neighbours)?;
    hash(&mut object, "local", tables.local)?;
    array(&mut object, "next_hops", tables.next_hops)?;
    array(&mut object, "tbl24", tables.tbl24)?;
    array(&mut object, "tbl8", tables.tbl8)?;
    start(&mut object, "l3", system)?;
    Ok(object)
}

fn array<V: Pod>(object: &mut Ebpf, name: &str, entries: Vec<(u32, V)>) -> Result<(), String> {
    let mut table = Array::<_, V>::try_from(map(object, name)?).map_err(text)?;
    entries.into_iter().try_for_each(|(index, value)| table.set(index, value, 0)).map_err(text)
}

fn hash<K: Pod, V: Pod>(object: &mut Ebpf, name: &str, entries: Vec<(K, V)>) -> Result<(), String> {
    let mut table = HashMap::<_, K, V>::try_from(map(object, name)?).map_err(text)?;
    entries.into_iter().try_for_each(|(key, value)| table.insert(key, value, 0)).map_err(text)
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

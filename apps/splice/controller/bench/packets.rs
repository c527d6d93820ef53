//! Time per packet in the fast path, by kind of packet and by placement, and with many connections; memory per
//! connection.
//!
//! On workers the engine runs alone, in memory; in the kernel each packet goes through the kernel's test run by itself,
//! so that it finds the tables as they were.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use baker::ir::{Pin, Program, TableEntry, TableError, TableId, TableStore};
use baker::opt::Level;
use codegen::kernel::Options;
use dataplane::bench::Rig;
use dataplane::controller::{Record, fields_of};
use dataplane::xdp::{Partitioned, partition};
use dataplane::{EngineKind, TableAccess};
use splice::key::key;
use splice::tables::flow_entry::{FlowEntry, Mode};
use splice::tables::next_hops::NextHop;
use splice::tables::packed::{FlowTable, Packed, Tables};
use wire::flow_key::FlowKey;
use wire::segment::{ACK, PSH, SYN, Segment, TcpOptions};

use super::systems::{Placement, SET_UP};
use crate::apps::case::{App, Trace};
use crate::results::Results;
use crate::{Effort, race, text};

/// The kinds of packets, as published, with the published time on an IXP2400 and in a Linux kernel's splicer, in µs
/// (Zhao, Luo, Bhuyan, Iyer, "SpliceNP: a TCP splicer using a network processor", 2005). The first is ours: it is
/// dropped at once.
const KINDS: [(&str, Option<(f64, f64)>); 6] = [
    ("for another station", None),
    ("SYN", Some((7.2, 48.0))),
    ("request", Some((8.8, 52.0))),
    ("SYN/ACK", Some((8.5, 42.0))),
    ("data", Some((6.5, 13.6))),
    ("ACK", Some((6.5, 13.6))),
];
/// Connections that there are at a time.
const CONNECTIONS: [u32; 4] = [1, 1000, 10_000, 100_000];
/// Packets that a test run in the kernel takes for one value.
const RUNS: usize = 400;
/// The interface that test runs come in by.
const LOOPBACK: u32 = 1;
/// Ports of the example configuration.
const CLIENTS: u8 = 1;
const SERVERS: u8 = 2;
const OWN: [u8; 5] = [2, 0, 0, 0, 0xfe];

/// The flow keys of the client's and of the server's segments of a connection.
fn flow_key(number: u32, held: bool) -> [FlowKey; 2] {
    let address = |a: u8, b: u8| v4(Ipv4Addr::new(10, 0, a, b));
    // Held ones are others.
    let client = v4(Ipv4Addr::from(0x0a10_0000 + (u32::from(held) << 16) + (number >> 14)));
    let client = FlowKey { src: client, dst: address(1, 80), src_port: 1024 + (number & 0x3fff) as u16, dst_port: 80 };
    let own_port = 1024 + (number % 60_000) as u16;
    let last = 11 + (number / 60_000) as u8 + if held { 100 } else { 0 };
    [client, FlowKey { src: address(2, last), dst: address(2, 254), src_port: 80, dst_port: own_port }]
}

fn v4(address: Ipv4Addr) -> Ipv6Addr {
    match IpAddr::from(address) {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

fn mac(port: u8, last: u8) -> [u8; 6] {
    [OWN[0], OWN[1], OWN[2], OWN[3], port, last]
}

/// A segment as it comes in.
fn segment(flow_key: FlowKey, from: u8, flags: u8, options: TcpOptions, payload: &[u8]) -> Vec<u8> {
    let macs = (mac(from, OWN[4]), mac(from, 0x11));
    let (seq, ack) = (5000, if flags & ACK == 0 { 0 } else { 100_000 });
    Segment { dst_mac: macs.0, src_mac: macs.1, flow_key, seq, ack, flags, window: 500, options, payload }.frame()
}

/// A packet of a kind, with the port that it comes in by.
fn packet(kind: &str) -> (u8, Vec<u8>) {
    let times = TcpOptions { times: Some((1000, 2000)), ..TcpOptions::default() };
    let all =
        TcpOptions { mss: Some(1460), scale: Some(7), sack: true, times: Some((1000, 0)), ..TcpOptions::default() };
    let ([client, server], [held_client, held_server]) = (flow_key(0, false), flow_key(0, true));
    let stranger = FlowKey { src_port: 999, ..client };
    match kind {
        "SYN" => (CLIENTS, segment(stranger, CLIENTS, SYN, all, &[])),
        "request" => (CLIENTS, segment(held_client, CLIENTS, ACK | PSH, times, &[b'x'; 100])),
        "SYN/ACK" => (SERVERS, segment(held_server, SERVERS, SYN | ACK, all, &[])),
        "data" => (SERVERS, segment(server, SERVERS, ACK, times, &[b'x'; 1448])),
        "ACK" => (CLIENTS, segment(client, CLIENTS, ACK, times, &[])),
        _ => {
            let mut frame = segment(client, CLIENTS, ACK, times, &[]);
            frame[5] ^= 1;
            (CLIENTS, frame)
        }
    }
}

/// The tables of a program, as the splicer's controller has them.
struct Filled<'a, S: ?Sized> {
    program: &'a Program,
    tables: &'a mut S,
}

impl<S: TableStore + ?Sized> Filled<'_, S> {
    fn set(&mut self, name: &str, key: &impl Record, value: &impl Record) -> Result<(), String> {
        let index = self.program.tables.iter().position(|table| table.name == name);
        let table = TableId(index.ok_or_else(|| format!("there is no table {name}"))? as u32);
        let entry = TableEntry { key: fields(key), prefix_len: None, value: fields(value) };
        self.tables.insert(table, &entry).map_err(|error| format!("{name}: {error}"))
    }
}

impl<S: TableStore + ?Sized> Tables for Filled<'_, S> {
    fn entry(&self, _: &FlowKey) -> Option<Packed> {
        None
    }

    fn set_entry(&mut self, flow_key: &FlowKey, flow: &Packed) -> Result<Option<Packed>, TableError> {
        self.set("spliced.flows", &key(flow_key), flow).map(|()| None).map_err(|_| TableError::Full)
    }

    fn remove_entry(&mut self, _: &FlowKey) {}

    fn entries(&self) -> Vec<(FlowKey, Packed)> {
        Vec::new()
    }

    fn next_hops(&self) -> Vec<(u32, NextHop)> {
        Vec::new()
    }

    fn add_next_hop(&mut self, number: u32, next_hop: &NextHop) -> bool {
        self.set("spliced.next_hops", &number, next_hop).is_ok()
    }

    fn clear_next_hops(&mut self, numbers: &[u32]) -> bool {
        numbers.iter().all(|number| self.add_next_hop(*number, &NextHop::default()))
    }
}

/// Fills the tables: the example's configuration, and so many connections.
fn fill<S: TableStore + ?Sized>(app: &App, connections: u32, tables: &mut S) -> Result<(), String> {
    app.configured(&app.example)?.fill(&app.program, tables).map_err(text)?;
    let mut tables = Filled { program: &app.program, tables };
    tables.set("accept.secret", &0u32, &(1u64, 2u64))?;
    let service = (1u16, 1460u16, 7u8, true, true, 20480u16);
    tables.set("accept.services", &(flow_key(0, false)[0].dst, 80u16), &service)?;
    let mut flows = FlowTable::new(tables);
    for (number, held) in (0..connections).map(|number| (number, false)).chain([(0, true)]) {
        let [client, server] = flow_key(number, held);
        let mode = if held { Mode::Held } else { Mode::Open };
        let sides = [(client, server, SERVERS, 0u32.wrapping_sub(91_000)), (server, client, CLIENTS, 91_000)];
        for (own, other, port, add_to) in sides {
            let flow = FlowEntry {
                mode,
                port,
                scale: 7,
                advertised_scale: 7,
                dst_mac: mac(port, 0x11),
                ..FlowEntry::held(other.reversed(), 1)
            };
            // What segments acknowledge is nothing new, as in the midst of a body.
            let flow = FlowEntry { acked: 100_000, edge: 100_000 + (500 << 7), ..flow };
            let flow =
                if port == SERVERS { FlowEntry { ack: add_to, ..flow } } else { FlowEntry { seq: add_to, ..flow } };
            if !flows.set(&own, &flow) {
                return Err("spliced.flows: no room".into());
            }
        }
    }
    Ok(())
}

fn fields(record: &impl Record) -> Vec<u128> {
    fields_of(record).into_vec()
}

/// The table of kinds and placements.
pub fn kinds(effort: Effort, results: &mut Results) -> Result<(), String> {
    let app = App::new("splice")?;
    let runs = if effort.quick { 1 } else { 7 };
    for (kind, published) in KINDS {
        for (system, time) in
            published.iter().flat_map(|(ixp, linux)| [("published, IXP2400", ixp), ("published, Linux", linux)])
        {
            results.add(kind, system, "ns_per_packet", "ns", vec![time * 1e3]);
        }
    }
    race::pinned(|| {
        let mut rig = Rig::new(&app.program, EngineKind::NATIVE, |tables| fill(&app, 1, tables)).map_err(text)?;
        for (kind, _) in KINDS {
            let trace: Trace = vec![packet(kind); 64];
            let rounds = effort.kilopackets * 1000 / 64 / 4;
            let values = (0..=runs).map(|_| rig.run_trace(&trace, rounds).ns_per_packet).skip(1).collect();
            results.add(kind, "millrace workers", "ns_per_packet", "ns", values);
        }
        Ok(())
    })?;
    if !lab::has_privileges().map_err(text)? {
        results.note("time per packet in the kernel: not measured, it needs root");
        return Ok(());
    }
    for (system, placement) in [("millrace", Placement::SetUp), ("millrace xdp", Placement::Cookies)] {
        let program = placed(&app.program, placement);
        let Partitioned { made: Some((memory, loaded)), .. } =
            partition(&program, Level::Cgpc, Options::default()).map_err(text)?
        else {
            return Err(format!("{system}: nothing of the program runs in the kernel"));
        };
        fill(&app, 1, &mut TableAccess::Native(memory.tables().clone()))?;
        for port in [CLIENTS, SERVERS] {
            loaded.ports().set_device(port, Some(LOOPBACK)).map_err(text)?;
        }
        race::pinned(|| {
            for (kind, _) in KINDS {
                let (port, frame) = packet(kind);
                memory.set_port(LOOPBACK, port, None, false);
                let one = || -> Result<f64, String> {
                    let mut times = Vec::with_capacity(RUNS);
                    for _ in 0..RUNS {
                        times.push(loaded.timed(&frame).map_err(text)?.1);
                    }
                    times.sort_unstable();
                    Ok(times[RUNS / 2].as_nanos() as f64)
                };
                let values = (0..=runs).map(|_| one()).skip(1).collect::<Result<Vec<_>, _>>()?;
                results.add(kind, system, "ns_per_packet", "ns, reading the clock included", values);
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// The program with what a placement keeps on workers.
fn placed(program: &Program, placement: Placement) -> Program {
    let mut program = program.clone();
    if placement == Placement::SetUp {
        let module = format!("{SET_UP}.");
        let own = program.ppfs.iter_mut().filter(|ppf| ppf.name.starts_with(&module));
        own.for_each(|ppf| ppf.pin = Some(Pin::Worker));
    }
    program
}

/// Cost by the number of connections, and their memory.
pub fn connections(effort: Effort, results: &mut Results) -> Result<(), String> {
    let app = App::new("splice")?;
    let program = &app.program;
    let flows = program.tables.iter().find(|table| table.name == "spliced.flows").ok_or("there is no spliced.flows")?;
    results.add(
        "memory",
        "millrace",
        "bytes_per_connection",
        "bytes of both blocks with their share of the table",
        vec![2.0 * dataplane::bytes_of_entry(program, flows)],
    );
    let runs = if effort.quick { 1 } else { 5 };
    let counts = if effort.quick { &CONNECTIONS[..2] } else { &CONNECTIONS };
    for &count in counts {
        race::pinned(|| {
            let mut rig = Rig::new(program, EngineKind::NATIVE, |tables| fill(&app, count, tables)).map_err(text)?;
            let times = TcpOptions { times: Some((1000, 2000)), ..TcpOptions::default() };
            // Not in the order in which they were made.
            let number = |at: u32| (u64::from(at) * 7919 % u64::from(count)) as u32;
            let trace: Trace = (0..count.max(64))
                .map(|at| (CLIENTS, segment(flow_key(number(at), false)[0], CLIENTS, ACK, times, &[])))
                .collect();
            let rounds = (effort.kilopackets * 250 / trace.len() as u32).max(1);
            let values = (0..=runs).map(|_| rig.run_trace(&trace, rounds).ns_per_packet).skip(1).collect();
            results.add(&format!("{count} connections"), "millrace workers", "ns_per_packet", "ns", values);
            Ok(())
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is measured is what is said: which connections leave and which do not.
    #[test]
    fn packets_do_what_they_say() {
        let app = App::new("splice").unwrap();
        let rig = || Rig::new(&app.program, EngineKind::Interp, |tables| fill(&app, 1000, tables)).unwrap();
        for (kind, next_hop) in [
            ("for another station", None),
            ("SYN", Some("handshake4.output")),
            ("request", Some("spliced.held_cc")),
            ("SYN/ACK", Some("spliced.held_cc")),
            ("data", Some("spliced.output")),
            ("ACK", Some("spliced.output")),
        ] {
            let measured = rig().run_trace(&[packet(kind)], 1);
            assert_eq!((measured.packets, measured.outputs), (1, u64::from(next_hop.is_some())), "{kind}");
            assert!(next_hop.is_none_or(|next_hop| measured.snapshot.channel(next_hop) == 1), "{kind}");
        }
        let mut rig = rig();
        for number in [1, 999] {
            let flow_key = flow_key(number, false);
            for (own, port) in flow_key.into_iter().zip([CLIENTS, SERVERS]) {
                let frame = segment(own, port, ACK, TcpOptions::default(), &[]);
                assert_eq!(rig.run_trace(&[(port, frame)], 1).outputs, 1, "{number}");
            }
        }
    }
}

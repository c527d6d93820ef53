//! What packets of small programs execute, as micro-operations.

use std::fmt::Write;
use std::sync::Arc;

use baker::check::check;
use baker::ir::interp::{Execution, Machine};
use baker::ir::{Program, TableEntry, TableId, TableStore};
use baker::library::Library;
use baker::opt::{Level, optimise};
use npmodel::sequence::Lowering;
use npmodel::{Memory, Platform, simulate, trace};

/// Entries with fields near each other and far away, of which some ways use none.
const ENTRIES: &str = r#"
import "net/ether";

struct interface_t { peer : u8; mac : mac_addr_t; address : u128; trusted : bool; }
struct place_t { port : u8; seen : u32; }

module entries {
    in  ether input;
    out ether output;

    array<interface_t> ports[64];
    hash<mac_addr_t, place_t> stations[1024];

    ppf look(ether_packet_t *pkt) from input {
        interface_t it = ports[pkt->metadata.rx.port];
        if (it.peer == 0) { packet_drop(pkt, malformed); return; }
        if (pkt->dst == it.mac && it.trusted) { pkt->metadata.tx.port = it.peer; channel_put(output, pkt); return; }
        place_t *place = stations[pkt->dst];
        if (place == null || place->seen == 0) { packet_drop(pkt, malformed); return; }
        pkt->metadata.tx.port = place->port;
        channel_put(output, pkt);
    }
}

program {
    rx -> entries.input;
    entries.output -> tx;
}
"#;

/// Routes by destination, counts, takes one from the TTL.
const ROUTER: &str = r#"
import "net/ether";
import "net/ipv4";

module router {
    in  ether input;
    out ether output;
    channel ipv4 forward;

    lpm<ipv4_addr_t, u32> fib[1024];
    hash<ipv4_addr_t, mac_addr_t> neighbours[1024];
    counter routed;

    ppf classify(ether_packet_t *pkt) from input {
        if (pkt->type != ETH_TYPE_IPV4) { packet_drop(pkt, no_route); return; }
        ipv4_packet_t *ip = packet_decap(pkt);
        channel_put(forward, ip);
    }

    ppf route(ipv4_packet_t *ip) from forward {
        u32 *port = fib[ip->dst];
        mac_addr_t *mac = neighbours[ip->dst];
        if (port == null || mac == null || ip->ttl <= 1) { packet_drop(ip, no_route); return; }
        ip->ttl -= 1;
        ip->metadata.tx.port = (u8) *port;
        counter_add(routed, 1);
        mac_addr_t to = *mac;
        ether_packet_t *frame = packet_encap(ip);
        frame->dst = to;
        frame->type = ETH_TYPE_IPV4;
        channel_put(output, frame);
    }
}

program {
    rx -> router.input;
    router.output -> tx;
}
"#;

fn program() -> Program {
    compiled(ROUTER)
}

fn compiled(source: &str) -> Program {
    let compilation = check("router.baker", source, &Library);
    let found = baker::diag::render(&compilation.diagnostics, &compilation.sources, false);
    assert!(compilation.diagnostics.is_empty(), "{found}");
    baker::ir::lower(&compilation.program.expect("without errors"))
}

fn fill(machine: &mut Machine) -> Result<(), baker::ir::TableError> {
    let entry = |key, prefix_len, value| TableEntry { key: vec![key], prefix_len, value: vec![value] };
    machine.insert(TableId(0), &entry(0x0a00_0000, Some(8), 2))?;
    machine.insert(TableId(0), &entry(0x0a01_0200, Some(24), 3))?;
    machine.insert(TableId(1), &entry(0x0a01_0203, None, 0x0200_0000_0001))?;
    machine.insert(TableId(1), &entry(0x0a02_0203, None, 0x0200_0000_0002))
}

fn frame(to: [u8; 4], ttl: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0];
    frame.extend([0x45, 0, 0, 46, 0, 0, 0, 0, ttl, 17, 0, 0, 192, 0, 2, 1]);
    frame.extend(to);
    frame.resize(60, 0);
    frame
}

/// Routed by a long prefix and by a short one, expired, unknown, no IP, too short.
fn packets() -> Vec<(u8, Vec<u8>)> {
    let mut arp = frame([0; 4], 1);
    arp[13] = 6;
    let routed =
        [frame([10, 1, 2, 3], 64), frame([10, 2, 2, 3], 64), frame([10, 1, 2, 3], 1), frame([11, 0, 0, 1], 64)];
    routed.into_iter().chain([arp, vec![2; 9]]).map(|frame| (1, frame)).collect()
}

#[test]
fn micro_operations() {
    let program = program();
    let platform = Platform::built_in("ixp2400").unwrap();
    let mut text = String::new();
    for level in Level::ALL {
        let optimised = Arc::new(optimise(&program, level));
        let lowering = Lowering::new(&optimised, level, &platform);
        let mut machine = Machine::new(Arc::clone(&optimised));
        fill(&mut machine).unwrap();
        let mut execution = Execution::default();
        machine.receive_noted(1, &packets()[0].1, &mut execution);
        let sequence = lowering.sequence(&execution);
        let instructions: u32 = sequence.iter().map(|micro| micro.op.instructions()).sum();
        writeln!(text, "{}: {instructions} instructions", level.name()).unwrap();
        text.extend(npmodel::listing(&optimised, &sequence).iter().map(|line| format!("  {line}\n")));
    }
    insta::assert_snapshot!(text);
}

/// The sequences hold what `explain` counts of packet memory: accesses at each level, bytes where alignments are known.
#[test]
fn packet_accesses_are_those_that_explain_counts() {
    let program = program();
    let platform = Platform::built_in("ixp2400").unwrap();
    for level in Level::ALL {
        let optimised = Arc::new(optimise(&program, level));
        let lowering = Lowering::new(&optimised, level, &platform);
        let mut machine = Machine::new(Arc::clone(&optimised));
        fill(&mut machine).unwrap();
        let mut metered = machine.clone();
        for (port, frame) in packets() {
            let mut execution = Execution::default();
            machine.receive_noted(port, &frame, &mut execution);
            let counted = metered.receive_metered(port, &frame, level != Level::Base).costs;
            let accesses: Vec<u64> = lowering
                .sequence(&execution)
                .iter()
                .filter_map(|micro| match micro.op {
                    npmodel::micro::MicroOp::Access { memory: Memory::Dram, bytes, .. } => Some(bytes.into()),
                    _ => None,
                })
                .collect();
            let bytes = if level == Level::Base { 24 * counted.accesses } else { counted.bytes };
            assert_eq!((accesses.len() as u64, accesses.iter().sum()), (counted.accesses, bytes), "{level:?}");
        }
    }
}

/// What is noted changes nothing of what the packets do.
#[test]
fn results_are_the_interpreters() {
    let program = program();
    for level in Level::ALL {
        let optimised = Arc::new(optimise(&program, level));
        let mut machines = [Machine::new(Arc::clone(&optimised)), Machine::new(program.clone())];
        machines.iter_mut().for_each(|machine| fill(machine).unwrap());
        let [noted, plain] = &mut machines;
        let mut sent = 0;
        for (port, frame) in packets() {
            let found = noted.receive_noted(port, &frame, &mut Execution::default());
            let wanted = plain.receive(port, &frame);
            let bytes = |outputs: &[baker::ir::interp::Output]| -> Vec<_> {
                outputs.iter().map(|output| (output.end, output.packet.clone(), output.metadata[1])).collect()
            };
            assert_eq!(bytes(&found), bytes(&wanted));
            sent += found.len();
        }
        assert_eq!(sent, 2);
        assert_eq!(noted.counters(), plain.counters());
    }
}

/// A way reads of an entry what it uses; fields near each other come in one burst, those far away by a command of their
/// own that is waited for together with the first, and a hash table's value in one burst with its key.
#[test]
fn entries_are_read_in_few_bursts() {
    let program = Arc::new(optimise(&compiled(ENTRIES), Level::Cgpc));
    let platform = Platform::built_in("ixp2400").unwrap();
    let lowering = Lowering::new(&program, Level::Cgpc, &platform);
    let mut machine = Machine::new(Arc::clone(&program));
    let own = 0x0200_0000_0001;
    let entry = |key, value: &[u128]| TableEntry { key: vec![key], prefix_len: None, value: value.to_vec() };
    machine.insert(TableId(0), &entry(1, &[2, own, 7, 1])).unwrap();
    machine.insert(TableId(1), &entry(0x0200_0000_0009, &[3, 5])).unwrap();
    let mut reads = |port: u8, dst: u128| {
        let frame = [&dst.to_be_bytes()[10..], &[0; 54]].concat();
        let mut execution = Execution::default();
        machine.receive_noted(port, &frame, &mut execution);
        let lines = npmodel::listing(&program, &lowering.sequence(&execution));
        let tables: Vec<String> = lines.iter().filter(|line| line.contains("[read")).map(|l| l.trim().into()).collect();
        tables.into_iter().filter(|line| line.starts_with("sram")).skip(1).collect::<Vec<_>>()
    };
    // The first read, of the port of entry, is left out above.
    assert_eq!(reads(2, own), ["sram[read, 4 bytes], ctx_swap"]);
    let reads_of_port = ["sram[read, 16 bytes]", "sram[read, 4 bytes], ctx_swap"];
    assert_eq!(reads(1, own), reads_of_port);
    let found = reads(1, 0x0200_0000_0009);
    assert_eq!(found.last().map(String::as_str), Some("sram[read, 20 bytes], ctx_swap"), "{found:?}");
    let missed = reads(1, 0x0200_0000_0008);
    assert_eq!(missed.last().map(String::as_str), Some("sram[read, 12 bytes], ctx_swap"), "{missed:?}");
}

#[test]
fn packets_of_one_way_share_it_and_levels_gain() {
    let program = program();
    let platform = Platform::built_in("ixp2400").unwrap();
    let trace: Vec<_> = packets().into_iter().cycle().take(600).collect();
    let mut rates = Vec::new();
    for level in Level::ALL {
        let traced = npmodel::trace(&program, level, &platform, &trace, fill, &|_| {}).unwrap();
        assert_eq!((traced.paths.len(), traced.packets.len(), traced.left()), (6, 600, 200));
        assert!(traced.paths.iter().all(|path| path.packets == 100));
        let again = trace_again(&program, level, &platform, &trace);
        let points: Vec<_> = (1..=6).map(|engines| simulate(&traced, &platform, engines, None)).collect();
        for (point, again) in points.iter().zip(again) {
            assert_eq!(point.bits_per_second, again, "{level:?}");
            let cycles = point.cycles;
            let sum = cycles.busy + cycles.waiting.iter().sum::<f64>() + cycles.blocked + cycles.idle;
            assert!((sum - 1.0).abs() < 1e-9, "{cycles:?}");
            assert!(point.utilisation.iter().all(|share| (0.0..=1.01).contains(share)), "{:?}", point.utilisation);
        }
        // More engines are never slower, but for rounding.
        assert!(points.windows(2).all(|two| two[1].bits_per_second > two[0].bits_per_second * 0.98), "{points:?}");
        rates.push(points[5].bits_per_second);
    }
    assert!(rates[1] > rates[0] * 1.5 && rates[2] >= rates[1], "{rates:?}");
}

fn trace_again(program: &Program, level: Level, platform: &Platform, packets: &[(u8, Vec<u8>)]) -> Vec<f64> {
    let traced = trace(program, level, platform, packets, fill, &|_| {}).unwrap();
    (1..=6).map(|engines| simulate(&traced, platform, engines, None).bits_per_second).collect()
}

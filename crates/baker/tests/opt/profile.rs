//! What changes with a profile, and that a wrong one changes nothing but code.

use std::sync::Arc;

use baker::ir::interp::Machine;
use baker::ir::{PpfId, Program, print_body, verify};
use baker::opt::profile::{ProfileError, profiled};
use baker::opt::{Level, cache, optimise};

use super::compiled;

/// Looks at ports where there is TCP, behind all options; what is not TCP is dropped.
const PORTS: &str = r#"
import "net/ether";
import "net/ipv4";
import "net/tcp";
drop_reason other;
module m {
    in ether input;
    out tcp output;
    ppf p(ether_packet_t *pkt) from input {
        if (pkt->type != ETH_TYPE_IPV4) { packet_drop(pkt, other); return; }
        ipv4_packet_t *ip = packet_decap(pkt);
        if (ip->protocol != IP_PROTO_TCP) { packet_drop(ip, other); return; }
        tcp_packet_t *tcp = packet_decap(ip);
        channel_put(output, tcp);
    }
}
module n {
    in tcp input;
    out payload output;
    ppf q(tcp_packet_t *tcp) from input {
        payload_packet_t *data = packet_decap(tcp);
        data->first += 1;
        channel_put(output, data);
    }
}
module e {
    in payload input;
    out ether output;
    ppf r(payload_packet_t *data) from input {
        ether_packet_t *pkt = packet_encap(data);
        pkt->metadata.tx.port = 2;
        channel_put(output, pkt);
    }
}
protocol payload { first : 8; demux { 1 }; }
program { rx -> m.input; m.output -> n.input; n.output -> e.input; e.output -> tx; }
"#;

/// A frame with so many bytes of TCP options, and payload.
fn tcp(options: usize, payload: usize) -> Vec<u8> {
    let mut frame = vec![0u8; 14 + 20 + 20 + options + payload];
    frame[12] = 8;
    frame[14] = 0x45;
    frame[23] = 6;
    frame[46] = (((20 + options) / 4) << 4) as u8;
    frame
}

fn with_profile(program: &Program, frames: &[Vec<u8>]) -> Program {
    let trace: Vec<_> = frames.iter().map(|frame| (1, frame.clone())).collect();
    profiled(&Arc::new(program.clone()), &trace, |_| Ok::<_, String>(())).unwrap_or_else(|error| panic!("{error}"))
}

/// Bytes that the first aggregate loads at once.
fn ahead(program: &Program) -> u32 {
    let aggregated = (baker::opt::AGGREGATE.run)(program);
    let (_, report) = cache::cache(&aggregated, &cache::CacheOptions::aggregate(&aggregated));
    report.ahead[&PpfId(0)]
}

/// Packets that leave, at each level.
fn sent(program: &Program, frame: &[u8]) -> Vec<Vec<Vec<u8>>> {
    let run = |level| {
        let optimised = optimise(program, level);
        verify(&optimised).unwrap_or_else(|errors| panic!("{errors:?}"));
        Machine::new(optimised).receive(1, frame).into_iter().map(|output| output.packet).collect()
    };
    Level::ALL.into_iter().map(run).collect()
}

#[test]
fn counts_beside_the_code() {
    let program = compiled(PORTS);
    let mut arp = tcp(12, 10);
    arp[13] = 6;
    let profiled = with_profile(&program, &[tcp(12, 10), tcp(12, 200), tcp(12, 0), tcp(0, 10), arp]);
    let bodies = profiled.ppfs.iter().map(|ppf| format!("ppf {}\n{}", ppf.name, print_body(&profiled, &ppf.body)));
    insta::assert_snapshot!(bodies.collect::<String>());
}

/// Looks at all of what is in front of the payload, which no options precede, where there is TCP.
const ALL: &str = r#"
import "net/ether";
import "net/ipv4";
import "net/tcp";
module m {
    in ether input;
    out ether other;
    out ipv4 rest;
    out tcp output;
    counter seen;
    ppf p(ether_packet_t *pkt) from input {
        if (pkt->type != ETH_TYPE_IPV4) { channel_put(other, pkt); return; }
        ipv4_packet_t *ip = packet_decap(pkt);
        counter_add(seen, ip->src + ip->dst);
        if (ip->protocol != IP_PROTO_TCP) { channel_put(rest, ip); return; }
        tcp_packet_t *tcp = packet_decap(ip);
        counter_add(seen, tcp->src_port + tcp->seq + tcp->ack_seq + tcp->checksum);
        channel_put(output, tcp);
    }
}
program { rx -> m.input; m.other -> tx; m.rest -> controller r; m.output -> controller c; }
"#;

/// Accesses to packet memory and bytes that a trace costs.
fn cost(program: &Program, frames: &[Vec<u8>]) -> (u64, u64) {
    let mut machine = Machine::new(optimise(program, Level::Cgpc));
    let costs = frames.iter().map(|frame| machine.receive_metered(1, frame, true).costs);
    costs.fold((0, 0), |(accesses, bytes), cost| (accesses + cost.accesses, bytes + cost.bytes))
}

#[test]
fn the_header_range_is_what_costs_the_trace_least() {
    let program = compiled(ALL);
    assert_eq!(ahead(&program), 54);
    let other = |protocol: u8| {
        let mut frame = tcp(0, 10);
        frame[23] = protocol;
        frame
    };
    let traces = [
        // Half of the packets reach only to the IP header's end, and the test of length would fail for them.
        ([vec![tcp(0, 0); 5], vec![other(17)[..40].to_vec(); 5]].concat(), 34),
        (vec![tcp(0, 10)], 54),
        // Bytes that are not looked at cost less than an access of one packet of twenty, and more than one of none.
        ([vec![other(17); 19], vec![tcp(0, 10)]].concat(), 54),
        (vec![other(17)], 34),
    ];
    for (number, (trace, expected)) in traces.into_iter().enumerate() {
        let profiled = with_profile(&program, &trace);
        assert_eq!(ahead(&profiled), expected, "trace {number}");
        let (with, without) = (cost(&profiled, &trace), cost(&program, &trace));
        assert!(with <= without, "trace {number}: {with:?}, without a profile {without:?}");
    }
}

#[test]
fn an_aggregate_by_a_profile() {
    let program = with_profile(&compiled(PORTS), &[tcp(12, 10)]);
    let optimised = optimise(&program, Level::Cgpc);
    let body = &optimised.ppfs[0].body;
    insta::assert_snapshot!(print_body(&optimised, body));
}

/// A put that no packet came by gets no copy of the PPF behind it: a second one shares the first's.
#[test]
fn ways_that_no_packet_took_share_code() {
    let program = compiled(
        "import \"net/ether\";\nmodule m {\n in ether input;\n out ether output;\n\
         ppf p(ether_packet_t *pkt) from input {\n\
         if (pkt->type == 1) { pkt->type = 2; channel_put(output, pkt); }\n\
         else if (pkt->type == 3) { pkt->type = 4; channel_put(output, pkt); }\n\
         else channel_put(output, pkt);\n}\n}\n\
         module n {\n in ether input;\n out ether output;\n counter seen;\n ppf q(ether_packet_t *pkt) from input {\n\
         counter_add(seen, 1);\n pkt->metadata.tx.port = 1; channel_put(output, pkt);\n}\n}\n\
         program { rx -> m.input; m.output -> n.input; n.output -> tx; }\n",
    );
    let counters = |program: &Program| {
        let aggregated = (baker::opt::AGGREGATE.run)(program);
        let blocks = &aggregated.ppfs[0].body.blocks;
        blocks.iter().flat_map(|b| &b.insts).filter(|i| matches!(i.op, baker::ir::Op::Count { .. })).count()
    };
    assert_eq!(counters(&program), 3);
    let mut other = vec![0; 60];
    assert_eq!(counters(&with_profile(&program, &[other.clone()])), 2);
    other[13] = 1;
    assert_eq!(counters(&with_profile(&program, &[other, vec![0; 60]])), 3);
}

#[test]
fn a_wrong_profile_changes_no_packet() {
    let program = compiled(PORTS);
    let wrong = with_profile(&program, &[tcp(40, 0), tcp(40, 1)]);
    for frame in [tcp(0, 1), tcp(12, 5), tcp(40, 1), tcp(40, 0), tcp(12, 0), tcp(0, 1)[..50].to_vec()] {
        assert_eq!(sent(&wrong, &frame), sent(&program, &frame));
    }
}

#[test]
fn a_trace_that_does_not_fit() {
    let program = Arc::new(compiled(PORTS));
    let trace = vec![(1, vec![0; 60]), (1, vec![0; 3]), (1, vec![0; 60])];
    let error = profiled(&program, &trace, |_| Ok::<_, String>(())).unwrap_err();
    let dropped = vec![("other".to_string(), 2), ("truncated".to_string(), 1)];
    assert_eq!(error, ProfileError::Dropped { packets: 3, dropped });
    assert_eq!(error.to_string(), "no packet gets through the program; of 3 were dropped: other 2, truncated 1");
    let full = profiled(&program, &trace, |_| Err("the table is full")).unwrap_err();
    assert_eq!(full.to_string(), "the table is full");
}

//! Modules with parameters have for each instance tables, code and types of their own.

use std::sync::Arc;

use baker::check::check;
use baker::diag::render;
use baker::ir::interp::Machine;
use baker::ir::{Program, lower};
use baker::library::Library;

/// Packets of both versions of IP are counted by source and lose a hop; what they have in common is in `both`.
const PROGRAM: &str = "import \"net/ip\";
import \"net/tcp\";

module classify {
    in  ether input;
    out ether v4, v6;
    ppf classify(ether_packet_t *pkt) from input {
        if (pkt->type == ETH_TYPE_IPV6)
            channel_put(v6, pkt);
        else
            channel_put(v4, pkt);
    }
}
module hop(protocol ip, type addr_t, const u16 PORT, table seen) {
    in  ether input;
    out ether output;
    out ip    inner;
    const u32 HEADER = ip.size;
    struct source_t { address : addr_t; last : u16; }
    hash<source_t, u32> counts[64];
    ppf check(ether_packet_t *pkt) from input;
    bool wanted(ip_packet_t *ip) {
        tcp_packet_t *tcp = packet_peek(ip, HEADER);
        return both.is_wanted(tcp->dst_port, PORT);
    }
}
void hop.check(ether_packet_t *frame) {
    ip_packet_t *ip = packet_peek(frame);
    if (ip_hops(ip) <= 1) {
        ip_packet_t *bare = packet_decap(frame);
        channel_put(inner, bare);
        return;
    }
    ip_set_hops(ip, ip_hops(ip) - 1);
    seen[HEADER] = seen[HEADER] + 1;
    source_t source = source_t { address: ip->src, last: PORT };
    u32 *count = counts[source];
    counts[source] = count == null ? 1 : *count + 1;
    if (wanted(ip))
        frame->metadata.tx.port = 1;
    channel_put(output, frame);
}
module both {
    in  ether input;
    out ether output;
    array<u32> sizes[64];
    counter asked;
    bool is_wanted(u16 port, u16 wanted) {
        counter_add(asked, 1);
        return port == wanted;
    }
    ppf send(ether_packet_t *pkt) from input { channel_put(output, pkt); }
}
module strip4 { in ipv4 input; ppf end(ipv4_packet_t *ip) from input { packet_drop(ip, ttl_expired); } }
module strip6 { in ipv6 input; ppf end(ipv6_packet_t *ip) from input { packet_drop(ip, hop_limit_expired); } }
program {
    hop(ipv4, ipv4_addr_t, 80, both.sizes) hop4;
    hop(ipv6, ipv6_addr_t, 443, hop4.seen) hop6;
    rx -> classify.input;
    classify.v4 -> hop4.input;
    classify.v6 -> hop6.input;
    hop4.output -> both.input;
    hop6.output -> both.input;
    hop4.inner -> strip4.input;
    hop6.inner -> strip6.input;
    both.output -> tx;
}
";

fn program() -> Arc<Program> {
    let compilation = check("params.baker", PROGRAM, &Library);
    let rendered = render(&compilation.diagnostics, &compilation.sources, false);
    assert!(rendered.is_empty(), "{rendered}");
    let program = lower(compilation.program.as_ref().unwrap());
    assert_eq!(baker::ir::verify(&program), Ok(()));
    Arc::new(program)
}

/// A frame with a TCP header to this port, with so many hops left.
fn frame(ipv6: bool, hops: u8, port: u16) -> Vec<u8> {
    let mut ip = if ipv6 { vec![0; 40] } else { vec![0; 20] };
    (ip[0], ip[if ipv6 { 7 } else { 8 }]) = (if ipv6 { 0x60 } else { 0x45 }, hops);
    let kind: [u8; 2] = if ipv6 { [0x86, 0xdd] } else { [8, 0] };
    let mut tcp = [0; 20];
    tcp[2..4].copy_from_slice(&port.to_be_bytes());
    [&[0; 12], &kind[..], &ip, &tcp].concat()
}

#[test]
fn each_instance_has_its_own_items_and_types() {
    let program = program();
    let tables: Vec<_> = program.tables.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(tables, ["both.sizes", "hop4.counts", "hop6.counts"]);
    let key = |table: usize| &program.layouts[program.tables[table].key.0 as usize];
    let types: Vec<_> = [1, 2].map(|table| key(table).fields[0].type_name.as_str()).to_vec();
    // As the configuration shows them.
    assert_eq!(types, ["ipv4_addr_t", "ipv6_addr_t"]);
    assert!(program.ppfs.iter().any(|ppf| ppf.name == "hop6.check"));
}

#[test]
fn each_instance_does_what_its_arguments_say() {
    let program = program();
    let mut machine = Machine::new(program.clone());
    let sent: Vec<_> = [(false, 80), (false, 443), (true, 80), (true, 443), (true, 443)]
        .into_iter()
        .map(|(ipv6, port)| machine.receive(1, &frame(ipv6, 64, port)))
        .collect();
    let sent: Vec<_> = sent.iter().map(|out| &out[0]).collect();
    let hops: Vec<u8> = sent.iter().map(|out| out.packet[if out.packet[12] == 8 { 22 } else { 21 }]).collect();
    assert_eq!(hops, [63; 5]);
    let ports: Vec<u128> = sent.iter().map(|out| out.metadata[Program::TX_PORT.0 as usize]).collect();
    assert_eq!(ports, [1, 0, 0, 1, 1]);
    // Too few hops are left: as packets of each protocol to modules that take that.
    assert_eq!(machine.receive(1, &frame(false, 1, 80)), []);
    assert_eq!(machine.receive(1, &frame(true, 1, 80)), []);

    let entries = |name: &str| {
        let table = program.tables.iter().position(|t| t.name == name).unwrap() as u32;
        baker::ir::TableStore::dump(&machine, baker::ir::TableId(table))
    };
    // By the size of the header: one through the parameter of the other instance.
    let sizes = entries("both.sizes");
    let sizes: Vec<_> = sizes.iter().filter(|e| e.value[0] != 0).map(|e| (e.key[0], e.value[0])).collect();
    assert_eq!(sizes, [(20, 2), (40, 3)]);
    let counts = ["hop4.counts", "hop6.counts"]
        .map(|name| entries(name).iter().map(|e| (e.key[1], e.value[0])).collect::<Vec<_>>());
    assert_eq!(counts, [vec![(80, 2)], vec![(443, 3)]]);
    let asked = machine.slots().user(baker::ir::CounterId(0));
    assert_eq!(machine.counters()[asked], 5);
}

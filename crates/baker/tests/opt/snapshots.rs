//! IR before and after each pass.

use baker::ir::{print_body, verify};
use baker::opt::{self, Pass};

use super::compiled;

/// Bodies of all PPFs that packets come to, before and after the passes.
#[track_caller]
fn before_and_after(source: &str, passes: &[Pass]) -> String {
    let before = compiled(source);
    let mut after = before.clone();
    for pass in passes {
        after = (pass.run)(&after);
        verify(&after).unwrap_or_else(|errors| panic!("{}: {errors:?}", pass.name));
    }
    let show = |program: &baker::ir::Program| {
        let reached = program.reached_ppfs();
        let bodies = program.ppfs.iter().zip(reached).filter(|(_, reached)| *reached);
        bodies.map(|(ppf, _)| format!("ppf {}\n{}", ppf.name, print_body(program, &ppf.body))).collect::<String>()
    };
    let names: Vec<&str> = passes.iter().map(|pass| pass.name).collect();
    format!("{}\n──── before\n{}──── after {}\n{}", source.trim(), show(&before), names.join(", "), show(&after))
}

/// Two modules: one takes a header off and puts it on again, the other sets its fields.
const TWO: &str = r#"
import "net/ether";
import "net/ipv4";
metadata { hops : u8; }
module first {
    in ether input;
    out ipv4 output;
    ppf take(ether_packet_t *pkt) from input {
        ipv4_packet_t *ip = packet_decap(pkt);
        ip->metadata.hops = ip->ttl;
        channel_put(output, ip);
    }
}
module second {
    in ipv4 input;
    out ether output;
    ppf send(ipv4_packet_t *ip) from input {
        ip->ttl = ip->metadata.hops - 1;
        ether_packet_t *pkt = packet_encap(ip);
        pkt->dst = 02:00:00:00:00:01;
        pkt->type = ETH_TYPE_IPV4;
        pkt->metadata.tx.port = 2;
        channel_put(output, pkt);
    }
}
program {
    rx -> first.input;
    first.output -> second.input;
    second.output -> tx;
}
"#;

/// One PPF with the body, between `rx` and `tx`.
fn one(body: &str) -> String {
    format!(
        "import \"net/ether\";\nimport \"net/ipv4\";\nimport \"net/udp\";\ndrop_reason other;\n\
         module m {{\n    in ether input;\n    out ether output;\n    out udp inner;\n    counter seen;\n\
         ppf p(ether_packet_t *pkt) from input {{\n{body}\n}}\n}}\n\
         program {{\n    rx -> m.input;\n    m.output -> tx;\n    m.inner -> s.input;\n}}\n\
         module s {{\n    in udp input;\n    out ether output;\n    ppf q(udp_packet_t *udp) from input {{\n\
         udp->dst_port = 9;\n packet_drop(udp, other);\n}}\n}}\n"
    )
    .replace("    out ether output;\n    ppf q", "    ppf q")
}

#[test]
fn aggregate() {
    insta::assert_snapshot!(before_and_after(TWO, &[opt::AGGREGATE]));
}

#[test]
fn combine() {
    let source = one("pkt->dst = pkt->src;\nif (pkt->type == 5) pkt->type = 6;\nchannel_put(output, pkt);");
    insta::assert_snapshot!(before_and_after(&source, &[opt::COMBINE]));
}

#[test]
fn number() {
    let source = one("if (pkt->type == 5) counter_add(seen, pkt->type);\nchannel_put(output, pkt);");
    insta::assert_snapshot!(before_and_after(&source, &[opt::COMBINE, opt::VALUE_NUMBERING]));
}

#[test]
fn cache_across_ppfs() {
    insta::assert_snapshot!(before_and_after(TWO, opt::Level::Cgpc.passes()));
}

/// The usual header length is tested for; with another one the packet is worked on in memory.
#[test]
fn cache_behind_a_computed_demux() {
    let source = one("ipv4_packet_t *ip = packet_decap(pkt);\nudp_packet_t *udp = packet_decap(ip);\n\
         udp->src_port = 7;\nchannel_put(inner, udp);");
    insta::assert_snapshot!(before_and_after(&source, opt::Level::Cgpc.passes()));
}

/// A copy has the same bytes in registers.
#[test]
fn cache_with_a_copy() {
    let source =
        one("pkt->type = 6;\nchannel_put(output, packet_copy(pkt));\npkt->type = 7;\nchannel_put(output, pkt);");
    insta::assert_snapshot!(before_and_after(&source, opt::Level::Cgpc.passes()));
}

//! How far programs reach into packets.

use baker::opt::reach::{Reach, reach};
use baker::opt::{Level, optimise};

use super::compiled;

/// That of a PPF with this body, which is the same at every level unless fields are loaded together.
fn of(body: &str) -> Reach {
    of_items("", body)
}

fn of_items(items: &str, body: &str) -> Reach {
    let program = compiled(&format!(
        "import \"net/ether\";\nimport \"net/ipv4\";\nimport \"net/udp\";\n{items}\nmodule m {{\n in ether input;\n out ether \
         output;\n out ipv4 inner;\n ppf p(ether_packet_t *pkt) from input {{\n{body}\n}}\n}}\nprogram {{ rx -> m.input; m.output \
         -> tx; m.inner -> n.input; n.output -> tx; }}\nmodule n {{\n in ipv4 input; out ether output;\n ppf q(ipv4_packet_t *ip) \
         from input {{ channel_put(output, packet_encap(ip)); }}\n}}\n"
    ));
    let found = reach(&program);
    let optimised = reach(&optimise(&program, Level::Cgpc));
    // Whole units may be loaded for a part of one, but nothing is lost.
    for (plain, optimised) in [(found.touched, optimised.touched), (found.written, optimised.written)] {
        assert_eq!(plain.is_some(), optimised.is_some(), "{found:?} {optimised:?}");
        assert!(optimised <= plain.map(|plain| plain + 16), "{found:?} {optimised:?}");
    }
    found
}

const fn bytes(touched: u32, written: u32) -> Reach {
    Reach { touched: Some(touched), written: Some(written) }
}

#[test]
fn fields_of_headers_have_their_places() {
    assert_eq!(of("channel_put(output, pkt);"), bytes(0, 0));
    assert_eq!(of("pkt->dst = pkt->src; channel_put(output, pkt);"), bytes(12, 6));
    // The new header's bytes are written where the old one's were.
    assert_eq!(of("channel_put(inner, packet_decap(pkt));"), bytes(14, 14));
    let decapsulated = "ipv4_packet_t *ip = packet_decap(pkt); ip->ttl = ip->ttl - 1; channel_put(inner, ip);";
    // The TTL is byte 22, the checksum that follows it ends at 26.
    assert_eq!(of(decapsulated), bytes(26, 26));
}

#[test]
fn what_packets_say_of_lengths_is_bounded_by_their_fields() {
    let udp = "ipv4_packet_t *ip = packet_decap(pkt); udp_packet_t *udp = packet_decap(ip); u16 port = udp->dst_port; \
               if (port == 53) packet_drop(udp, truncated); else packet_drop(udp, malformed);";
    // 14 + 60, the longest IPv4 header, + 4.
    assert_eq!(of(udp), bytes(78, 0));
    let checksum = "ipv4_packet_t *ip = packet_decap(pkt); if (!ipv4_checksum_ok(ip)) { packet_drop(ip, malformed); return; } \
                    channel_put(inner, ip);";
    assert_eq!(of(checksum), bytes(74, 14));
}

#[test]
fn lengths_of_packets_and_what_is_added_behind_them_have_no_bound() {
    let payload = "ipv4_packet_t *ip = packet_decap(pkt); udp_packet_t *udp = packet_decap(ip); \
                   if (checksum_ok(udp, 1)) packet_drop(udp, truncated); else packet_drop(udp, malformed);";
    let found = of(payload);
    assert_eq!((found.touched, found.written), (None, Some(0)));
    assert_eq!(of("if (packet_grow_tail(pkt, 4)) pkt->src = 1; channel_put(output, pkt);"), Reach::WHOLE);
}

#[test]
fn loops_that_go_on_into_the_packet_have_no_bound() {
    let items = "protocol label { value : 32; demux { 4 }; }\n";
    let pops = "label_packet_t *top = packet_decap(pkt); for (u32 i = 0; i < 4; i++) { if (top->value == 1) { top = \
                packet_decap(top); } } packet_drop(top, malformed);";
    assert_eq!(of_items(items, pops).touched, None);
}

#[test]
fn packets_of_the_programs_own_do_not_count() {
    let made = "ipv4_packet_t *own = packet_create(); if (packet_grow_tail(own, 900)) own->ttl = 64; channel_put(inner, own); \
                channel_put(output, packet_copy(pkt)); channel_put(output, pkt);";
    assert_eq!(of(made), bytes(0, 0));
}

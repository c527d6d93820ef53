//! Declared checksums that can't be kept.

use crate::support::refused;

/// A PPF `work` over some functions, with the library's headers.
fn program(functions: &str, body: &str) -> String {
    let body = body.replace('\n', "\n        ");
    format!(
        "import \"net/ipv4\";
import \"net/ipv6\";
import \"net/icmp\";
import \"net/tcp\";
import \"net/udp\";

drop_reason other;
struct slot_t {{ packets : u64; }}

{functions}module m {{
    in  ether input;
    out ether output;
    array<slot_t> slots[16];

    ppf work(ether_packet_t *pkt) from input {{
        {body}
    }}
}}
"
    )
}

fn ppf(body: &str) -> String {
    program("", body)
}

#[test]
fn unknown() {
    let unknown: &[&str] = &["checksum-unknown"];
    refused(&[
        (
            "sums-address-alone",
            unknown,
            ppf("ipv4_packet_t *ip = packet_peek(pkt);\nip->src = 198.51.100.1;\nchannel_put(output, pkt);"),
        ),
        (
            "sums-address-on-a-path",
            unknown,
            ppf("ipv4_packet_t *ip = packet_peek(pkt);
if (ip->protocol == 6) {
    tcp_packet_t *tcp = packet_peek(ip);
    tcp->src_port = 61000;
}
ip->src = 198.51.100.1;
channel_put(output, pkt);"),
        ),
        (
            "sums-address-without-a-default",
            unknown,
            ppf("ipv4_packet_t *ip = packet_peek(pkt);
switch (ip->protocol) {
case 6:
    tcp_packet_t *tcp = packet_peek(ip);
    tcp->src_port = 61000;
case 17:
    udp_packet_t *udp = packet_peek(ip);
    udp->src_port = 61000;
}
ip->src = 198.51.100.1;
channel_put(output, pkt);"),
        ),
        (
            "sums-address-after-a-loop",
            unknown,
            ppf("ipv4_packet_t *ip = packet_peek(pkt);
for (u32 i = 0; i < 4; i++) {
    tcp_packet_t *tcp = packet_peek(ip, 20 + i);
    tcp->src_port = 61000;
}
ip->src = 198.51.100.1;
channel_put(output, pkt);"),
        ),
        (
            "sums-address-in-a-function",
            unknown,
            program(
                "void translate(ipv4_packet_t *ip) { ip->src = 198.51.100.1; }\n\n",
                "ipv4_packet_t *ip = packet_peek(pkt);\ntranslate(ip);\nchannel_put(output, pkt);",
            ),
        ),
        (
            "sums-address-before-a-trim",
            unknown,
            ppf("ipv4_packet_t *ip = packet_peek(pkt);
ip->src = 198.51.100.1;
if (!packet_trim_tail(pkt, 4)) { packet_drop(pkt, other); return; }
channel_put(output, pkt);"),
        ),
        (
            "sums-address-before-a-copy",
            unknown,
            ppf("ipv4_packet_t *ip = packet_peek(pkt);
ip->src = 198.51.100.1;
channel_put(output, packet_copy(pkt));
tcp_packet_t *tcp = packet_peek(ip);
tcp->src_port = 61000;
channel_put(output, pkt);"),
        ),
        (
            "sums-address-before-a-decap",
            unknown,
            ppf("ipv4_packet_t *ip = packet_peek(pkt, 14 + packet_length(pkt) % 2);
ip->src = 198.51.100.1;
ipv4_packet_t *same = packet_decap(pkt);
tcp_packet_t *tcp = packet_peek(same);
tcp->src_port = 61000;
ether_packet_t *out = packet_encap(same);
channel_put(output, out);"),
        ),
        (
            "sums-address-of-ports",
            unknown,
            program(
                "protocol ports { src : 16; dst : 16; demux { 4 }; }\n\n",
                "ipv4_packet_t *ip = packet_peek(pkt);
ports_packet_t *ports = packet_peek(ip);
ports->src = 61000;
ip->src = 198.51.100.1;
channel_put(output, pkt);",
            ),
        ),
        (
            "sums-length-alone",
            unknown,
            ppf("ipv6_packet_t *ip = packet_peek(pkt);\nip->payload_length -= 4;\nchannel_put(output, pkt);"),
        ),
    ]);
}

#[test]
fn lengths_and_headers() {
    refused(&[
        (
            "sums-ambiguous",
            &["checksum-ambiguous"],
            ppf("ipv4_packet_t *ip = packet_peek(pkt);
tcp_packet_t *tcp = packet_peek(ip);
udp_packet_t *udp = packet_peek(ip);
if (ip->protocol == 6)
    tcp->src_port = 61000;
else
    udp->src_port = 61000;
ip->src = 198.51.100.1;
channel_put(output, pkt);"),
        ),
        (
            "sums-length-before-the-header",
            &["checksum-late"],
            ppf("ipv4_packet_t *ip = packet_peek(pkt);
ip->total_length -= 4;
tcp_packet_t *tcp = packet_peek(ip);
tcp->src_port = 61000;
channel_put(output, pkt);"),
        ),
        (
            "sums-cut-before-the-header",
            &["checksum-cut"],
            ppf("if (!packet_trim_tail(pkt, 4)) { packet_drop(pkt, other); return; }
ipv4_packet_t *ip = packet_peek(pkt);
icmp_packet_t *icmp = packet_peek(ip);
ip->total_length -= 4;
icmp->code = 0;
channel_put(output, pkt);"),
        ),
        (
            "sums-unset",
            &["checksum-unset"],
            ppf("tcp_packet_t *tcp = packet_encap(pkt);
tcp->dst_port = 80;
ipv4_packet_t *ip = packet_encap(tcp);
ip->src = 10.0.0.1;
ether_packet_t *out = packet_encap(ip);
channel_put(output, out);"),
        ),
        (
            "sums-unset-on-a-path",
            &["checksum-unset"],
            ppf("icmp_packet_t *icmp = packet_encap(pkt);
if (packet_length(icmp) > 64)
    checksum_set(icmp);
ipv4_packet_t *ip = packet_encap(icmp);
ether_packet_t *out = packet_encap(ip);
channel_put(output, out);"),
        ),
        (
            "sums-length-in-critical",
            &["in-critical"],
            ppf("ipv4_packet_t *ip = packet_peek(pkt);
udp_packet_t *udp = packet_peek(ip);
slot_t *slot = slots[0];
critical (slot) {
    slot->packets += 1;
    udp->length += 1;
}
channel_put(output, pkt);"),
        ),
        ("sums-none-of-ether", &["no-pseudo-header"], ppf("checksum_none(pkt);\nchannel_put(output, pkt);")),
    ]);
}

#[test]
fn of_replaced_headers() {
    let udp = "ipv4_packet_t *ip = packet_peek(pkt);\nudp_packet_t *udp = packet_peek(ip);\n";
    let put = "\nchannel_put(output, pkt);";
    let case = |body: &str| ppf(&format!("{udp}{body}{put}"));
    refused(&[
        (
            "sums-replaced-unset",
            &["checksum-unset"],
            case("tcp_packet_t *tcp = packet_replace(udp);\nip->protocol = 6;\ntcp->dst_port = 80;"),
        ),
        (
            "sums-replaced-unset-on-a-path",
            &["checksum-unset"],
            case(
                "tcp_packet_t *tcp = packet_replace(udp);\nif (ip->ttl > 3)\n    checksum_set(tcp, 5, 6);\ntcp->dst_port = 80;",
            ),
        ),
        (
            "sums-replaced-with-nothing-behind",
            &["checksum-unknown"],
            ppf(
                "ipv4_packet_t *ip = packet_peek(pkt);\nip->src = 198.51.100.1;\nether_packet_t *other = packet_replace(ip);\nother->type = 1;\nchannel_put(output, pkt);",
            ),
        ),
    ]);
}

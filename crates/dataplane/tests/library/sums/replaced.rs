//! A header in the place of another one: UDP and RTP become TCP, whose checksum comes of UDP's.

use super::oracle::{Found, checksums, words};
use super::packets::put16;
use super::*;

/// Bytes of the headers in front of UDP, by the version of IP.
fn upper_at(version: u8) -> usize {
    14 + if version == 4 { 20 } else { 40 }
}

/// How the packet's UDP checksum is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Sum {
    Right,
    None,
    Wrong(u64),
}

/// An RTP packet with so many bytes of payload, and padding behind it.
fn rtp(version: u8, payload: usize, padding: usize, sum: Sum, n: &mut SplitMix64) -> Vec<u8> {
    let at = upper_at(version);
    let end = at + 20 + payload;
    let mut frame: Vec<u8> = (0..end + padding).map(|_| n.bits(8) as u8).collect();
    let mut put = |at, value| put16(&mut frame, at, value);
    put(12, if version == 4 { 0x0800 } else { 0x86dd });
    put(at + 4, 20 + payload);
    put(at + 6, 1);
    if version == 4 {
        put(14, 0x4500);
        put(16, end - 14);
        put(22, 0x4011);
        put(24, 0);
        let sum = (words(&frame[14..34]) % 0xffff) as usize;
        put16(&mut frame, 24, 0xffff - sum);
    } else {
        put(14, 0x6000);
        put(18, end - at);
        put(20, 0x1140);
    }
    let found = checksums(&frame);
    let error = found[found.len() - 1].error.expect("a checksum");
    let off = if let Sum::Wrong(by) = sum { by } else { 0 };
    let value = match (1 + 0xffff - error + off) % 0xffff {
        0 => 0xffff,
        value => value as u16,
    };
    let value = if sum == Sum::None { 0 } else { value };
    frame[at + 6..at + 8].copy_from_slice(&value.to_be_bytes());
    frame
}

/// The translator: by handles that look into the packet, or with headers taken off and put in front again.
fn translator(version: u8, by_peeks: bool, by_sum: bool) -> String {
    let ip = if version == 4 { "ipv4" } else { "ipv6" };
    let (protocol, ttl) = if version == 4 { ("protocol", "ttl") } else { ("next_header", "hop_limit") };
    let pseudo = |number: u8| format!("{ip}_pseudo_sum(source, destination, {number}, length)");
    let payload = if by_sum { ", payload" } else { "" };
    let take = format!(
        "u32 length = udp->length;
        u16 payload = checksum_payload(udp, {}, tcp.size);
        rtp_packet_t *rtp = packet_peek(udp);
        u16 sequence = rtp->sequence;
        tcp_packet_t *tcp = packet_replace(udp);
        tcp->src_port = 80;
        tcp->dst_port = 61000;
        tcp->seq = sequence;
        tcp->flags = TCP_ACK;
        tcp->window = 500;
        checksum_set(tcp, {}{payload});",
        pseudo(17),
        pseudo(6),
    );
    let addresses = format!("{ip}_addr_t source = ip->src; {ip}_addr_t destination = ip->dst;");
    let body = match by_peeks {
        true => format!(
            "{ip}_packet_t *ip = packet_peek(ether);
        {addresses}
        udp_packet_t *udp = packet_peek(ip);
        {take}
        ip->{protocol} = 6;
        ip->{ttl} = 9;
        ip->src = 1;
        channel_put(output, ether);"
        ),
        false => format!(
            "mac_addr_t from = ether->src; mac_addr_t to = ether->dst; u16 kind = ether->type;
        {ip}_packet_t *ip = packet_decap(ether);
        {addresses}
        udp_packet_t *udp = packet_decap(ip);
        {take}
        {ip}_packet_t *front = packet_encap(tcp);
        front->{protocol} = 6;
        front->{ttl} = 9;
        front->src = source;
        front->dst = destination;
        front->{};
        ether_packet_t *out = packet_encap(front);
        out->src = from; out->dst = to; out->type = kind;
        channel_put(output, out);",
            if version == 4 { "total_length = (u16) length + 20" } else { "payload_length = (u16) length" }
        ),
    };
    let imports = ["ether", "ipv4", "ipv6", "tcp", "udp"].map(|file| format!("import \"net/{file}\";\n")).concat();
    format!(
        "{imports}import \"media/rtp\";
module m {{
    in  ether input;
    out ether output;
    ppf work(ether_packet_t *ether) from input {{
        {body}
    }}
}}
program {{ rx -> m.input; m.output -> tx; }}
"
    )
}

fn stepper(text: &str, engine: EngineKind) -> Stepper {
    let compilation = check("sums.baker", text, &Library);
    let Some(program) = &compilation.program else {
        panic!("{}\n{text}", render(&compilation.diagnostics, &compilation.sources, false));
    };
    let lowered = baker::ir::lower(program);
    baker::ir::verify(&lowered).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"));
    Stepper::new(Arc::new(lowered), engine).expect("an engine")
}

#[test]
fn udp_becomes_tcp() {
    let mut n = SplitMix64(0x7c9);
    for (version, by_peeks, by_sum) in
        [(4, true, true), (4, true, false), (4, false, true), (6, true, true), (6, false, true)]
    {
        let text = translator(version, by_peeks, by_sum);
        for engine in super::super::ENGINES {
            let mut stepper = stepper(&text, engine);
            for payload in [0, 1, 2, 3, 188, 375, 1316] {
                for sum in [Sum::Right, Sum::None, Sum::Wrong(1), Sum::Wrong(n.below(0xfffe) + 1)] {
                    let padding = if by_peeks { n.pick(&[0, 0, 1, 7]) as usize } else { 0 };
                    let input = rtp(version, payload, padding, sum, &mut n);
                    let outputs = stepper.receive(1, &input);
                    let [output] = &outputs[..] else { panic!("{} packets came out\n{text}", outputs.len()) };
                    let at = upper_at(version);
                    let shown = || format!("{engine:?} {sum:?} {payload}\n{text}\n{input:02x?}\n{:02x?}", output.bytes);
                    // What was wrong is as wrong as before, but where all is summed up anew.
                    let off = if let (Sum::Wrong(by), true) = (sum, by_sum) { by } else { 0 };
                    let upper = Found { name: "tcp", error: Some(off) };
                    let ip = (version == 4).then_some(Found { name: "ipv4", error: Some(0) });
                    let wanted: Vec<Found> = ip.into_iter().chain([upper]).collect();
                    assert_eq!(checksums(&output.bytes), wanted, "{}", shown());
                    let mut header = [0u8; 20];
                    header[..4].copy_from_slice(&[0, 80, 0xee, 0x48]);
                    header[6..8].copy_from_slice(&input[at + 10..at + 12]);
                    header[12..16].copy_from_slice(&[0x50, 0x10, 1, 0xf4]);
                    header[16..18].copy_from_slice(&output.bytes[at + 16..at + 18]);
                    assert_eq!(output.bytes[at..at + 20], header, "{}", shown());
                    assert_eq!(output.bytes[at + 20..], input[at + 20..], "{}", shown());
                }
            }
            // Too short for a TCP header: dropped, in place of a packet that is read beyond its end.
            let mut short = rtp(version, 0, 0, Sum::Right, &mut n);
            short.truncate(upper_at(version) + 19);
            assert!(stepper.receive(1, &short).is_empty());
            stepper.check_frames().expect("no frame is lost");
        }
    }
}

/// The same bytes seen as TCP, as UDP and as ports, in arms and at once: what is written through a handle counts for
/// the checksum that its protocol declares, and through one that declares none for the known one.
#[test]
fn handles_of_one_place() {
    let imports = ["ether", "ipv4", "tcp", "udp"].map(|file| format!("import \"net/{file}\";\n")).concat();
    let (tcp, udp) = ("tcp_packet_t *tcp = packet_peek(ip);", "udp_packet_t *udp = packet_peek(ip);");
    let ports = "ports_packet_t *ports = packet_peek(ip);";
    let bodies = [
        format!("{tcp}\n{udp}\nif (ip->protocol == 6) tcp->src_port = 61000; else udp->src_port = 61000;"),
        format!("{udp}\n{tcp}\nif (ip->protocol == 6) tcp->src_port = 61000; else udp->src_port = 61000;"),
        format!(
            "{ports}\nif (ip->protocol == 6) {{ {tcp} ports->src = 61000; ip->src = 7; }} \
             else {{ {udp} ports->src = 61000; ip->src = 7; }}"
        ),
        format!(
            "{ports}\nif (ip->protocol == 6) {{ {tcp} tcp->src_port = 1; }} else {{ {udp} udp->src_port = 1; }}\n\
             ports->src = 61000; ip->dst = 7;"
        ),
        format!(
            "{ports}\nif (ip->protocol == 6) {{ {tcp} if (packet_store(ports, 0, (u16) 61000)) done(ip); }} \
             else {{ {udp} if (packet_store(ports, 0, (u16) 61000)) done(ip); }}"
        ),
    ];
    let mut n = SplitMix64(0xa11a5);
    for body in bodies {
        let text = format!(
            "{imports}protocol ports {{ src : 16; dst : 16; demux {{ 4 }}; }}
void done(ipv4_packet_t *ip) {{ ip->ttl = 3; }}
module m {{
    in  ether input;
    out ether output;
    ppf work(ether_packet_t *ether) from input {{
        ipv4_packet_t *ip = packet_peek(ether);
        {body}
        channel_put(output, ether);
    }}
}}
program {{ rx -> m.input; m.output -> tx; }}
"
        );
        for engine in super::super::ENGINES {
            let mut stepper = stepper(&text, engine);
            for _ in 0..20 {
                let mut shape = packets::Shape::random(&mut n);
                (shape.vlan, shape.labels, shape.ips, shape.options) = (false, 0, &[4], 0);
                shape.upper = n.pick(&["tcp", "udp"]);
                let input = packets::packet(&shape, &mut n);
                let outputs = stepper.receive(1, &input);
                let [output] = &outputs[..] else { panic!("{} packets came out\n{text}", outputs.len()) };
                let shown = format!("{engine:?}\n{text}\n{input:02x?}\n{:02x?}", output.bytes);
                assert_eq!(checksums(&output.bytes), checksums(&input), "{shown}");
                assert_eq!(output.bytes[34..36], 61000u16.to_be_bytes(), "{shown}");
            }
        }
    }
}

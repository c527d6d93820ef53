//! Declared lengths: what headers that a program makes say of what they hold, told from the bytes alone.

use super::keeping::SplitMix64;
use super::sums::oracle::{Found, checksums};
use super::*;

/// Protocols of the test's own, beside those of the library.
const PROTOCOLS: &str = "protocol short { kind : 4; bytes : 12 counts { payload }; more : 8; demux { 3 }; }
protocol wide { kind : 8 = 7; bytes : 24 counts { header, payload }; sum : 16 covers { header }; demux { 6 }; }";

/// A header that counts: its name, its size, where the length is (bit, bits), and what it leaves out.
struct Header {
    name: &'static str,
    size: usize,
    at: (usize, usize),
    but: usize,
}

const HEADERS: [Header; 5] = [
    Header { name: "ipv4", size: 20, at: (16, 16), but: 0 },
    Header { name: "ipv6", size: 40, at: (32, 16), but: 40 },
    Header { name: "udp", size: 8, at: (32, 16), but: 0 },
    Header { name: "short", size: 3, at: (4, 12), but: 3 },
    Header { name: "wide", size: 6, at: (8, 24), but: 0 },
];

fn imports() -> Vec<String> {
    ["net/ipv4", "net/ipv6", "net/udp", "net/tcp"].map(str::to_string).to_vec()
}

/// The number in some bits of a packet.
fn bits(packet: &[u8], (from, width): (usize, usize)) -> usize {
    (from..from + width).fold(0, |number, bit| number << 1 | usize::from(packet[bit / 8] >> (7 - bit % 8) & 1))
}

/// What comes of a frame.
fn sent(program: &Arc<Program>, engine: EngineKind, input: &[u8]) -> Vec<u8> {
    let mut stepper = Stepper::new(program.clone(), engine).expect("an engine");
    let outputs = stepper.receive(1, input);
    stepper.check_frames().expect("no frame is lost");
    let [output] = &outputs[..] else { panic!("{} packets came out", outputs.len()) };
    output.bytes.clone()
}

/// A program, from its text.
pub(super) fn whole(text: &str) -> Arc<Program> {
    let compilation = check("lengths.baker", text, &Library);
    let Some(program) = &compilation.program else {
        panic!("{}", render(&compilation.diagnostics, &compilation.sources, false));
    };
    let lowered = baker::ir::lower(program);
    baker::ir::verify(&lowered).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"));
    Arc::new(lowered)
}

/// Headers in front of a frame, whose tail changes between them: each one counts what it holds when the next one comes
/// in front of it.
#[test]
fn headers_that_are_made_count_what_they_hold() {
    let mut n = SplitMix64(0x1e46);
    for _ in 0..40 {
        let mut body = String::new();
        let input: Vec<u8> = (0..80 + n.below(60)).map(|_| n.bits(8) as u8).collect();
        let (mut length, mut name) = (input.len(), "ether".to_string());
        // The outermost last, with the length that it must have.
        let mut made: Vec<(&Header, usize)> = Vec::new();
        for step in 0..1 + n.below(4) {
            let header = &HEADERS[n.below(HEADERS.len() as u64) as usize];
            let (outer, mut holds) = (format!("h{step}"), length + header.size);
            body += &format!("{}_packet_t *{outer} = packet_encap({name});\n", header.name);
            for _ in 0..n.below(3) {
                let bytes = 1 + n.below(9) as usize;
                let (call, after) = match n.below(2) {
                    0 => ("packet_trim_tail", holds - bytes),
                    _ => ("packet_grow_tail", holds + bytes),
                };
                holds = after;
                match n.below(2) {
                    0 => body += &format!("packet_require({call}({outer}, {bytes}), truncated);\n"),
                    // Only sometimes, as far as the compiler knows.
                    _ => body += &format!("if (now_ns() != 1 && !{call}({outer}, {bytes})) counter_add(done, 1);\n"),
                }
            }
            made.push((header, holds));
            (length, name) = (holds, outer);
        }
        body += &format!("ether_packet_t *out = packet_encap({name});\nchannel_put(output, out);\n");
        let text = format!(
            "{}import \"net/ether\";\n{PROTOCOLS}\nmodule m {{\nin ether input;\nout ether output;\ncounter done;\n\
             ppf work(ether_packet_t *ether) from input {{\n{body}}}\n}}\nprogram {{ rx -> m.input; m.output -> tx; }}\n",
            imports().iter().map(|path| format!("import \"{path}\";\n")).collect::<String>()
        );
        let program = whole(&text);
        for engine in ENGINES {
            let packet = sent(&program, engine, &input);
            let shown = || format!("{engine:?}\n{text}\n{packet:02x?}");
            assert_eq!(packet.len(), 14 + length, "{}", shown());
            let mut at = 14;
            for (header, holds) in made.iter().rev() {
                let found = bits(&packet[at..], header.at);
                assert_eq!(found, holds - header.but, "{} of {}", header.name, shown());
                let covered = &packet[at..at + header.size];
                let sum = |bytes: &[u8]| bytes.chunks(2).map(|w| u64::from(w[0]) << 8 | u64::from(w[1])).sum::<u64>();
                if matches!(header.name, "ipv4" | "wide") {
                    assert_eq!(sum(covered) % 0xffff, 0, "the checksum of {} of {}", header.name, shown());
                }
                at += header.size;
            }
        }
    }
}

/// What a PPF makes of a frame of UDP over IPv4, with so many bytes of payload and of padding.
fn made_of(body: &str, payload: usize, padding: usize, engine: EngineKind) -> Vec<u8> {
    let mut input = vec![0u8; 42 + payload + padding];
    input[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, (28 + payload) as u8, 0, 0, 0, 0, 64, 17]);
    input[38..40].copy_from_slice(&[0, (8 + payload) as u8]);
    let sum: u32 = input[14..34].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
    input[24..26].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    let paths = imports().iter().map(|path| format!("import \"{path}\";\n")).collect::<String>();
    let program = whole(&format!(
        "{paths}import \"net/ether\";\n{PROTOCOLS}
module m {{
    in  ether input;
    out ether output;
    channel ipv4 framed;
    counter done;
    ppf work(ether_packet_t *ether) from input {{ {body} }}
    ppf frame(ipv4_packet_t *ip) from framed {{ channel_put(output, packet_encap(ip)); }}
}}
program {{ rx -> m.input; m.output -> tx; }}"
    ));
    sent(&program, engine, &input)
}

const RIGHT: Found = Found { name: "ipv4", error: Some(0) };

#[test]
fn lengths_of_headers_without_a_name_and_of_copies() {
    for engine in ENGINES {
        let nameless = "udp_packet_t *udp = packet_encap(ether); channel_put(framed, packet_encap(udp));";
        let packet = made_of(nameless, 10, 0, engine);
        assert_eq!((bits(&packet, (16 * 8, 16)), bits(&packet, (38 * 8, 16))), (80, 60), "{engine:?}");
        // A copy of a header that was made follows its own tail.
        let copy = "ipv4_packet_t *ip = packet_encap(ether); ip->protocol = 17; ipv4_packet_t *c = packet_copy(ip);
            packet_end(ip); packet_require(packet_trim_tail(c, 7), truncated); channel_put(framed, c);";
        let packet = made_of(copy, 10, 0, engine);
        assert_eq!(bits(&packet, (16 * 8, 16)), 72 - 7, "{engine:?}");
        // A created packet: its header, and what it grows by.
        let create = "packet_end(ether); ipv4_packet_t *ip = packet_create(); ip->ttl = 3;
            packet_require(packet_grow_tail(ip, 13), truncated); channel_put(framed, ip);";
        let packet = made_of(create, 10, 0, engine);
        assert_eq!((packet.len(), bits(&packet, (16 * 8, 16))), (47, 33), "{engine:?}");
    }
}

#[test]
fn checksums_follow_lengths() {
    // The checksum of UDP was set when the packet was shorter; the pseudo header has the length, too.
    let body = "udp_packet_t *udp = packet_encap(ether);
        udp->dst_port = 7;
        checksum_set(udp, ipv4_pseudo_sum(1.2.3.4, 5.6.7.8, IP_PROTO_UDP, udp->length));
        packet_require(CHANGE, truncated);
        ipv4_packet_t *ip = packet_encap(udp);
        ip->protocol = IP_PROTO_UDP; ip->src = 1.2.3.4; ip->dst = 5.6.7.8;
        ether_packet_t *out = packet_encap(ip); out->type = ETH_TYPE_IPV4;
        channel_put(output, out);";
    for engine in ENGINES {
        for change in
            ["packet_grow_tail(udp, 9)", "packet_trim_tail(udp, 9)", "packet_trim_tail(udp, 12)", "now_ns() != 1"]
        {
            let packet = made_of(&body.replace("CHANGE", change), 11, 0, engine);
            let udp = Found { name: "udp", error: Some(0) };
            assert_eq!(checksums(&packet), [RIGHT, udp], "{change} on {engine:?}\n{packet:02x?}");
            assert_eq!(bits(&packet, (38 * 8, 16)), packet.len() - 34, "{change} on {engine:?}");
        }
    }
}

#[test]
fn what_came_in_keeps_its_length() {
    for engine in ENGINES {
        // A quote: cut, and still as long as it says.
        let quote = "ipv4_packet_t *ip = packet_decap(ether); udp_packet_t *udp = packet_peek(ip); udp->src_port = 1;
            packet_require(packet_trim_tail(ip, 5), truncated); channel_put(framed, ip);";
        let packet = made_of(quote, 10, 0, engine);
        assert_eq!((packet.len(), bits(&packet, (16 * 8, 16))), (47, 38), "{engine:?}");
        // A header that was made on one path only.
        for (made, holds) in [("!=", 20 + 14 + 38 - 3), ("==", 38)] {
            let either = format!(
                "ipv4_packet_t *ip = packet_decap(ether);
                if (now_ns() {made} 1) {{ ether_packet_t *again = packet_encap(ip); ip = packet_encap(again); }}
                checksum_none(ip); packet_require(packet_trim_tail(ip, 3), truncated); channel_put(framed, ip);"
            );
            let packet = made_of(&either, 10, 0, engine);
            assert_eq!(bits(&packet, (16 * 8, 16)), holds, "{made} on {engine:?}");
        }
        // The program's own length, though a function writes it.
        let own = "udp_packet_t *udp = packet_encap(ether); udp->length = 3; ipv4_packet_t *ip = packet_encap(udp);
            packet_require(packet_grow_tail(ip, 2), truncated); channel_put(framed, ip);";
        let packet = made_of(own, 10, 0, engine);
        assert_eq!((bits(&packet, (16 * 8, 16)), bits(&packet, (38 * 8, 16))), (82, 3), "{engine:?}");
    }
}

/// A header in the place of another one reaches as far as the header around it says: padding is not counted.
#[test]
fn replaced_headers_end_where_the_header_around_them_does() {
    let body = "ipv4_packet_t *ip = packet_peek(ether); udp_packet_t *udp = packet_peek(ip); udp->length = 77;
        udp_packet_t *again = packet_replace(udp); again->dst_port = 9; channel_put(output, ether);";
    for engine in ENGINES {
        for padding in [0, 1, 9] {
            let packet = made_of(body, 10, padding, engine);
            assert_eq!(bits(&packet, (38 * 8, 16)), 18, "{padding} on {engine:?}");
        }
    }
}

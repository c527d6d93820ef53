//! How much room in front of a packet a program is said to need (`Limits::headroom`), and behind a grown head
//! (`Limits::encap`).

use baker::check::check;
use baker::diag::render;
use baker::ir::Limits;
use baker::library::Library;

/// Limits of a program whose first PPF has this body; `more` are further items of its module.
fn limits(body: &str, more: &str) -> Limits {
    let text = format!(
        "import \"net/ipv4\";
protocol tag {{ a : 16; demux {{ 2 }}; }}
protocol flexible {{ length : 8; demux {{ length }}; }}
module m {{
    in  ether input;
    out ether output;
    out ipv4 inner;
{more}
    ppf work(ether_packet_t *pkt) from input {{
{body}
    }}
}}
module end {{
    in  ipv4 input;
    out ether output;
    ppf encap(ipv4_packet_t *ip) from input {{
        ether_packet_t *pkt = packet_encap(ip);
        channel_put(output, pkt);
    }}
}}
program {{ rx -> m.input; m.output -> tx; m.inner -> end.input; end.output -> tx; }}
"
    );
    let compilation = check("headroom.baker", &text, &Library);
    let Some(program) = &compilation.program else {
        panic!("{}", render(&compilation.diagnostics, &compilation.sources, false));
    };
    baker::ir::lower(program).limits
}

fn headroom(body: &str) -> u32 {
    limits(body, "").headroom
}

const OUT: &str = "channel_put(output, pkt);";

#[test]
fn straight_on() {
    assert_eq!(headroom(OUT), 0);
    assert_eq!(headroom("ipv4_packet_t *ip = packet_decap(pkt);\nchannel_put(inner, ip);"), 0);
    assert_eq!(headroom("ipv4_packet_t *ip = packet_encap(pkt);\nchannel_put(inner, ip);"), 34);
    assert_eq!(headroom(&format!("pkt = packet_encap(pkt);\npkt = packet_encap(pkt);\n{OUT}")), 28);
    // A header that was taken off makes room, at least its fixed part.
    let text =
        "tag_packet_t *tag = packet_decap(pkt);\nflexible_packet_t *f = packet_encap(tag);\ntag = packet_decap(f);";
    assert_eq!(headroom(&format!("{text}\npkt = packet_encap(tag);\npkt = packet_encap(pkt);\n{OUT}")), 14);
}

#[test]
fn created_and_copied_packets() {
    let created = format!("ipv4_packet_t *ip = packet_create();\nchannel_put(inner, ip);\n{OUT}");
    assert_eq!((limits(&created, "").headroom, limits(&created, "").front), (14, 0));
    let copied = "ether_packet_t *copy = packet_copy(pkt);\nipv4_packet_t *other = packet_encap(copy);";
    let both = format!("{copied}\nchannel_put(inner, other);\n{created}");
    assert_eq!((limits(&both, "").headroom, limits(&both, "").front), (34, 34));
    assert_eq!(
        headroom(
            "ipv4_packet_t *ip = packet_peek(pkt);\nchannel_put(inner, packet_copy(ip));\nchannel_put(output, pkt);"
        ),
        0
    );
}

#[test]
fn branches() {
    let if_ = "if (pkt->type == 1) pkt = packet_encap(pkt); else { pkt = packet_encap(pkt); pkt = packet_encap(pkt); }";
    assert_eq!(headroom(&format!("{if_}\n{OUT}")), 28);
    let switch = "switch (pkt->type) { case 1: pkt = packet_encap(pkt); break; case 2: pkt = packet_encap(pkt); pkt = packet_encap(pkt); default: pkt->type = 2; }";
    assert_eq!(headroom(&format!("{switch}\npkt = packet_encap(pkt);\n{OUT}")), 42);
    let in_arm = "switch (pkt->type) { case 1: channel_put(output, packet_copy(pkt)); pkt = packet_encap(pkt); if (pkt->type == 7) break; pkt = packet_encap(pkt); }";
    assert_eq!(headroom(&format!("{in_arm}\n{OUT}")), 28);
    let left = "if (pkt->type == 1) { pkt = packet_encap(pkt); packet_drop(pkt, malformed); return; }";
    assert_eq!(headroom(&format!("{left}\n{OUT}")), 14);
}

#[test]
fn loops() {
    assert_eq!(headroom(&format!("for (u32 i = 0; i < 5; i++) pkt = packet_encap(pkt);\n{OUT}")), 70);
    assert_eq!(headroom(&format!("for (u32 i = 0; i < 5; i++) pkt = packet_decap(pkt);\n{OUT}")), 0);
    let nested = "for (u32 i = 0; i < 3; i++) { for (u32 k = 0; k < 2; k++) pkt = packet_encap(pkt); }";
    assert_eq!(headroom(&format!("{nested}\n{OUT}")), 84);
    let balanced = "for (u32 i = 0; i < 4000; i++) { pkt = packet_encap(pkt); pkt = packet_decap(pkt); }";
    assert_eq!(headroom(&format!("{balanced}\n{OUT}")), 14);
    let left = "for (u32 i = 0; i < 5; i++) { pkt = packet_encap(pkt); if (pkt->type == i) break; if (pkt->type == 7) continue; pkt = packet_decap(pkt); }";
    assert_eq!(headroom(&format!("{left}\n{OUT}")), 70);
    let switch = "for (u32 i = 0; i < 3; i++) { switch (pkt->type) { case 1: pkt = packet_encap(pkt); continue; case 2: break; } pkt = packet_decap(pkt); }";
    assert_eq!(headroom(&format!("{switch}\n{OUT}")), 42);
}

#[test]
fn functions() {
    let function = "void made(ether_packet_t *lent) {
        ipv4_packet_t *ip = packet_create();
        ip->protocol = (u8) lent->type;
        channel_put(inner, ip);
    }";
    assert_eq!(limits(&format!("made(pkt);\n{OUT}"), function).headroom, 14);
}

#[test]
fn grown_heads_keep_room() {
    let grown = limits(
        "ipv4_packet_t *ip = packet_decap(pkt);\nif (packet_grow_head(ip, 4)) ip->ttl = 1;\nchannel_put(inner, ip);",
        "",
    );
    assert_eq!((grown.headroom, grown.encap), (0, 14));
    let before = limits(&format!("if (packet_grow_head(pkt, 4)) pkt->type = 1;\npkt = packet_encap(pkt);\n{OUT}"), "");
    assert_eq!((before.headroom, before.encap), (14, 14));
}

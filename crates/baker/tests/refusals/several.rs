//! Independent errors in one file are all reported, each once, in the order of the text.

use crate::support::{module, refused};

#[test]
fn several() {
    let source = module(
        "const u8 LIMIT = 300;
hash<u32, nothing_t> unknown[16];

u32 twice(u32 x) {
    return x * twoo;
}

ppf work(ether_packet_t *pkt) from input {
    u32 *flow = flows[1];
    *flow = 1;
    u32 *other = unknown[2];
    if (other != null)
        *other = 1;
    channel_put(output, pkt);
    pkt->type = 5;
}",
    ) + "
const u8 A = B;
const u8 B = A;

module second {
    in ether input;
    out ether output;
    ppf lose(ether_packet_t *pkt) from input {
        u16 type = pkt->type;
        if (type == 5)
            channel_put(output, pkt);
    }
    ppf narrow(ether_packet_t *pkt) from inptu {
        u8 type = pkt->type;
        channel_put(output, pkt);
    }
}
";
    refused(&[(
        "several",
        &[
            "constant-out-of-range",
            "unknown-name",
            "unknown-name",
            "pointer-untested",
            "handle-used-after",
            "constant-cycle",
            "handle-lost-on-a-path",
            "unknown-name",
            "narrowing",
        ],
        source,
    )]);
}

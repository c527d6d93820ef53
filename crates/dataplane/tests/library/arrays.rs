//! Elements of arrays in variables, entries and arrays of tables, against the same in Rust, on every engine.

use super::*;

const LENGTH: usize = 5;

/// For each byte behind the Ethernet header an element is added to; the packet carries what became of them.
const PROGRAM: &str = "
import \"net/ether\";
metadata { local : u64; entry : u64; beyond : u64; }
struct window_t { before : u8; seen : u16[5]; flags : bool[3]; }
module m {
    in  ether input;
    out ether output;
    hash<u32, window_t> windows[4];
    array<window_t> all[2];

    ppf work(ether_packet_t *pkt) from input {
        u16 local[5];
        window_t copy;
        table_insert(windows, 1, window_t { before: 7 });
        window_t *window = windows[1];
        if (window == null) { packet_drop(pkt, malformed); return; }
        u64 beyond = 0;
        for (u32 i = 0; i < 40; i++) {
            u8 *byte = packet_load(pkt, 14 + i);
            if (byte == null)
                break;
            local[*byte] += (u16) i + 1;
            critical (window) { window->seen[*byte] += (u16) i * 3; }
            all[1].seen[*byte] = window->seen[*byte];
            all[i].seen[*byte] = i < 2 ? window->seen[*byte] : 1;
            window->flags[*byte & 3] = !window->flags[*byte & 3];
            copy = *window;
            copy.seen[*byte] ^= 1;
            copy.seen[*byte] ^= 1;
            if (*byte >= 5)
                beyond += (u64) local[*byte] + window->seen[*byte] + copy.seen[*byte] + 1;
        }
        u64 sum = 0;
        u64 entry = 0;
        for (u32 i = 0; i < 7; i++) {
            sum = sum * 31 + local[i];
            entry = entry * 31 + copy.seen[i] + all[1].seen[i];
        }
        pkt->metadata.local = sum;
        pkt->metadata.entry = entry * 8 + (u64) window->before * 100 + (copy.flags[0] ? 1 : 0) + (copy.flags[2] ? 2 : 0);
        pkt->metadata.beyond = beyond;
        channel_put(output, pkt);
    }
}
program { rx -> m.input; m.output -> tx; }
";

/// What the program must find.
fn expected(bytes: &[u8], all: &mut [[u16; LENGTH]; 2]) -> [u64; 3] {
    let (mut local, mut seen, mut flags, mut beyond) = ([0u16; LENGTH], [0u16; LENGTH], [false; 3], 0u64);
    for (i, &byte) in bytes.iter().enumerate().take(40) {
        let at = usize::from(byte);
        if let (Some(local), Some(seen)) = (local.get_mut(at), seen.get_mut(at)) {
            *local = local.wrapping_add(i as u16 + 1);
            *seen = seen.wrapping_add((i as u16).wrapping_mul(3));
            all[1][at] = *seen;
            if i < 2 {
                all[i][at] = *seen;
            }
        } else {
            beyond += 1;
        }
        if let Some(flag) = flags.get_mut(at & 3) {
            *flag = !*flag;
        }
    }
    let fold = |values: &dyn Fn(usize) -> u64| {
        (0..7).fold(0u64, |sum, i| sum.wrapping_mul(31).wrapping_add(if i < LENGTH { values(i) } else { 0 }))
    };
    let (sum, entry) = (fold(&|i| local[i].into()), fold(&|i| u64::from(seen[i]) + u64::from(all[1][i])));
    [sum, entry.wrapping_mul(8) + 700 + u64::from(flags[0]) + 2 * u64::from(flags[2]), beyond]
}

#[test]
fn elements_are_as_in_rust() {
    let compilation = check("arrays.baker", PROGRAM, &Library);
    let Some(program) = &compilation.program else {
        panic!("{}", render(&compilation.diagnostics, &compilation.sources, false));
    };
    let lowered = Arc::new(baker::ir::lower(program));
    baker::ir::verify(&lowered).unwrap_or_else(|errors| panic!("{errors:?}"));
    for engine in ENGINES.into_iter().filter(|engine| shows_metadata(*engine)) {
        let mut stepper = Stepper::new(lowered.clone(), engine).expect("an engine");
        let (mut n, mut all) = (keeping::SplitMix64(0xa44a), [[0u16; LENGTH]; 2]);
        for _ in 0..50 {
            let mut packet = vec![0u8; 14];
            packet.extend((0..n.below(40)).map(|_| if n.below(8) == 0 { 0xff } else { n.below(7) as u8 }));
            let wanted = expected(&packet[14..], &mut all);
            let outputs = stepper.receive(1, &packet);
            let [output] = &outputs[..] else { panic!("{} packets came out", outputs.len()) };
            let field = |name: &str| {
                let index = lowered.metadata.iter().position(|field| field.name == name).expect("declared");
                output.metadata[index] as u64
            };
            assert_eq!(["local", "entry", "beyond"].map(field), wanted, "{engine:?} {packet:?}");
        }
    }
}

//! Packets in several fragments: wherever they are divided, the program does the same, or has left them alone.

use super::*;
use codegen::kernel::FIRST_FRAGMENT;

/// Looks at a packet's end and changes it, takes a header off, puts two in front.
const LONG: &str = "module m { in ether input; out ether output; counter seen; counter bad;
        ppf p(ether_packet_t *pkt) from input {
            u32 end = packet_length(pkt) - 4;
            u32 *last = packet_load(pkt, end);
            if (last == null || *last != 0x01020304) counter_add(bad, 1);
            u64 *beyond = packet_load(pkt, end);
            if (beyond != null) counter_add(bad, 1);
            if (!packet_store(pkt, end, (u32) 0x05060708)) counter_add(bad, 1);
            if (!packet_trim_tail(pkt, 2)) counter_add(bad, 1);
            inner_packet_t *inside = packet_decap(pkt);
            inside->second = 77;
            counter_add(seen, 1);
            ether_packet_t *front = packet_encap(inside);
            front->type = 7;
            ether_packet_t *out = packet_encap(front);
            out->metadata.tx.port = out->metadata.rx.port;
            channel_put(output, out);
        } }
    program { rx -> m.input; m.output -> tx; }";

fn long(len: usize) -> Vec<u8> {
    let mut packet: Vec<u8> = (0..len).map(|n| (n * 7) as u8).collect();
    packet[len - 4..].copy_from_slice(&[1, 2, 3, 4]);
    packet
}

fn changed(packet: &[u8]) -> Vec<u8> {
    let mut out = [vec![0; 26], vec![0, 7], packet[14..].to_vec()].concat();
    out[29] = 77;
    let end = out.len();
    out[end - 4..].copy_from_slice(&[5, 6, 7, 8]);
    out.truncate(end - 2);
    out
}

fn rig(options: Options) -> Rig {
    Rig::with(LONG, Options { frags: true, ..options })
}

#[test]
fn wherever_a_packet_is_divided() {
    let least = FIRST_FRAGMENT as usize;
    for (spill, apart) in [(false, false), (true, false), (false, true)] {
        let rig = rig(Options { spill, apart, ..Options::default() });
        let slots = CounterSlots::new(&rig.program);
        let counts = || [slots.channel(Program::RX), slots.user(CounterId(1))].map(|slot| rig.memory.counter(slot));
        let packet = long(300);
        for first in (14..300).chain([300]) {
            let before = counts();
            let ran = rig.loaded.run_divided(&packet, first).unwrap();
            if first < least {
                assert_eq!(counts(), before, "{first}: the kernel has not seen it");
                let (punt, metadata, rest) = Punt::read(&rig.program, &ran.packet).unwrap();
                assert_eq!(
                    (punt, rest),
                    (Punt { channel: Program::RX.0 as u16, generation: 0, head: 0 }, &packet[..]),
                    "{first}"
                );
                assert_eq!(metadata[rig.program.metadata[0].offset as usize], PORT);
                continue;
            }
            assert_eq!(counts(), [before[0] + 1, 0], "{first}");
            assert_eq!((ran.verdict, ran.packet), (Verdict::Transmit as u32, changed(&packet)), "{first}");
        }
    }
}

#[test]
fn packets_longer_than_a_page() {
    let rig = rig(Options::default());
    for len in [3400, 3600, 4096, 9014, 16000, 60_000] {
        let packet = long(len);
        let ran = rig.loaded.run(&packet).unwrap();
        assert!((ran.verdict, ran.packet) == (Verdict::Transmit as u32, changed(&packet)), "{len}");
    }
    assert_eq!(rig.memory.counter(CounterSlots::new(&rig.program).user(CounterId(1))), 0);
}

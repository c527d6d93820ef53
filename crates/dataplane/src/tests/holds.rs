//! Hold tables: what is held and given back, by every engine, and whose frames it is.

use std::sync::Arc;

use baker::ir::Program;
use baker::opt::Level;
use codegen::OptLevel;

use crate::bench::Rig;
use crate::ports::{Driver, MemPort};
use crate::step::Stepper;
use crate::testing::{SplitMix64, compiled, frame};
use crate::{Access, EngineKind, FrameConfig, FrameError, Instance, Options, PortConfig, StartError};

/// The type says what is done with the packet under the number in its destination: it is held, whole or as a copy with
/// another header in front; or what is held is sent, in one of several forms, and held again.
const KEEP: &str = "import \"net/ether\";
metadata { mark : u16; }
protocol outer { a : 64; b : 64; c : 64; demux { 24 }; }
module m {
    in  ether input;
    out ether output;
    out outer wrapped;
    hold<ether> few[16] of 5;
    hold<outer> more[8] of 8;

    ppf work(ether_packet_t *pkt) from input {
        u64 number = (u64) pkt->dst;
        pkt->metadata.mark = (u16) pkt->src;
        switch (pkt->type) {
        case 1:
            hold_put(few, number, pkt);
            return;
        case 2:
            hold_put(few, number, packet_copy(pkt));
            channel_put(output, pkt);
            return;
        case 3:
            ether_packet_t *copy = packet_copy(pkt);
            outer_packet_t *out = packet_encap(copy);
            out->a = number;
            hold_put(more, number, out);
            channel_put(output, pkt);
            return;
        case 4:
            ether_packet_t *held = hold_get(few, number);
            if (held == null) {
                pkt->type = 0x4444;
                channel_put(output, pkt);
                return;
            }
            held->dst = (mac_addr_t) held->metadata.mark;
            channel_put(output, held);
            packet_drop(pkt, malformed);
            return;
        case 5:
            outer_packet_t *wrap = hold_get(more, number);
            if (wrap != null) {
                wrap->b = number + 1;
                outer_packet_t *again = packet_copy(wrap);
                again->c = 7;
                hold_put(more, number + 1, again);
                channel_put(wrapped, wrap);
            }
            channel_put(output, pkt);
            return;
        case 6:
            for (u64 i = 0; i < 16; i++) {
                ether_packet_t *each = hold_get(few, i);
                if (each != null) {
                    each->src = (mac_addr_t) i;
                    channel_put(output, each);
                }
            }
            packet_drop(pkt, malformed);
            return;
        default:
            packet_drop(pkt, malformed);
        }
    }
}
module n {
    in  outer input;
    out ether output;
    ppf strip(outer_packet_t *out) from input {
        out->a = out->a + out->b + out->c;
        ether_packet_t *pkt = packet_encap(out);
        pkt->type = 0x0505;
        channel_put(output, pkt);
    }
}
program { rx -> m.input; m.output -> tx; m.wrapped -> n.input; n.output -> tx; }
";

/// Random packets, most of them of numbers that others have.
fn packets(seed: u64, count: u32) -> Vec<(u8, Vec<u8>)> {
    let mut random = SplitMix64(seed);
    let packet = |n: u32| {
        let kind = [1, 1, 1, 2, 2, 3, 3, 4, 4, 4, 5, 5, 6, 9][random.below(14) as usize];
        let len = [14, 60, 200, 1400, 1792][random.below(5) as usize];
        let mut packet = frame(kind, n, len);
        let number = if random.below(8) == 0 { random.next() } else { random.below(24) };
        packet[..6].copy_from_slice(&number.to_be_bytes()[2..]);
        (1, packet)
    };
    (0..count).map(packet).collect()
}

fn sent(program: &Arc<Program>, engine: EngineKind, access: Access, packets: &[(u8, Vec<u8>)]) -> Vec<(Vec<u8>, u64)> {
    let mut stepper = Stepper::new(program.clone(), engine).unwrap();
    stepper.set_access(access);
    let outputs = stepper.receive_batch(packets);
    let counters = stepper.counters();
    stepper.check_frames().unwrap();
    let mut sent: Vec<(Vec<u8>, u64)> = outputs.into_iter().map(|output| (output.bytes, 0)).collect();
    sent.extend(counters.into_iter().map(|count| (Vec::new(), count)));
    sent
}

#[test]
fn engines_hold_the_same_packets() {
    let program = compiled(KEEP);
    for seed in 0..12 {
        let packets = packets(seed, 1500);
        let expected = sent(&program, EngineKind::Interp, Access::InPlace, &packets);
        assert!(expected.len() > 1000, "{}", expected.len());
        for level in Level::ALL {
            for opt in [OptLevel::O0, OptLevel::O3] {
                let found = sent(&program, EngineKind::Native(opt, level), Access::InPlace, &packets);
                assert!(found == expected, "seed {seed}, {opt:?} {level:?}");
            }
        }
        for access in Access::ALL {
            assert!(sent(&program, EngineKind::NATIVE, access, &packets) == expected, "seed {seed}, {access}");
        }
    }
}

fn port(packets: &[(u8, Vec<u8>)], count: u64) -> PortConfig {
    let packets = packets.iter().map(|(_, packet)| packet.clone()).collect();
    PortConfig::new("a", 1, Driver::Mem(MemPort::generator(packets, count)))
}

#[test]
fn workers_share_a_table_and_all_frames_come_back() {
    let program = compiled(KEEP);
    for workers in [1, 2] {
        let options = Options { workers, ..Options::default() };
        let report = Instance::start(program.clone(), &options, &[port(&packets(9, 4000), 400_000)]).unwrap().wait();
        assert_eq!((report.errors, report.free_frames), (Vec::new(), report.frames), "{workers} workers");
        let full = |name: &str| report.snapshot.tables_full.iter().find(|(table, _)| table == name).unwrap().1;
        // The one has fewer packets than places; to the other one come some that are too long to be held.
        assert!(full("m.few") > 1000 && full("m.more") > 1000, "{:?}", report.snapshot.tables_full);
    }
}

#[test]
fn too_few_frames_for_what_is_held_are_an_error() {
    let program = compiled(&KEEP.replace("of 5;", "of 5000;"));
    let options = Options { frames: FrameConfig { count: 8192, ..FrameConfig::default() }, ..Options::default() };
    let error = Instance::start(program, &options, &[port(&[], 0)]).map(drop).unwrap_err();
    assert!(matches!(error, StartError::Frames(FrameError::Holds { holds: 10016, .. })), "{error}");
    assert_eq!(
        error.to_string(),
        "8192 frames: hold tables take 10016 (m.few: 5000 packets, m.more: 8 packets), two for each packet, and workers at \
         least 17: use more frames, or declare them `of` fewer packets"
    );
}

/// `cargo test -p dataplane --release -- --ignored time_of_put_and_get --nocapture`, on an idle machine.
#[test]
#[ignore = "a measurement"]
fn time_of_put_and_get() {
    let text = |body: &str| {
        format!(
            "import \"net/ether\";
            module m {{
                in ether input;
                out ether output;
                hold<ether> recent[4096] of 1024;
                ppf work(ether_packet_t *pkt) from input {{ {body} }}
            }}
            program {{ rx -> m.input; m.output -> tx; }}"
        )
    };
    let bodies = [
        ("drop", "packet_drop(pkt, malformed);"),
        ("put", "hold_put(recent, (u64) pkt->src, pkt);"),
        ("copy", "channel_put(output, packet_copy(pkt)); packet_drop(pkt, malformed);"),
        ("put of a copy", "hold_put(recent, (u64) pkt->src, packet_copy(pkt)); packet_drop(pkt, malformed);"),
        (
            "put and get",
            "u64 number = (u64) pkt->src; hold_put(recent, number, pkt);
             ether_packet_t *held = hold_get(recent, number); if (held != null) channel_put(output, held);",
        ),
    ];
    for len in [64, 1370] {
        let packets: Vec<_> = (0..2048).map(|n| frame(0x0800, n, len)).collect();
        for (name, body) in bodies {
            let program = compiled(&text(body));
            let mut rig = Rig::new(&program, EngineKind::NATIVE, |_| Ok(())).unwrap();
            let mut times: Vec<f64> = (0..9).map(|_| rig.run(1, &packets, 20).ns_per_packet).collect();
            times.sort_by(f64::total_cmp);
            println!("{len:>5} bytes  {name:<14} {:>6.1} ns", times[4]);
        }
    }
}

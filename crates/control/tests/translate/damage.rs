//! What is damaged before it comes, and what strangers send.

use dataplane::EngineKind;

use crate::client::{self, ACK, FIN, Options, RST};
use crate::parts::read;
use crate::world::{Scene, World};
use crate::{program, quiet as native};

fn quiet() -> Scene {
    Scene { engine: EngineKind::Interp, ..native() }
}

/// The client drops a segment whose payload the source's checksum does not fit. It gets null packets in its place, at
/// once; in parts it is left out. Never does it get a byte that the source has not sent.
#[test]
fn damaged_packets_become_null_packets() {
    for (mss, sack, fill) in [(1460, true, 0), (1460, false, 0), (1460, true, 1), (1200, true, 0)] {
        let client = Options { sack, ..quiet().client };
        let mut world = World::new(&program(), Scene { client, fill, ..quiet() });
        world.client.options.mss = mss;
        world.damaged = 50;
        world.connect();
        world.run(2000);
        world.running = false;
        world.run(2000);
        let read = read(&world.client.data);
        assert!(read.packets > 370 && !world.client.reset, "{mss} {sack} {fill}: {read:?}");
        if mss == 1460 {
            assert!((5 * 7..=10 * 7).contains(&read.nulls) && read.missing == 0, "{sack} {fill}: {read:?}");
            // Each once, or twice where the tail's probe has come before.
            assert!((5..=20).contains(&world.wrong), "{}", world.wrong);
        } else {
            assert!((5 * 7..=10 * 7).contains(&read.missing) && (read.nulls, world.wrong) == (0, 0), "{read:?}");
        }
    }
}

/// Clients of a process that is gone notice by what they send next: a keep-alive probe, an acknowledgement, data, a FIN
/// (RFC 9293 section 3.10.7.1). One number in eight may be a cookie's, until its period is over.
#[test]
fn segments_of_no_connection_are_answered_with_resets() {
    let mut world = World::new(&program(), quiet());
    let (mut resets, mut tried) = (0, 0);
    for number in 0..64u32 {
        for (flags, payload) in [(ACK, &b""[..]), (ACK, b"x"), (ACK | FIN, b""), (ACK, b"GET / HTTP/1.1\r\n\r\n")] {
            let mut stranger = world.client.clone();
            stranger.sent = number.wrapping_mul(0x9e37_79b9);
            stranger.received = u64::from(number.wrapping_mul(0x85eb_ca6b));
            let out = world.stepper.receive(1, &stranger.segment(flags, payload));
            tried += 1;
            for out in out {
                let answer = client::parse(&out.bytes);
                assert_eq!((answer.flags, answer.seq), (RST, stranger.received as u32));
                resets += 1;
            }
        }
    }
    assert!(tried * 3 / 4 < resets && resets < tried, "{resets} of {tried}");
    // A reset has no answer, and there are so many resets in a second.
    assert!(world.stepper.receive(1, &world.client.segment(RST, &[])).is_empty());
    let ack = world.client.segment(ACK, &[]);
    let more = (0..2000).filter(|_| !world.stepper.receive(1, &ack).is_empty()).count();
    assert!(more + resets <= 1001, "{more}");
}

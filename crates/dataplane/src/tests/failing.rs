//! Controllers that fail: they are started again, and observers see it.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::controllers::{ENGINES, PATIENCE, Run, controller, options, ports, start, until, whole};
use crate::controller::{ControllerState, Event, Link, Named};
use crate::ports::{Driver, MemPort};
use crate::testing::{TO_HOST, compiled, frame};
use crate::{EngineKind, Instance, PollMode, PortConfig};

/// Fails so many times, by an error or by a panic with a packet in its hands, and does what it should then.
fn fails_first(times: u32) -> Vec<Named> {
    let mut left = times;
    controller(move |link| {
        let (input, tx) = (link.input("m.again").unwrap(), link.field("tx.port").unwrap());
        let packet = match link.receive(PATIENCE) {
            Event::Packet(packet) => packet,
            Event::Room | Event::Timer(_) | Event::Idle => return Err("no packet, and no end".into()),
            Event::Stop => return Ok(()),
        };
        if left > 0 {
            left -= 1;
            assert!(left % 2 == 1, "packet {:?}", packet.bytes()[13]);
            return Err("out of ideas".into());
        }
        loop {
            match link.receive(PATIENCE) {
                Event::Packet(packet) => _ = link.inject(input, packet.bytes(), &[(tx, 1)]),
                Event::Room | Event::Timer(_) => {}
                Event::Idle => return Err("no packet, and no end".into()),
                Event::Stop => return Ok(()),
            }
        }
    })
}

#[test]
fn one_that_fails_is_started_again() {
    for engine in ENGINES {
        // Packets without end.
        let (ports, _sent) = ports((0..64).map(|n| frame(TO_HOST, n, 60)).collect(), u64::MAX);
        let mut ports = ports;
        ports[1] = PortConfig::new("b", 1, Driver::Mem(MemPort::default()));
        let instance = start(&options(engine, 1, PollMode::Interrupt), &ports, fails_first(3));
        let observer = instance.observer();
        until("it fails three times", || observer.controllers()[0].failures == 3);
        until("it is there again", || observer.snapshot().channel("c -> m.again") > 1000);
        let known = &observer.controllers()[0];
        assert_eq!((known.state, known.failures, known.in_a_row), (ControllerState::Running, 3, 3));
        assert_eq!(known.error.as_deref(), Some("packet 6"));
        let gone = observer.snapshot().dropped("controller_gone");
        assert!(gone > 0, "{gone}");
        // Nothing is left of that at the end, no frame either.
        whole(&instance.stop());
    }
}

#[test]
fn one_that_fails_again_and_again_is_known_to() {
    let (ports, _) = ports(Vec::new(), 0);
    let broken = controller(|_| Err("it is broken".into()));
    let instance = start(&options(EngineKind::NATIVE, 1, PollMode::Interrupt), &ports, broken);
    let observer = instance.observer();
    until("it fails for good", || observer.controllers()[0].is_failing);
    assert!(observer.controllers()[0].failures >= 5);
    assert_eq!(instance.controllers().collect::<Vec<_>>(), ["c"]);
    // The end does not wait for its next start.
    let start = Instant::now();
    assert_eq!(instance.stop().errors, ["controller c: it is broken"]);
    assert!(start.elapsed() < PATIENCE);
}

/// One of two fails as long as the first program runs. The second one takes over in a pause, and does not wait for its
/// end.
#[test]
fn another_program_is_a_reason_to_start_again() {
    let text = |name: &str| {
        format!(
            "import \"net/ether\";
            module m {{
                in  ether input, again; out ether output, punt, other;
                array<u32> {name}[4];
                ppf sort(ether_packet_t *pkt) from input {{
                    if (pkt->type == 0x0806) {{ channel_put(punt, pkt); return; }}
                    channel_put(other, pkt);
                }}
                ppf send(ether_packet_t *pkt) from again {{ channel_put(output, pkt); }}
            }}
            program {{
                rx -> m.input; m.output -> tx; m.punt -> controller c; m.other -> controller d;
                controller c -> m.again; controller d -> m.again;
            }}"
        )
    };
    let [first, second] = ["first", "second"].map(|name| compiled(&text(name)));
    let (ports, _) = ports(Vec::new(), 0);
    let runs = Arc::new(Mutex::new(Vec::new()));
    let one = |name: &'static str| -> Named {
        let runs = runs.clone();
        let run = move |link: &mut Link| {
            let is_second = link.tables().table::<u32, u32>("m.second").is_ok();
            runs.lock().unwrap().push((name, is_second));
            if name == "c" && !is_second {
                return Err("the table is not there".into());
            }
            match link.receive(PATIENCE) {
                Event::Stop => Ok(()),
                other => Err(format!("{other:?}")),
            }
        };
        (name.into(), Box::new(Run(run)))
    };
    let options = options(EngineKind::NATIVE, 1, PollMode::Interrupt);
    let prepared = Instance::prepare_with(first, &options, &ports, vec![one("c"), one("d")]).unwrap();
    let mut instance = prepared.run().unwrap();
    let observer = instance.observer();
    let known = |name: &str| observer.controllers().into_iter().find(|own| own.name == name).unwrap();
    until("it is in a long pause", || known("c").failures == 7);
    let next = instance.next(&second, vec![one("c"), one("d")]).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(instance.take_over(next), [""; 0]);
    until("both run", || runs.lock().unwrap().iter().filter(|(_, is_second)| *is_second).count() == 2);
    let states = ["c", "d"].map(|name| (known(name).state, known(name).failures));
    assert_eq!(states, [(ControllerState::Running, 7), (ControllerState::Running, 0)]);
    whole(&instance.stop());
    // The other one was called once by each.
    assert_eq!(runs.lock().unwrap().iter().filter(|(name, _)| *name == "d").count(), 2);
}

//! TCP over a bad line: loss, reordering and duplication are not the switch's doing, and everything arrives whole.

use std::thread;
use std::time::{Duration, Instant};

use lab::{Direction, Impairments, L3Options, Loss, Reorder};

use crate::switch::{Network, PATIENCE, Switch, over_both};
use crate::transfer::{BYTES, connect, exchange, listen};

over_both!(tcp_transfers_arrive_whole_over_a_line_that_loses_doubles_and_reorders);

fn tcp_transfers_arrive_whole_over_a_line_that_loses_doubles_and_reorders(driver: &str) {
    let line = Impairments {
        rate: Some(400_000_000),
        delay: Duration::from_millis(2),
        loss: Loss::Random(0.01),
        duplicate: 0.005,
        reorder: Reorder { probability: 0.02, gap: 3, hold: Duration::from_millis(5) },
        ..Impairments::default()
    };
    let switch = Switch::start_in(
        driver,
        &Network { options: L3Options { line, ..L3Options::default() }, ..Network::default() },
    );
    let network = &switch.network;
    thread::scope(|scope| {
        // Routed, opened from either side, with data both ways.
        for (number, (client, server)) in [(1, 3), (3, 2)].into_iter().enumerate() {
            let listener = listen(network.host(server), 6000 + number as u16);
            let to = listener.local_addr().unwrap();
            let (a, b) = (30 + number as u64, 40 + number as u64);
            scope.spawn(move || exchange(listener.accept().unwrap().0, a, b));
            scope.spawn(move || exchange(connect(network.host(client), to), b, a));
        }
    });
    let line = network.line.as_ref().unwrap();
    let count = || [Direction::Forward, Direction::Backward].map(|direction| line.counters(0, direction));
    // The last acknowledgements are on their way for a while.
    let (mut counters, start) = (count(), Instant::now());
    loop {
        thread::sleep(Duration::from_millis(300));
        let now = count();
        if now == counters && now.iter().all(|counted| counted.in_flight == 0) {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "the hosts do not fall silent: {now:?}");
        counters = now;
    }
    for counted in counters {
        assert!(counted.sent_bytes > BYTES as u64, "{counted:?}");
        assert!(counted.lost > 0 && counted.duplicated > 0 && counted.reordered > 0, "{counted:?}");
    }
    let report = switch.stop();
    // What the line gave to p3 the switch got, and the other way round.
    assert_eq!(report.port("p3", "received") + report.port("p3", "lost in kernel"), counters[0].sent, "{report:?}");
    assert_eq!(report.port("p3", "sent"), counters[1].received + counters[1].overrun, "{report:?}");
    for reason in ["bad_checksum", "bad_total_length", "truncated", "no_route", "tx_failed"] {
        assert_eq!(report.dropped(reason), 0, "{report:?}");
    }
}

//! Connections over simulated paths: the rate is that of the model at each event, on every engine the same, and that of
//! the equation where the path does not change.

use super::model::Model;
use super::path::{Control, Event, Path};
use super::*;

impl Event {
    fn command(self, now: u64) -> Command {
        let command = |operation| Command { operation, now, ..Command::default() };
        match self {
            Event::Sent => command(SENT),
            Event::Limited => command(LIMITED),
            Event::Lost { packets, sent_at } => Command { packets, time: sent_at, ..command(LOST) },
            Event::Feedback { packets, bytes, rtt, delayed } => {
                Command { packets, bytes, time: rtt, delayed: delayed.into(), ..command(FEEDBACK) }
            }
            Event::Expired => command(EXPIRED),
        }
    }

    fn tell(self, model: &mut Model, now: f64) {
        match self {
            Event::Sent => model.sent(now),
            Event::Limited => model.limited(now),
            Event::Lost { packets, sent_at } => model.lost(packets.into(), sent_at as f64),
            Event::Feedback { packets, bytes, rtt, delayed } => {
                let rtt = (rtt != 0).then_some(rtt as f64);
                model.feedback(packets.into(), bytes.into(), rtt, delayed, now);
            }
            Event::Expired => model.expired(now),
        }
    }
}

/// What became of a connection.
struct Outcome {
    /// Times in seconds, and rates in bytes per second from then on.
    rates: Vec<(f64, f64)>,
    /// When packets were sent.
    sent: Vec<f64>,
    /// Of the events, in which part the model's rate was another one.
    astray: f64,
}

impl Outcome {
    /// The rate, on average from one second to another.
    fn mean(&self, from: f64, to: f64) -> f64 {
        let mut sum = 0.0;
        for (index, &(time, rate)) in self.rates.iter().enumerate() {
            let until = self.rates.get(index + 1).map_or(to, |next| next.0).min(to);
            sum += rate * (until - time.max(from)).max(0.0);
        }
        sum / (to - from)
    }

    /// Packets per second.
    fn packets(&self, from: f64, to: f64) -> f64 {
        self.sent.iter().filter(|time| (from..to).contains(*time)).count() as f64 / (to - from)
    }

    fn at(&self, time: f64) -> f64 {
        self.rates.iter().rev().find(|(from, _)| *from <= time).expect("a rate").1
    }
}

/// Runs the connection, with native code as its rate control, and compares that with the model and the other engines.
fn run(path: &Path) -> Outcome {
    let mut machine = Machine::new(EngineKind::NATIVE);
    let mut model = Model::new(f64::from(path.segment), None, 0.0);
    let start = Command { operation: START, segment: path.segment, ..Command::default() };
    let reply = machine.run(start);
    let mut told = vec![(start, reply)];
    let mut outcome = Outcome { rates: vec![(0.0, reply.rate as f64 / 64.0)], sent: Vec::new(), astray: 0.0 };
    let mut astray = 0u32;
    let control = |reply: Reply| Control { gap: reply.gap, timer: reply.timer };
    let mut tell = |event: Event, now: u64| {
        let command = event.command(now);
        let reply = machine.run(command);
        told.push((command, reply));
        event.tell(&mut model, now as f64);
        let (rate, timer) = (reply.rate as f64 / 64.0, reply.timer as f64);
        let close = apart(rate, model.x) < 0.01
            && apart(reply.paced as f64 / 64.0, model.x_inst) < 0.01
            && (reply.rtt as f64 - model.rtt.unwrap_or(0.0)).abs() < 20.0 + 0.001 * reply.rtt as f64
            && (timer - model.timer.unwrap_or(0.0)).abs() < 0.02 * 4e9
            && (reply.timer == 0) == model.timer.is_none();
        if !close {
            astray += 1;
        }
        let now = now as f64 / 1e9;
        if event == Event::Sent {
            outcome.sent.push(now);
        }
        outcome.rates.push((now, rate));
        control(reply)
    };
    path.run(&mut tell, control(reply));
    assert!(told.len() > 200, "only {} events", told.len());
    outcome.astray = f64::from(astray) / told.len() as f64;
    for engine in ENGINES {
        let mut machine = Machine::new(engine);
        for (index, (command, reply)) in told.iter().take(6000).enumerate() {
            assert_eq!(machine.run(*command), *reply, "{engine:?}, event {index}, {command:?}");
        }
    }
    assert!(outcome.astray < 0.01, "{} of {} events", outcome.astray, told.len());
    outcome
}

/// The equation's rate with a 1316-byte segment.
fn equation(rtt: f64, p: f64) -> f64 {
    model::throughput(1316.0, rtt, p)
}

#[test]
fn constant_loss_gives_the_rate_of_the_equation() {
    for (every, rtt, seconds) in
        [(1000, 0.1, 90), (100, 0.1, 60), (20, 0.1, 60), (100, 0.01, 20), (100, 0.4, 90), (7, 0.05, 90)]
    {
        let path = Path { rtts: vec![(0, (rtt * 1e9) as u64)], loss: every, seconds, ..Path::default() };
        let outcome = run(&path);
        let (from, to) = (seconds as f64 * 0.6, seconds as f64);
        let (found, exact) = (outcome.mean(from, to), equation(rtt, 1.0 / every as f64));
        // Packets further apart than acknowledgements are delayed leave few round trips to be measured.
        let close = if every == 7 { 0.1 } else { 0.01 };
        assert!(apart(found, exact) < close, "1 in {every}, {rtt} s: {found}, not {exact}");
        assert!(apart(outcome.packets(from, to) * 1316.0, found) < 0.03);
    }
}

#[test]
fn random_loss_gives_about_that_rate() {
    for (one_in, rtt) in [(1000, 0.1), (100, 0.1), (100, 0.2), (20, 0.05)] {
        let rtts = vec![(0, (rtt * 1e9) as u64)];
        let path = Path { rtts, loss: one_in, random: true, jitter: 1_000_000, seconds: 300, ..Path::default() };
        let outcome = run(&path);
        // Of losses in one round trip the first one counts: the rate of loss events is a little lower.
        let (found, exact) = (outcome.mean(60.0, 300.0), equation(rtt, 1.0 / one_in as f64));
        assert!((0.9..1.1).contains(&(found / exact)), "1 in {one_in}, {rtt} s: {found}, not {exact}");
    }
}

#[test]
fn the_first_round_trips_double_the_rate() {
    let outcome = run(&Path { seconds: 2, ..Path::default() });
    // A segment per second until the round trip is known (it may be delayed), then 4380 bytes in a round trip, as
    // segments of 1316 bytes are larger than 1095 and smaller than 2190.
    let start = outcome.sent[1];
    assert_eq!(outcome.at(0.05), 1316.0);
    assert!((0.1..0.15).contains(&start), "{start}");
    let initial = 4380.0 / start;
    assert!(apart(outcome.at(start + 0.01), initial) < 1e-3, "{}", outcome.at(start + 0.01));
    for trips in 2..6 {
        let rate = outcome.at(start + 0.14 * f64::from(trips) + 0.05);
        assert!(rate > initial * 1.5f64.powi(trips - 1) && rate <= initial * 2f64.powi(trips), "{trips}: {rate}");
    }
}

#[test]
fn a_loss_in_slow_start_leaves_about_the_rate_of_arrival() {
    // The bottleneck lets 1 Mbyte/s pass: the first packets that are lost are those that it has no room for.
    let outcome = run(&Path { bottleneck: vec![(0, 1_316_000)], seconds: 60, ..Path::default() });
    let after: Vec<f64> = outcome.rates.iter().map(|entry| entry.1).collect();
    let most = after.iter().copied().fold(0.0, f64::max);
    assert!((1e6..4.1e6).contains(&most), "{most}");
    let mean = outcome.mean(20.0, 60.0);
    assert!((0.7e6..1.1e6).contains(&mean), "{mean}");
    // Of what the bottleneck lets pass little is left, and the rate is smooth.
    let sent = outcome.packets(20.0, 60.0) * 1316.0;
    assert!(sent > 0.75e6, "{sent}");
}

#[test]
fn the_rate_follows_the_bottleneck() {
    // 2 Mbyte/s, then a quarter of that, then all again.
    let bottleneck = vec![(0, 658_000), (40_000_000_000, 2_632_000), (80_000_000_000, 658_000)];
    let outcome = run(&Path { bottleneck, seconds: 140, ..Path::default() });
    for (from, to, least, most) in [(25.0, 40.0, 1.2e6, 2.1e6), (50.0, 80.0, 0.3e6, 0.55e6), (125.0, 140.0, 1e6, 2.1e6)]
    {
        let found = outcome.mean(from, to);
        assert!((least..most).contains(&found), "from {from} s: {found}");
    }
}

#[test]
fn the_rate_follows_the_round_trip() {
    let rtts = vec![(0, 50_000_000), (40_000_000_000, 200_000_000), (90_000_000_000, 20_000_000)];
    let outcome = run(&Path { rtts, loss: 100, seconds: 120, ..Path::default() });
    for (from, to, rtt) in [(30.0, 40.0, 0.05), (75.0, 90.0, 0.2), (110.0, 120.0, 0.02)] {
        let (found, exact) = (outcome.mean(from, to), equation(rtt, 0.01));
        assert!(apart(found, exact) < 0.03, "{rtt} s: {found}, not {exact}");
    }
    // It is 0.9 of the way in 22 round trips.
    let (soon, exact) = (outcome.mean(46.0, 50.0), equation(0.2, 0.01));
    assert!(apart(soon, exact) < 0.25, "{soon}, not {exact}");
}

#[test]
fn an_application_that_sends_less_is_not_held_back() {
    // 100 packets per second, of a rate that the equation lets be above 400.
    let steady = run(&Path { loss: 2000, application: vec![(0, 10_000_000)], seconds: 60, ..Path::default() });
    assert!(apart(steady.packets(10.0, 60.0), 100.0) < 0.02, "{}", steady.packets(10.0, 60.0));
    assert!(steady.at(59.0) > 131_600.0 * 1.5, "{}", steady.at(59.0));
    // After ten slow seconds, and after ten without a packet, it has its rate at once, or soon.
    let application = vec![
        (0, 10_000_000),
        (20_000_000_000, 200_000_000),
        (30_000_000_000, 10_000_000),
        (50_000_000_000, u64::MAX),
        (60_000_000_000, 10_000_000),
    ];
    let outcome = run(&Path { loss: 2000, application, seconds: 80, ..Path::default() });
    for (from, least) in [(12.0, 98.0), (31.0, 90.0), (35.0, 98.0), (62.0, 90.0), (65.0, 98.0)] {
        let found = outcome.packets(from, from + 4.0);
        assert!(found > least, "{from} s: {found}");
    }
    assert!(outcome.packets(51.0, 60.0) < 1.0);
    // But what is not sent says nothing of the network either: no rate grows without bound.
    assert!(outcome.rates.iter().all(|entry| entry.1 < 131_600.0 * 20.0));
}

#[test]
fn without_acknowledgements_the_rate_halves_until_they_come_back() {
    let blackout = (20_000_000_000, 25_000_000_000);
    let outcome = run(&Path { loss: 100, blackout, seconds: 60, ..Path::default() });
    let before = outcome.mean(15.0, 20.0);
    let during = outcome.at(24.9);
    assert!(during < before / 100.0, "{before} {during}");
    let after = outcome.mean(50.0, 60.0);
    assert!(apart(after, before) < 0.1, "{before} {after}");
}

#[test]
fn a_lost_acknowledgement_of_a_slow_stream_does_not_hold_it_back() {
    // Two packets a second: a timer finds lost the second one, as its acknowledgement is, with nothing delivered since
    // the first. That of the same packet, sent again, comes sooner than others have.
    for rtt in [125_000, 1_000_000, 30_000_000] {
        let rtts = vec![(0, rtt), (700_000_000, rtt / 8)];
        let application = vec![(0, 500_000_000)];
        let blackout = (400_000_000, 600_000_000);
        let outcome = run(&Path { rtts, application, blackout, seconds: 180, ..Path::default() });
        let found = outcome.packets(3.0, 180.0);
        assert!(found > 1.95, "{rtt} ns: {found} packets a second");
    }
}

#[test]
fn short_round_trips_and_delayed_acknowledgements() {
    // A stream of 4 Mbit/s on a network with a round trip of 20 µs, and 40 ms of delay for the last packets of bursts.
    let rtts = vec![(0, 20_000)];
    let application = vec![(0, 2_632_000), (10_000_000_000, 100_000_000), (20_000_000_000, 2_632_000)];
    let outcome = run(&Path { rtts, loss: 500, application, seconds: 40, ..Path::default() });
    for (from, to, exact) in [(1.0, 10.0, 379.9), (11.0, 20.0, 10.0), (21.0, 40.0, 379.9)] {
        let found = outcome.packets(from, to);
        assert!((0.98..1.05).contains(&(found / exact)), "{found}, not {exact}");
    }
    // And one of two seconds.
    let rtts = vec![(0, 2_000_000_000)];
    let outcome = run(&Path { rtts, loss: 50, seconds: 600, ..Path::default() });
    let (found, exact) = (outcome.mean(400.0, 600.0), equation(2.0, 0.02));
    assert!(apart(found, exact) < 0.03, "{found}, not {exact}");
}

#[test]
fn hostile_numbers_do_no_harm() {
    let mut n = SplitMix64(0x4057);
    let mut machines = Machine::all();
    for _ in 0..40 {
        let segment = n.bits(16) as u16;
        let mut now = n.bits(40);
        let mut commands = vec![Command { operation: START, segment, time: n.bits(64), now, ..Command::default() }];
        for _ in 0..40 {
            // Time goes on, mostly.
            now = match n.below(8) {
                0 => n.bits(64),
                1 => now.wrapping_sub(n.below(1_000_000)),
                _ => now.wrapping_add(n.next() >> n.below(64)),
            };
            commands.push(Command {
                operation: SENT + n.below(6) as u8,
                delayed: n.below(2) as u8,
                segment: n.bits(16) as u16,
                packets: n.bits(32) as u32,
                bytes: n.bits(32) as u32,
                time: if n.below(2) == 0 { n.bits(64) } else { now.wrapping_sub(n.next() >> n.below(64)) },
                now,
                ..Command::default()
            });
        }
        for command in commands {
            let replies: Vec<Reply> = machines.iter_mut().map(|machine| machine.run(command)).collect();
            let reply = replies[0];
            assert!(replies.iter().all(|other| *other == reply), "{command:?}: {replies:?}");
            // Not above any rate, nor below a segment in 64 seconds.
            assert!(
                (1..=1 << 41).contains(&reply.rate) && (1..=1 << 41).contains(&reply.paced),
                "{command:?} {reply:?}"
            );
            assert!(reply.gap <= 65_000_000_000 && reply.rtt <= 60_000_000_000, "{command:?} {reply:?}");
            assert!(reply.ppm <= 1_000_000 && reply.open <= 0xff_ffff, "{command:?} {reply:?}");
            let resized =
                machines.iter_mut().map(|machine| machine.run(Command { operation: RESIZE, ..command })).last();
            assert!(resized.is_some_and(|reply| reply.rate >= u64::from(command.segment)), "{command:?}");
        }
    }
}

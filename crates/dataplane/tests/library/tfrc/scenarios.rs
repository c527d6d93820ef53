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
            if std::env::var_os("SHOW").is_some() && astray < 6 {
                println!("{now} {event:?}: {reply:?} model x {} inst {} rtt {:?} timer {:?} open {} {:?}", model.x, model.x_inst, model.rtt, model.timer, model.open, model.intervals);
            }
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
    println!("{} events, {} packets, {:.4} astray", told.len(), outcome.sent.len(), outcome.astray);
    outcome
}

/// The equation's rate with a 1316-byte segment.
fn equation(rtt: f64, p: f64) -> f64 {
    model::throughput(1316.0, rtt, p)
}

#[test]
fn constant_loss_gives_the_rate_of_the_equation() {
    for (every, rtt) in [(1000, 0.1), (100, 0.1), (20, 0.1), (100, 0.01), (100, 0.4), (7, 0.05)] {
        let path = Path { rtts: vec![(0, (rtt * 1e9) as u64)], loss: every, seconds: 90, ..Path::default() };
        let outcome = run(&path);
        let (found, exact) = (outcome.mean(60.0, 90.0), equation(rtt, 1.0 / every as f64));
        println!("1 in {every}, {rtt} s: {found:.0} B/s, equation {exact:.0}, sent {:.0}", outcome.packets(60.0, 90.0) * 1316.0);
        assert!(apart(found, exact) < 0.05, "1 in {every}, {rtt} s: {found}, not {exact}");
        assert!(outcome.astray < 0.01, "{}", outcome.astray);
    }
}

//! Rate control and round trips (`tcp/tfrc`, `tcp/rtt`, `tcp/throughput`) against RFC 5348 and RFC 6298 in floating
//! point, on every engine.

mod model;
mod path;
mod scenarios;

use super::keeping::SplitMix64;
use super::*;

/// Does what a packet says, to one connection, and writes into it what came of that.
const PROGRAM: &str = "
import \"net/ether\";
import \"math/sqrt\";
import \"tcp/rtt\";
import \"tcp/tfrc\";

protocol command {
    operation : 8;
    delayed : 8;
    segment : 16;
    packets : 32;
    bytes : 32;
    time : 64;
    number : 64;
    now : 64;
    demux { 36 };
}

protocol reply {
    result : 64;
    rate : 64;
    paced : 64;
    rtt : 64;
    timer : 64;
    ppm : 32;
    gap : 64;
    srtt : 32;
    rttvar : 32;
    open : 32;
    demux { 64 };
}

module m {
    in  ether input;
    out ether output;
    array<tfrc_t> rates[1];
    array<tcp_rtt_t> rtts[1];

    ppf work(ether_packet_t *pkt) from input {
        command_packet_t *c = packet_peek(pkt);
        reply_packet_t *r = packet_peek(c);
        tfrc_t *rate = rates[0];
        tcp_rtt_t *rtt = rtts[0];
        critical (rate) {
            tfrc_t t = *rate;
            switch (c->operation) {
            case 0:
                r->result = sqrt64(c->time);
            case 1:
                r->result = tcp_throughput(c->segment, c->time, c->number);
            case 2:
                r->result = tcp_throughput_interval(c->segment, c->time, c->number);
            case 3:
                r->result = tcp_rate(c->bytes, c->time);
            case 4:
                *rtt = tcp_rtt_t { srtt: 0, rttvar: 0 };
            case 5:
                *rtt = tcp_rtt_sample(*rtt, c->packets);
                r->result = tcp_rtt_smoothed(*rtt);
            case 6:
                r->result = tcp_rto(*rtt, c->delayed);
            case 7:
                t.intervals = 0;
                t.open = 0;
            case 8:
                t = tfrc_add_interval(t, c->packets);
            case 9:
                t = tfrc_count(t, c->packets);
                r->result = tfrc_mean_interval(t);
            case 10:
                t = tfrc_start(c->segment, c->time, c->now);
            case 11:
                t = tfrc_sent(t, c->now);
            case 12:
                t = tfrc_limited(t, c->now);
            case 13:
                t = tfrc_lost(t, c->packets, c->time);
            case 14:
                t = tfrc_feedback(t, c->packets, c->bytes, c->time, c->delayed != 0, c->now);
            case 15:
                t = tfrc_expired(t, c->now);
            case 16:
                t = tfrc_resize(t, c->segment);
            }
            r->rate = t.rate;
            r->paced = t.paced;
            r->rtt = t.rtt;
            r->timer = t.timer;
            r->ppm = tfrc_loss_ppm(t);
            r->gap = tfrc_gap(t, t.segment);
            r->open = t.open;
            r->srtt = rtt->srtt;
            r->rttvar = rtt->rttvar;
            *rate = t;
        }
        channel_put(output, pkt);
    }
}

program { rx -> m.input; m.output -> tx; }
";

/// What a packet says; the fields are those of the protocol.
#[derive(Clone, Copy, Debug, Default)]
struct Command {
    operation: u8,
    delayed: u8,
    segment: u16,
    packets: u32,
    bytes: u32,
    time: u64,
    number: u64,
    now: u64,
}

const SQRT: u8 = 0;
const THROUGHPUT: u8 = 1;
const INTERVAL: u8 = 2;
const RATE: u8 = 3;
const RTT_NEW: u8 = 4;
const RTT_SAMPLE: u8 = 5;
const RTO: u8 = 6;
const LOSSES_NEW: u8 = 7;
const LOSSES_ADD: u8 = 8;
const LOSSES_MEAN: u8 = 9;
const START: u8 = 10;
const SENT: u8 = 11;
const LIMITED: u8 = 12;
const LOST: u8 = 13;
const FEEDBACK: u8 = 14;
const EXPIRED: u8 = 15;
const RESIZE: u8 = 16;

/// What came of it: the result, and the connection's state then. Rates are in 1/64 byte per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Reply {
    result: u64,
    rate: u64,
    paced: u64,
    rtt: u64,
    timer: u64,
    ppm: u32,
    gap: u64,
    srtt: u32,
    rttvar: u32,
    open: u32,
}

/// The program on an engine.
struct Machine(Stepper);

impl Machine {
    fn new(engine: EngineKind) -> Machine {
        Machine(Stepper::new(lengths::whole(PROGRAM), engine).expect("an engine"))
    }

    /// On each of the engines.
    fn all() -> Vec<Machine> {
        let program = lengths::whole(PROGRAM);
        ENGINES.iter().map(|&engine| Machine(Stepper::new(program.clone(), engine).expect("an engine"))).collect()
    }

    fn run(&mut self, command: Command) -> Reply {
        let Command { operation, delayed, segment, packets, bytes, time, number, now } = command;
        let mut packet = vec![0; 14];
        packet.extend([operation, delayed]);
        packet.extend(segment.to_be_bytes());
        packet.extend([packets, bytes].iter().flat_map(|word| word.to_be_bytes()));
        packet.extend([time, number, now].iter().flat_map(|word| word.to_be_bytes()));
        packet.extend([0; 64]);
        let outputs = self.0.receive(1, &packet);
        let [output] = &outputs[..] else { panic!("{} packets came out", outputs.len()) };
        let mut at = 50;
        let mut next = |bytes: usize| {
            at += bytes;
            output.bytes[at - bytes..at].iter().fold(0u64, |number, &byte| number << 8 | u64::from(byte))
        };
        Reply {
            result: next(8),
            rate: next(8),
            paced: next(8),
            rtt: next(8),
            timer: next(8),
            ppm: next(4) as u32,
            gap: next(8),
            srtt: next(4) as u32,
            rttvar: next(4) as u32,
            open: next(4) as u32,
        }
    }

    fn result(&mut self, command: Command) -> u64 {
        self.run(command).result
    }
}

/// How much two numbers differ, in parts of the second.
fn apart(a: f64, b: f64) -> f64 {
    (a / b - 1.0).abs()
}

#[test]
fn square_roots_are_exact() {
    let mut n = SplitMix64(0x5417);
    let near = (0..64).flat_map(|bit| [(1u64 << bit).wrapping_sub(1), 1 << bit, (1 << bit) + 1]);
    let squares = (0..300).flat_map(|i| {
        let root = if i < 16 { i } else { n.next() >> 32 >> n.below(32) };
        [root * root, (root * root).wrapping_sub(1), root * root + 2 * root]
    });
    let numbers: Vec<u64> = near.chain(squares).chain([u64::MAX, u64::MAX - 1, 0xffff_fffe_0000_0001]).collect();
    for mut machine in Machine::all() {
        for &time in &numbers {
            let root = machine.result(Command { operation: SQRT, time, ..Command::default() });
            assert_eq!(root, time.isqrt(), "of {time}");
        }
    }
}

/// Segments, round trips in seconds and loss event rates, over the whole range.
fn grid() -> Vec<(u16, f64, f64)> {
    let segments = [188u16, 376, 536, 1316, 1460, 8948];
    let rtts = (0..=20).map(|i| 20e-6 * 1e5f64.powf(f64::from(i) / 20.0));
    let rates: Vec<f64> = (0..=60).map(|i| 1e-6f64.powf(f64::from(i) / 60.0)).collect();
    rtts.flat_map(|rtt| {
        let rates = rates.clone();
        segments.iter().flat_map(move |&segment| rates.clone().into_iter().map(move |p| (segment, rtt, p)))
    })
    .collect()
}

#[test]
fn throughput_is_that_of_the_equation() {
    // The error of rates from 64 times the least one on, and of all.
    let (mut worst, mut worst_of_all) = (0f64, 0f64);
    let grid = grid();
    for mut machine in Machine::all() {
        for &(segment, rtt, p) in &grid {
            let (time, number) = ((rtt * 1e9) as u64, (256.0 / p).round() as u64);
            let rate = machine.result(Command { operation: THROUGHPUT, segment, time, number, ..Command::default() });
            let exact = 64.0 * model::throughput(f64::from(segment), time as f64 / 1e9, 256.0 / number as f64);
            if exact > 2f64.powi(41) {
                assert_eq!(rate, 1 << 41);
                continue;
            }
            let error = apart(rate as f64, exact);
            // Less than a segment in 64 seconds is never sent.
            if exact >= f64::from(segment) {
                worst_of_all = worst_of_all.max(error);
            }
            if exact >= 64.0 * f64::from(segment) {
                worst = worst.max(error);
            }
        }
    }
    assert!(worst < 1e-4 && worst_of_all < 5.5e-3, "{worst} and {worst_of_all}");
}

#[test]
fn throughput_grows_with_the_interval_and_bears_anything() {
    for mut machine in Machine::all() {
        let mut rate = |segment, time, number| {
            machine.result(Command { operation: THROUGHPUT, segment, time, number, ..Command::default() })
        };
        for (segment, rtt) in [(188, 60_000_000_000), (1316, 100_000_000), (8948, 20_000), (65535, 0), (0, 1)] {
            let mut before = 0;
            for bit in 0..64 {
                let now = rate(segment, rtt, 1 << bit);
                assert!(now >= before && now <= 1 << 41, "{segment} {rtt} {bit}: {before} {now}");
                before = now;
            }
        }
        assert_eq!(rate(1316, 0, 1 << 20), rate(1316, 1000, 1 << 20));
        assert_eq!(rate(1316, u64::MAX, 1 << 20), rate(1316, 60_000_000_000, 1 << 20));
        assert_eq!(rate(1316, 1 << 20, 0), rate(1316, 1 << 20, 256));
        assert_eq!(rate(1316, 1 << 20, u64::MAX), rate(1316, 1 << 20, 0xffff_ffff));
    }
}

#[test]
fn intervals_are_the_inverse_of_throughput() {
    let grid: Vec<_> = grid().into_iter().step_by(13).collect();
    for mut machine in Machine::all() {
        for &(segment, rtt, p) in &grid {
            let rate = model::throughput(f64::from(segment), rtt, p) * 64.0;
            // Of such as a segment in a second and more, and possible.
            if rate < 64.0 * f64::from(segment) || rate > 2f64.powi(41) {
                continue;
            }
            let (time, number) = ((rtt * 1e9) as u64, rate as u64);
            let interval =
                machine.result(Command { operation: INTERVAL, segment, time, number, ..Command::default() }) as f64;
            // The interval is a whole number of 1/256 packets, with eight digits. That is within 5 % of the rate.
            let error = 1.0 - interval * p / 256.0;
            assert!((-1e-3..1.0 / 128.0 + 0.005 * p).contains(&error), "{interval} {p}");
            let again = Command { operation: THROUGHPUT, segment, time, number: interval as u64, ..Command::default() };
            assert!(apart(machine.result(again) as f64, rate) < 0.05, "{segment} {rtt} {p}");
        }
        let mut interval = |segment, time, number| {
            machine.result(Command { operation: INTERVAL, segment, time, number, ..Command::default() })
        };
        assert_eq!(interval(1316, 100_000_000, 0), 256);
        assert_eq!(interval(1316, 100_000_000, u64::MAX), 0xff00_0000);
        assert_eq!(interval(0, 0, 0), 0xff00_0000);
    }
}

#[test]
fn rates_are_bytes_by_time() {
    let mut n = SplitMix64(0x4a7e);
    let cases: Vec<(u32, u64)> = (0..300).map(|_| (n.bits(32) as u32, (n.next() >> n.below(60)).max(1000))).collect();
    for mut machine in Machine::all() {
        for &(bytes, time) in &cases {
            let rate = machine.result(Command { operation: RATE, bytes, time, ..Command::default() });
            let exact = (u128::from(bytes) * 64_000_000_000 / u128::from(time)).min(1 << 41) as u64;
            assert!(exact - rate < 64 && (bytes >= 1 << 27 || exact == rate), "{bytes} {time}: {rate} not {exact}");
        }
    }
}

/// RFC 6298 in floating point, in microseconds.
fn rtt_model(state: Option<(f64, f64)>, sample: f64) -> (f64, f64) {
    let Some((srtt, rttvar)) = state else { return (sample, sample / 2.0) };
    (7.0 / 8.0 * srtt + sample / 8.0, 3.0 / 4.0 * rttvar + (srtt - sample).abs() / 4.0)
}

#[test]
fn round_trips_are_smoothed_as_in_rfc_6298() {
    let mut n = SplitMix64(0x6298);
    // Levels between which the round trip steps, in microseconds.
    let samples: Vec<u32> = [20u32, 300, 20_000, 100_000, 2_000_000, 40, 60_000_000, 1, 5_000]
        .iter()
        .flat_map(|&level| (0..60).map(move |i| (level, i)))
        .map(|(level, _)| (level - level / 8 + n.below(u64::from(level / 4) + 1) as u32).min(60_000_000))
        .collect();
    for mut machine in Machine::all() {
        machine.run(Command { operation: RTT_NEW, ..Command::default() });
        let first = machine.result(Command { operation: RTO, ..Command::default() });
        assert_eq!(first, 1_000_000);
        let mut state = None;
        for &packets in &samples {
            let smoothed = machine.run(Command { operation: RTT_SAMPLE, packets, ..Command::default() });
            let (srtt, rttvar) = rtt_model(state, f64::from(packets));
            state = Some((srtt, rttvar));
            // Rounding takes half of 1/8 and 1/4 of a microsecond at each step, of which the filter keeps 8 and 4; and
            // the variation is that of a whole number.
            assert!((f64::from(smoothed.srtt) / 8.0 - srtt).abs() < 1.0, "{smoothed:?} {srtt}");
            assert!((f64::from(smoothed.rttvar) / 4.0 - rttvar).abs() < 2.5, "{smoothed:?} {rttvar}");
            assert!((smoothed.result as f64 - srtt).abs() < 2.0);
            for delayed in [0, 1, 3, 255] {
                let rto = machine.result(Command { operation: RTO, delayed, ..Command::default() }) as f64;
                let base = (srtt + (4.0 * rttvar).max(1.0)).max(200_000.0);
                let exact = (base * 2f64.powi(i32::from(delayed))).min(60e6);
                assert!((rto - exact).abs() < 12.0 * 2f64.powi(i32::from(delayed.min(8))), "{rto} {exact}");
            }
        }
        // What no path has, and what is measured on none.
        machine.run(Command { operation: RTT_NEW, ..Command::default() });
        for packets in [0, 0, u32::MAX, u32::MAX, 0] {
            let state = machine.run(Command { operation: RTT_SAMPLE, packets, ..Command::default() });
            assert!(state.srtt != 0 && state.srtt <= 8 * 60_000_000, "{state:?}");
            assert!(machine.result(Command { operation: RTO, delayed: 255, ..Command::default() }) == 60_000_000);
        }
    }
}

#[test]
fn mean_intervals_are_weighted_as_in_section_5_4() {
    let mut n = SplitMix64(0x1055);
    for _ in 0..20 {
        let lengths: Vec<u32> = (0..1 + n.below(12)).map(|_| (n.next() as u32 >> n.below(31)).max(1)).collect();
        let opens: Vec<u32> = (0..4).map(|_| n.next() as u32 >> 8 >> n.below(24)).collect();
        for mut machine in Machine::all() {
            for count in 1..=lengths.len() {
                machine.run(Command { operation: LOSSES_NEW, ..Command::default() });
                for &packets in &lengths[..count] {
                    machine.run(Command { operation: LOSSES_ADD, packets, ..Command::default() });
                }
                let history: Vec<f64> = lengths[..count].iter().rev().map(|&l| f64::from(l) / 256.0).collect();
                let mut open = 0u32;
                for &packets in &opens {
                    let mean = machine.result(Command { operation: LOSSES_MEAN, packets, ..Command::default() });
                    open = open.saturating_add(packets).min(0xff_ffff);
                    let exact = model::mean_interval(f64::from(open), &history);
                    assert!((mean as f64 / 256.0 - exact).abs() <= 1.0 / 256.0, "{mean} {exact} {open} {history:?}");
                }
            }
        }
    }
}

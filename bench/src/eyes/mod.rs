//! `bench eyes`: what it costs to look. The L3 switch forwards at full rate in the kernel while a monitoring system
//! scrapes it each second, the web page is open, and packets are traced; or while one packet in 1000 is sampled for a
//! collector of sFlow; or while it is measured how long packets are in PPFs; against the same without anybody who
//! looks.
//! Then a splicer with many connections is looked at ([`sessions`]).

mod sessions;
mod watchers;

use std::thread;
use std::time::{Duration, Instant};

use control::socket::{Client, MAX_TIMING, Reloaded, Request, Status, Timing};
use lab::{LinkConfig, Running, mac_text};
use serde_json::Value as Json;

use crate::frames::{ethernet, frame, ipv4, udp};
use crate::results::Results;
use crate::veth::{PORTS, bytes};
use crate::web::line::Scratch;
use crate::xdp::line::{Counted, Line};
use crate::{Effort, text};
use watchers::Watchers;

const CASE: &str = "all eyes open";
const SAMPLED: &str = "one packet in 1000 sampled";
const TIMED: &str = "times measured";
/// Where nobody listens: what is measured is the instance.
const SFLOW: &str = "[sflow]\ncollectors = [\"127.0.0.1\"]\n";
const SYSTEM: &str = "millrace";
/// Packets that are traced in each window.
const TRACED: u32 = 1000;
/// Where the instance is looked at, in its namespace.
const METRICS: u16 = 9481;
const WEB: u16 = 9480;

/// Until times are measured no more.
const PATIENCE: Duration = Duration::from_secs(10);

/// The switch's addresses, and those of the hosts.
const ROUTERS: [u64; 2] = [0x02_00_00_00_01_01, 0x02_00_00_00_02_01];
const HOSTS: [u64; 2] = [0x02_00_00_00_00_11, 0x02_00_00_00_00_13];
const ADDRESSES: [u32; 2] = [0x0a00_010b, 0x0a00_020d];

/// Runs it.
pub fn run(effort: Effort) -> Result<Results, String> {
    let mut results = Results::default();
    if !lab::has_privileges().map_err(text)? {
        results.note("not measured, it needs root");
        return Ok(results);
    }
    let (rounds, window) = if effort.quick { (1, 300) } else { (7, 3000) };
    let window = Duration::from_millis(window);
    let scratch = Scratch::new()?;
    let mut line = Line::new([LinkConfig::port(), LinkConfig::port()], false)?;
    let (mut instance, socket) = start(&line, &scratch)?;
    let payload = udp(1, 2, &[0; 18]);
    let frames = [frame(ethernet(ROUTERS[0], HOSTS[0], 0x0800), &ipv4(ADDRESSES[0], ADDRESSES[1], 17, &payload))];
    let (mut unseen, mut traced, mut samples, mut times) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let [mut with_eyes, mut with_samples, mut with_times] = [(); 3].map(|()| Windows::default());
    for _ in 0..rounds {
        let alone = line.forward(&frames, window)?;
        let watchers = Watchers::start(&line.system, METRICS, WEB)?;
        let mut client = Client::connect(socket.as_ref()).map_err(text)?;
        watchers::trace(&mut client, TRACED)?;
        let watched = line.forward(&frames, window)?;
        traced.push(watchers::traced(&mut client)?);
        watchers.stop()?;
        let alone = rate(&alone);
        unseen.push(alone);
        with_eyes.note(&watched, alone);
        let (counted, of_1000) = sampled(&mut client, &scratch, || line.forward(&frames, window))?;
        with_samples.note(&counted, alone);
        samples.push(of_1000);
        let (counted, time) = timed(&mut client, || line.forward(&frames, window))?;
        with_times.note(&counted, alone);
        times.push(time);
        if let Some(status) = instance.ended().map_err(text)? {
            return Err(format!("the switch has ended: {status}"));
        }
    }
    results.add(CASE, "nobody looks", "mpps", "million packets/s", unseen);
    with_eyes.add(&mut results, CASE);
    results.add(CASE, SYSTEM, "packets_traced", "in a window", traced);
    with_samples.add(&mut results, SAMPLED);
    results.add(SAMPLED, SYSTEM, "samples_per_1000", "samples of 1000 packets", samples);
    with_times.add(&mut results, TIMED);
    results.add(TIMED, SYSTEM, "ns_per_packet", "ns in PPFs, of a packet", times);
    drop((instance, line));
    sessions::measure(effort, &mut results)?;
    Ok(results)
}

/// Millions of packets that arrived in a second.
fn rate(counted: &Counted) -> f64 {
    counted.arrived as f64 / counted.seconds / 1e6
}

/// Windows of one kind, each against one in which nobody looks.
#[derive(Default)]
struct Windows {
    rates: Vec<f64>,
    losses: Vec<f64>,
    lost: Vec<f64>,
}

impl Windows {
    /// Notes one, with the rate of the other.
    fn note(&mut self, counted: &Counted, alone: f64) {
        self.rates.push(rate(counted));
        self.losses.push(100.0 * (1.0 - rate(counted) / alone));
        self.lost.push((counted.sent - counted.arrived) as f64);
    }

    fn add(self, results: &mut Results, case: &str) {
        results.add(case, SYSTEM, "mpps", "million packets/s", self.rates);
        results.add(case, SYSTEM, "rate_loss_percent", "percent less than where nobody looks", self.losses);
        results.add(case, SYSTEM, "packets_lost", "of those sent in a window", self.lost);
    }
}

/// A window in which packets are sampled, and samples of 1000 packets.
fn sampled(
    client: &mut Client,
    scratch: &Scratch,
    forward: impl FnOnce() -> Result<Counted, String>,
) -> Result<(Counted, f64), String> {
    put_in_force(client, scratch, SFLOW)?;
    let counted = forward()?;
    let status: Status = client.ask(&Request::Status).map_err(text)?;
    let samples = status.sflow.map_or(0, |own| own.samples) as f64 * 1e3 / counted.sent as f64;
    put_in_force(client, scratch, "")?;
    Ok((counted, samples))
}

/// A window in which it is measured how long packets are in PPFs, and how long they are in all of them, on average.
fn timed(client: &mut Client, forward: impl FnOnce() -> Result<Counted, String>) -> Result<(Counted, f64), String> {
    let mut ask = |request: &Request| client.ask::<Json>(request).map_err(text);
    ask(&Request::TimingStart { seconds: MAX_TIMING })?;
    let counted = forward()?;
    let timing: Timing = serde_json::from_value(ask(&Request::TimingShow)?).map_err(text)?;
    ask(&Request::TimingStop)?;
    let end = Instant::now() + PATIENCE;
    while ask(&Request::TimingShow)?["left_ms"] != 0 {
        if Instant::now() > end {
            return Err("times are still measured".into());
        }
        thread::sleep(Duration::from_millis(20));
    }
    let all: u64 = timing.ppfs.iter().map(|own| own.times.total_ns).sum();
    let seen = timing.ppfs.iter().map(|own| own.times.count).max().unwrap_or_default();
    if seen < counted.arrived {
        return Err(format!("times of {seen} packets, where {} arrived", counted.arrived));
    }
    Ok((counted, all as f64 / seen as f64))
}

/// Has the switch read its configuration again, with more in it.
fn put_in_force(client: &mut Client, scratch: &Scratch, more: &str) -> Result<(), String> {
    scratch.write("eyes.toml", &(configuration() + more))?;
    client.ask::<Reloaded>(&Request::Reload).map_err(text).map(drop)
}

/// The L3 switch between source and sink, and its control socket.
fn start(line: &Line, scratch: &Scratch) -> Result<(Running, String), String> {
    let program = crate::millrace_beside()?;
    let config = scratch.write("eyes.toml", &configuration())?;
    let socket = scratch.0.join("eyes.sock").display().to_string();
    let (metrics, web) = (METRICS.to_string(), WEB.to_string());
    let ways = ["run", "l3switch", "-c", &config, "--socket", &socket, "--metrics", &metrics, "--web", &web];
    let mut instance = line.system.command(&program).args(ways).spawn().map_err(text)?;
    instance.wait_for_start(Duration::from_secs(60)).map_err(text)?;
    Ok((instance, socket))
}

fn configuration() -> String {
    let mac = |address: u64| mac_text(bytes(address));
    let ([near, far], [_, host]) = (ROUTERS.map(mac), HOSTS.map(mac));
    format!(
        "[ports]
p1 = {{ number = 1, device = \"xdp:{}\" }}
p2 = {{ number = 2, device = \"xdp:{}\" }}
[tables.l3_switch]
domains = {{ p1 = 1, p2 = 2 }}
mac_addrs = {{ p1 = \"{near}\", p2 = \"{far}\" }}
[tables.l2_bridge]
members = {{ 1 = [\"p1\"], 2 = [\"p2\"] }}
[[tables.l2_bridge.stations]]
key = {{ domain = 2, mac = \"{host}\" }}
value = {{ port = \"p2\", heard = 0 }}
[tables.l3_forward]
fib = {{ \"10.0.1.0/24\" = 1, \"10.0.2.0/24\" = 2 }}
[tables.l3_forward.next_hops]
1 = {{ domain = 1, gateway = \"0.0.0.0\", src = \"{near}\" }}
2 = {{ domain = 2, gateway = \"0.0.0.0\", src = \"{far}\" }}
[tables.l3_forward.neighbours]
\"10.0.2.13\" = {{ mac = \"{host}\", heard = 0 }}
",
        PORTS[0], PORTS[1]
    )
}

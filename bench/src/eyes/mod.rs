//! `bench eyes`: what it costs to look. The L3 switch forwards at full rate in the kernel while a monitoring system
//! scrapes it each second, the web page is open, and packets are traced; or while one packet in 1000 is sampled for a
//! collector of sFlow; against the same without anybody who looks.
//! Then a splicer with many connections is looked at ([`sessions`]).

mod sessions;
mod watchers;

use std::time::Duration;

use control::socket::{Client, Reloaded, Request, Status};
use lab::{LinkConfig, Running, mac_text};

use crate::frames::{ethernet, frame, ipv4, udp};
use crate::results::Results;
use crate::veth::{PORTS, bytes};
use crate::web::line::Scratch;
use crate::xdp::line::{Counted, Line};
use crate::{Effort, text};
use watchers::Watchers;

const CASE: &str = "all eyes open";
const SAMPLED: &str = "one packet in 1000 sampled";
/// Where nobody listens: what is measured is the instance.
const SFLOW: &str = "[sflow]\ncollectors = [\"127.0.0.1\"]\n";
const SYSTEM: &str = "millrace";
/// Packets that are traced in each window.
const TRACED: u32 = 1000;
/// Where the instance is looked at, in its namespace.
const METRICS: u16 = 9481;
const WEB: u16 = 9480;

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
    let (mut losses, mut lost, mut traced, mut rates) = (Vec::new(), Vec::new(), Vec::new(), [Vec::new(), Vec::new()]);
    let mut sampled = Sampled::default();
    for _ in 0..rounds {
        let alone = line.forward(&frames, window)?;
        let watchers = Watchers::start(&line.system, METRICS, WEB)?;
        let mut client = Client::connect(socket.as_ref()).map_err(text)?;
        watchers::trace(&mut client, TRACED)?;
        let watched = line.forward(&frames, window)?;
        traced.push(watchers::traced(&mut client)?);
        watchers.stop()?;
        losses.push(100.0 * (1.0 - rate(&watched) / rate(&alone)));
        lost.push((watched.sent - watched.arrived) as f64);
        rates[0].push(rate(&alone));
        rates[1].push(rate(&watched));
        sampled.measure(&mut client, &scratch, (rate(&alone), || line.forward(&frames, window)))?;
        if let Some(status) = instance.ended().map_err(text)? {
            return Err(format!("the switch has ended: {status}"));
        }
    }
    let [alone, watched] = rates;
    results.add(CASE, "nobody looks", "mpps", "million packets/s", alone);
    results.add(CASE, SYSTEM, "mpps", "million packets/s", watched);
    results.add(CASE, SYSTEM, "rate_loss_percent", "percent less than where nobody looks", losses);
    results.add(CASE, SYSTEM, "packets_lost", "of those sent in a window", lost);
    results.add(CASE, SYSTEM, "packets_traced", "in a window", traced);
    sampled.add(&mut results);
    drop((instance, line));
    sessions::measure(effort, &mut results)?;
    Ok(results)
}

/// Millions of packets that arrived in a second.
fn rate(counted: &Counted) -> f64 {
    counted.arrived as f64 / counted.seconds / 1e6
}

/// Windows in which packets are sampled.
#[derive(Default)]
struct Sampled {
    rates: Vec<f64>,
    losses: Vec<f64>,
    lost: Vec<f64>,
    /// Samples, by thousand packets.
    samples: Vec<f64>,
}

impl Sampled {
    /// A window, against the rate of another one.
    fn measure(
        &mut self,
        client: &mut Client,
        scratch: &Scratch,
        (alone, forward): (f64, impl FnOnce() -> Result<Counted, String>),
    ) -> Result<(), String> {
        put_in_force(client, scratch, SFLOW)?;
        let counted = forward()?;
        let status: Status = client.ask(&Request::Status).map_err(text)?;
        let samples = status.sflow.map_or(0, |own| own.samples);
        put_in_force(client, scratch, "")?;
        self.rates.push(rate(&counted));
        self.losses.push(100.0 * (1.0 - rate(&counted) / alone));
        self.lost.push((counted.sent - counted.arrived) as f64);
        self.samples.push(samples as f64 * 1e3 / counted.sent as f64);
        Ok(())
    }

    fn add(self, results: &mut Results) {
        results.add(SAMPLED, SYSTEM, "mpps", "million packets/s", self.rates);
        results.add(SAMPLED, SYSTEM, "rate_loss_percent", "percent less than where nobody looks", self.losses);
        results.add(SAMPLED, SYSTEM, "packets_lost", "of those sent in a window", self.lost);
        results.add(SAMPLED, SYSTEM, "samples_per_1000", "samples of 1000 packets", self.samples);
    }
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

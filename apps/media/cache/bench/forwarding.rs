//! A stream from a server to one viewer, which the kernel forwards, without and with a recording of it.
//!
//! Source, forwarding and viewer are on one CPU, by turns: the source sends a burst and waits until it has come. So
//! that CPU is busy all the time, and what forwarding costs more is seen in packets per second. Worker, controller and
//! disk are on the other CPU. A rate that no server sends at: as many packets as that CPU forwards.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::{Directory, files};
use crate::media::network::{ENDS_CPU, Network, SOURCE};
use crate::media::origin::{self, Origin, PORT};
use crate::media::systems::Millrace;
use crate::media::viewer::Viewer;
use crate::results::Results;
use crate::stream::Source;
use crate::stream::frame::{self, HEADERS};
use crate::{Effort, text};

const CASE: &str = "forward while recording";
const SYSTEMS: [(&str, bool); 2] = [("forwarded", false), ("forwarded and recorded", true)];
/// Packets that the source sends at once.
const BURST: u32 = 8;
/// Bytes of RTP's header, which is not recorded.
const RTP: usize = 12;
/// How long each system forwards, and in a smoke run.
const WINDOW: [Duration; 2] = [Duration::from_secs(5), Duration::from_millis(500)];

/// What came of a run.
struct Outcome {
    packets_per_second: f64,
    lost_per_million: f64,
    /// Of the packets that were sent.
    recorded: f64,
}

/// Both systems by turns.
pub fn measure(effort: Effort, results: &mut Results) -> Result<(), String> {
    let network = Network::new()?;
    let (runs, window) = if effort.quick { (1, WINDOW[1]) } else { (5, WINDOW[0]) };
    let (mut all, mut slower): ([Vec<Outcome>; 2], Vec<f64>) = Default::default();
    for _ in 0..runs {
        for ((_, records), all) in SYSTEMS.iter().zip(&mut all) {
            all.push(one(&network, *records, window)?);
        }
        let [without, with] = [&all[0], &all[1]].map(|own| own.last().map_or(1.0, |own| own.packets_per_second));
        slower.push((without / with - 1.0) * 100.0);
    }
    for ((name, _), all) in SYSTEMS.iter().zip(&all) {
        let of = |value: fn(&Outcome) -> f64| all.iter().map(value).collect();
        results.add(CASE, name, "packets_per_second", "of one CPU, ends included", of(|own| own.packets_per_second));
        results.add(CASE, name, "lost_per_million", "of those that were sent", of(|own| own.lost_per_million));
        results.add(CASE, name, "recorded", "%, of those that were sent", of(|own| own.recorded * 100.0));
    }
    results.add(CASE, SYSTEMS[1].0, "forwarding_slower", "%, by which a packet takes longer", slower);
    Ok(())
}

fn one(network: &Network, records: bool, window: Duration) -> Result<Outcome, String> {
    let directory = Directory::new("forwarding")?;
    let path = std::path::absolute(directory.path()).map_err(text)?;
    let record = if records { "\"always\"" } else { "false" };
    let more = format!(
        "\n[controllers.media.cache]\ndirectory = \"{}\"\nfree = \"0 B\"\nquota = \"4 GiB\"\n\n\
         [controllers.media.streams.bench]\nurl = \"rtsp://{}/live\"\nlive = true\nrecord = {record}\n",
        path.display(),
        crate::media::network::ORIGIN
    );
    let origin = Origin::start(network)?;
    let millrace = Millrace::start(network, false, &more)?;
    let watch = || {
        let mut viewer = Viewer::of(0, "bench")?;
        viewer.play()?;
        Ok::<_, String>(viewer)
    };
    let viewer = network.viewers.enter(watch).map_err(text)??;
    let SocketAddr::V4(to) = origin.asked()? else { return Err("the origin was asked over IPv6".into()) };
    let addresses = [SOURCE.octets(), to.ip().octets()];
    let mut packet = origin::packet(0);
    for own in packet[RTP..].chunks_mut(188) {
        own[..4].copy_from_slice(&[0x47, 1, 0, 0x10]);
    }
    let frame = frame::udp(network.link(false)?, addresses, [PORT, to.port()], &packet);
    let sinks = network.sinks()?;
    let source = Source {
        namespace: &network.servers,
        interface: "eth0",
        frame: &frame,
        numbered: HEADERS as u32 + 2,
        apart: 0,
        burst: BURST,
        copies: 1,
        counts: sinks.descriptor()?,
        cpu: ENDS_CPU,
    };
    source.run(window / 4)?;
    let before = files::recorded(&path);
    let start = Instant::now();
    let streamed = source.run(window)?;
    let seconds = start.elapsed().as_secs_f64();
    let sent = streamed.arrived + streamed.lost;
    let grown = files::recorded(&path) - before;
    viewer.tear_down()?;
    millrace.end()?;
    Ok(Outcome {
        packets_per_second: streamed.arrived as f64 / seconds,
        lost_per_million: streamed.lost as f64 * 1e6 / sent.max(1) as f64,
        recorded: grown as f64 / (sent.max(1) * (origin::BYTES - RTP) as u64) as f64,
    })
}

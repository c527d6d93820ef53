//! How long a packet takes to a worker and back, against one that the kernel answers itself.

use std::time::{Duration, Instant};

use dataplane::PollMode;
use lab::{LinkConfig, RawPort};

use super::line::Line;
use crate::results::Results;
use crate::veth::{PORTS, with_fast_path};
use crate::{Effort, text};

/// Sends back what comes in: one kind of frames in the kernel, the other by a worker.
const ECHO: &str = "import \"net/ether\";
module echo {
    in ether input; out ether output; channel ether handed_over;
    ppf first(ether_packet_t *pkt) from input {
        pkt->metadata.tx.port = pkt->metadata.rx.port;
        if (pkt->type == 0x88b7) channel_put(handed_over, pkt);
        else channel_put(output, pkt);
    }
    @worker ppf second(ether_packet_t *pkt) from handed_over { channel_put(output, pkt); }
}
program { rx -> echo.input; echo.output -> tx; }";
const KINDS: [(&str, [u8; 2]); 2] = [("in the kernel", [0x88, 0xb6]), ("by a worker", [0x88, 0xb7])];
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two packets, so that a worker that sleeps has gone to sleep.
const PAUSE: Duration = Duration::from_micros(500);

/// Measures both kinds with workers that poll and that sleep.
pub fn measure(effort: Effort, results: &mut Results) -> Result<(), String> {
    let program = crate::compile::program("echo.baker", ECHO)?;
    let (runs, count) = if effort.quick { (1, 200) } else { (5, 5000) };
    for (case, poll) in [("round trip, polling", PollMode::Busy), ("round trip, sleeping", PollMode::Interrupt)] {
        let mut found: Vec<[Vec<f64>; 2]> = vec![Default::default(); KINDS.len()];
        for _ in 0..runs {
            let line = Line::new([LinkConfig::port(), LinkConfig::port()], false)?;
            let _instance = with_fast_path(&line.system, &program, poll, |_| Ok(()))?;
            let mut port = line.host()?;
            for ((_, kind), [p50, p99]) in KINDS.iter().zip(&mut found) {
                let times = round_trips(&mut port, *kind, count)?;
                p50.push(times[times.len() / 2]);
                p99.push(times[times.len() * 99 / 100]);
            }
        }
        for ((name, _), [p50, p99]) in KINDS.iter().zip(found) {
            results.add(case, name, "p50_us", "µs", p50);
            results.add(case, name, "p99_us", "µs", p99);
        }
    }
    Ok(())
}

/// The times of so many round trips, in µs, from the least on.
fn round_trips(port: &mut RawPort, kind: [u8; 2], count: u32) -> Result<Vec<f64>, String> {
    let mut times = Vec::new();
    for number in 0..count {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, kind[0], kind[1]];
        frame.extend(number.to_be_bytes());
        frame.resize(60, 0);
        let start = Instant::now();
        port.send(&frame).map_err(text)?;
        let back = port.recv_where(PATIENCE, |back| back == frame).map_err(text)?;
        back.ok_or_else(|| format!("{}: packet {number} did not come back", PORTS[0]))?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
        std::thread::sleep(PAUSE);
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}

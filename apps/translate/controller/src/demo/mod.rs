//! `millrace demo translate`: a stream to a viewer behind a long and lossy link, once translated by the proxy, once by
//! TCP from end to end; what comes in each tenth of a second, and what the picture has suffered.

mod film;
mod network;
mod sides;

use std::net::{TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use baker::ir::Program;
use cli::failure::Failure;
use cli::linked::Scene;
use cli::say;

use self::film::Film;
use self::network::{Network, Running};
use self::sides::{Came, PACKET, SERVER, STREAM, Viewer};
use crate::proxy::state::SessionState;

const PICTURE: &str = "
  10.0.2.11, RTP ──── apps/translate, in Baker ──── 100 ms, one packet of 200 lost ──── 10.0.1.11, an HTTP client
  10.0.2.11, HTTP ─── forwarded unchanged ───────── the same link ───────────────────── 10.0.1.11, another one
";

const ROUND_TRIP: Duration = Duration::from_millis(100);
const LOSS: f64 = 0.005;
/// Bit/s of the film.
const RATE: u64 = 1_200_000;
/// Of a curve.
const BIN: Duration = Duration::from_millis(100);
/// Lines of a curve.
const HEIGHT: usize = 4;
/// Seconds on a line of curves.
const WIDTH: usize = 10;
/// What players have before they begin.
const BUFFER: Duration = Duration::from_secs(1);

/// What it is to `millrace demo`.
pub const SCENE: Scene = Scene { about: "A stream for an HTTP client behind a lossy link", run };

/// Runs it.
fn run(program: &Arc<Program>, length: Duration) -> Result<(), Failure> {
    say!("Millrace demo: live streams for HTTP clients\n{PICTURE}");
    let network = Network::new().map_err(Failure::refused)?;
    let seconds = (length.as_secs() as u32).clamp(2, 60);
    let film = Film::new(&network.viewers, seconds, RATE)?;
    let running = Running::start(program, &network)?;
    network.set(ROUND_TRIP, LOSS).map_err(Failure::refused)?;
    say!("1. {seconds} seconds at {:.1} Mbit/s, both at the same time", RATE as f64 / 1e6);
    let (translated, direct) = both(&network, &running, &film)?;
    let length = Duration::from_secs(u64::from(seconds) + 3);
    for (name, came) in [("translated", &translated), ("TCP from end to end", &direct)] {
        say!("\n   {name}: Mbit/s in each tenth of a second");
        cli::output::print(format_args!("{}", curves(&came.bins(length, BIN))));
    }
    say!("\n2. what a player with a buffer of one second shows of it");
    let good =
        [told("translated", &network, &film, &translated)?, told("TCP from end to end", &network, &film, &direct)?];
    running.stop()?;
    match good[0] {
        true => Ok(()),
        false => Err(Failure::refused("what was translated is not what was sent")),
    }
}

/// Shows the film on both ways.
fn both(network: &Network, running: &Running, film: &Film) -> Result<(Came, Came), Failure> {
    let begins = AtomicBool::new(false);
    let socket = network.servers.enter(|| UdpSocket::bind("10.0.2.11:5004"));
    let socket = socket.map_err(Failure::refused)?.map_err(Failure::refused)?;
    let listener = network.servers.enter(|| TcpListener::bind(SERVER));
    let listener = listener.map_err(Failure::refused)?.map_err(Failure::refused)?;
    let film_time = Duration::from_secs_f64(film.bytes.len() as f64 * 8.0 / RATE as f64);
    let whole = film.bytes.len() / PACKET * PACKET;
    thread::scope(|scope| {
        scope.spawn(|| sides::send(&socket, &film.bytes, RATE, &begins));
        let ask = |server: &str, target: &str| network.viewers.enter(|| Viewer::ask(server, target));
        let translated = ask("10.0.1.1:8080", &format!("/rtp/{STREAM}")).map_err(Failure::refused)?;
        // Whatever comes of it, the sender ends.
        begins.store(true, Ordering::Relaxed);
        let translated = translated?;
        scope.spawn(|| sides::serve(&listener, &film.bytes, RATE));
        let direct = ask(SERVER, "/").map_err(Failure::refused)??;
        let reading = scope.spawn(move || direct.read(whole, film_time * 3));
        let came = scope.spawn(move || translated.read(usize::MAX, film_time + Duration::from_secs(2)));
        let came = came.join().map_err(|_| Failure::refused("a viewer has panicked"))?;
        for own in running.ask::<Vec<SessionState>>("sessions")? {
            let SessionState { packets, again, nulls, skipped, round_trip_ms, rate, .. } = own;
            say!(
                "   `millrace translate sessions`: {packets} segments, {again} sent again, {nulls} of them as null \
                packets; {skipped} packets left out; round trip {round_trip_ms:.0} ms; {:.1} Mbit/s allowed",
                rate as f64 / 1e6
            );
        }
        let direct = reading.join().map_err(|_| Failure::refused("a viewer has panicked"))?;
        Ok((came, direct))
    })
}

/// Tells what a viewer has seen; whether it is whole packets, and nearly all of the film.
fn told(name: &str, network: &Network, film: &Film, came: &Came) -> Result<bool, Failure> {
    let picture = film.judge(&network.viewers, &came.bytes)?;
    let (freezes, frozen) = came.freezes(RATE, BUFFER);
    let seen = match picture.frames {
        Some((sent, good, damaged)) => {
            let missing = sent.saturating_sub(good + damaged);
            format!("{good} of {sent} frames as they were sent, {damaged} damaged, {missing} missing")
        }
        None => "no pictures, as ffmpeg is not installed (apt install ffmpeg)".to_owned(),
    };
    let gaps = picture.gaps;
    say!("   {name}: {seen}; {gaps} gaps in it; stands still {freezes} times, {:.1} s", frozen.as_secs_f64());
    let enough = picture.frames.is_none_or(|(sent, good, _)| good * 2 >= sent);
    Ok(picture.framed && enough && !came.bytes.is_empty())
}

/// Bars of what came, some seconds on a line.
fn curves(bins: &[usize]) -> String {
    const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let mbit = |bytes: usize| bytes as f64 * 8.0 / BIN.as_secs_f64() / 1e6;
    // Bursts beyond it are cut, so that both have the same scale.
    let top = 2.0 * RATE as f64 / 1e6;
    let per_line = WIDTH * 1000 / BIN.as_millis() as usize;
    let mut out = String::new();
    for (at, line) in bins.chunks(per_line).enumerate() {
        for row in (0..HEIGHT).rev() {
            let label = if row == HEIGHT - 1 { format!("{top:4.1}") } else { "    ".to_owned() };
            let cell = |bytes: &usize| {
                let eighths = mbit(*bytes) / top * (HEIGHT * 8) as f64 - (row * 8) as f64;
                EIGHTHS[eighths.round().clamp(0.0, 8.0) as usize]
            };
            let cells: String = line.iter().map(cell).collect();
            out.push_str(&format!("   {label} ┤{}\n", cells.trim_end()));
        }
        out.push_str(&format!("      0 └{} {} s\n", "─".repeat(line.len()), (at + 1) * WIDTH));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_are_as_high_as_what_came() {
        // 1.2 Mbit/s is half of the height, and nothing nothing.
        let text = curves(&[15_000, 0, 30_000, 60_000]);
        let lines: Vec<&str> = text.lines().map(|line| line.split_once('┤').map_or("", |(_, cells)| cells)).collect();
        assert_eq!(lines, ["  ██", "  ██", "█ ██", "█ ██", ""]);
    }
}

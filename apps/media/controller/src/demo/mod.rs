//! `millrace demo media`: a camera and a film at an origin, viewers, and the proxy between them; a viewer comes late,
//! one pauses and seeks, the origin is killed. What viewers decode is compared with what the origin has shown.

mod network;
mod programs;

use std::sync::Arc;
use std::time::{Duration, Instant};

use baker::ir::Program;
use cli::failure::Failure;
use cli::linked::Scene;
use cli::report::grouped;
use cli::say;
use control::application::metrics::Family;

use crate::proxy::state::{OriginState, SessionState, StreamState};
use network::{Network, PATIENCE, Running};
use programs::{MemoryFile, Player, compare};

const PICTURE: &str = "
  viewers 10.0.1.11 ──────── apps/media, in Baker ──────── 10.0.2.11 an origin by GStreamer:
          2001:db8:1::11     RTSP ends at its controller             /test, a picture and a tone, live
                                                                     /film, 12 seconds
";

const V4: &str = "rtsp://10.0.1.1:8554/10.0.2.11:8554/test";
const V6: &str = "rtsp://[2001:db8:1::1]:8554/10.0.2.11:8554/test";
const FILM: &str = "rtsp://10.0.1.1:8554/10.0.2.11:8554/film";
/// Where one looks on beside the origin.
const DIRECT: &str = "rtsp://10.0.2.11:8554/test";
/// Of the film, and frames in each; where the player seeks to.
const SECONDS: u32 = 12;
const RATE: usize = 25;
const TARGET: usize = 8;
/// Of 100 frames, those that must be as they were sent where a machine is so busy that packets are lost.
const LEAST: usize = 50;

/// What it is to `millrace demo`.
pub const SCENE: Scene = Scene { about: "The media proxy between an origin and players", run };

/// Runs it; each thing is shown for a fifth of the length.
fn run(program: &Arc<Program>, length: Duration) -> Result<(), Failure> {
    say!("Millrace demo: a stream of one origin for all its viewers\n{PICTURE}");
    programs::check()?;
    let network = Network::new().map_err(Failure::refused)?;
    let running = Running::start(program, &network)?;
    let film = programs::film(&network.viewers, SECONDS)?;
    let origin = programs::origin(&network.servers, &film)?;
    let demo = Demo { network: &network, running: &running, phase: length / 5 };
    let live = demo.live()?;
    demo.film(&film)?;
    demo.end_of_origin(origin, live, &film)?;
    demo.totals()?;
    running.stop()
}

struct Demo<'d> {
    network: &'d Network,
    running: &'d Running,
    phase: Duration,
}

/// Who watches the camera.
struct Live {
    /// Beside the origin, without the proxy.
    direct: Player,
    players: Vec<Player>,
}

impl Demo<'_> {
    fn streams(&self) -> Result<Vec<StreamState>, Failure> {
        self.running.ask("streams")
    }

    /// Viewers of one live stream.
    fn live(&self) -> Result<Live, Failure> {
        say!("1. two players watch the camera over UDP, one by IPv4, one by IPv6");
        let mut direct = Player::start("the one beside the origin", &self.network.servers, DIRECT, "tcp")?;
        direct.wait_for(1)?;
        let mut players = vec![
            Player::start("the first", &self.network.viewers, V4, "udp")?,
            Player::start("the second", &self.network.viewers, V6, "udp")?,
        ];
        players.iter_mut().try_for_each(|player| player.wait_for(RATE))?;
        self.watch(&players)?;
        say!("\n2. a third one comes late, and gets its packets on its RTSP connection");
        let mut late = Player::start("the third", &self.network.viewers, V4, "tcp")?;
        late.wait_for(RATE)?;
        players.push(late);
        self.watch(&players)?;
        Ok(Live { direct, players })
    }

    /// Shows what the viewers of the camera get, for the length of a phase.
    fn watch(&self, players: &[Player]) -> Result<(), Failure> {
        let before: Vec<usize> = players.iter().map(Player::count).collect();
        let start = Instant::now();
        std::thread::sleep(self.phase);
        let time = start.elapsed().as_secs_f64();
        for (player, before) in players.iter().zip(before) {
            let rate = (player.count() - before) as f64 / time;
            say!("   {} shows {rate:.0} frames a second", player.name);
        }
        for stream in self.streams()? {
            let packets = stream.tracks.iter().map(|track| track.packets).sum();
            let lost: i32 = stream.tracks.iter().map(|track| track.lost).sum();
            let (url, viewers) = (&stream.url, stream.sessions);
            say!("   the origin sends it once: {url} for {viewers} viewers, {} packets, {lost} lost", grouped(packets));
        }
        Ok(())
    }

    /// A viewer of a film.
    fn film(&self, film: &MemoryFile) -> Result<(), Failure> {
        say!("\n3. one watches a film: it has a session of its own at the origin, pauses, and seeks");
        let parts = [MemoryFile::new()?, MemoryFile::new()?];
        let mut player = programs::film_player(&self.network.viewers, FILM, &parts)?;
        let output = player.wait(PATIENCE).map_err(Failure::refused)?;
        let text = output.text();
        text.lines().filter(|line| *line != "done").for_each(|line| say!("   {line}"));
        if !text.contains("done") || text.contains("error") {
            return Err(Failure::refused(format!("the film's player has failed: {output}")));
        }
        let source = programs::frames(&self.network.viewers, film)?;
        let begins = [0, TARGET * RATE];
        for ((part, begin), name) in parts.iter().zip(begins).zip(["up to there", "from there on"]) {
            let frames = programs::frames(&self.network.viewers, part)?;
            let same = frames.iter().zip(source.iter().skip(begin)).filter(|(own, sent)| own == sent).count();
            told(name, same, frames.len(), "the film's, in its order")?;
        }
        Ok(())
    }

    /// The origin dies, and comes again.
    fn end_of_origin(&self, origin: lab::Running, live: Live, film: &MemoryFile) -> Result<(), Failure> {
        say!("\n4. the origin is killed");
        drop(origin);
        let Live { direct, mut players } = live;
        wait("viewers are not told", || {
            let ended: Vec<bool> = players.iter_mut().map(Player::has_ended).collect::<Result<_, _>>()?;
            Ok(ended.iter().all(|ended| *ended))
        })?;
        wait("sessions are left", || Ok(self.running.ask::<Vec<SessionState>>("sessions")?.is_empty()))?;
        say!("   the proxy has told all viewers that their stream is at its end; no session is left");
        for own in self.running.ask::<Vec<OriginState>>("origins")? {
            say!("   `millrace media origins`: {} failed {} times, {}", own.origin, own.failed, own.last_error);
        }
        let shown = direct.stop()?;
        for player in players {
            let name = player.name;
            let frames = player.stop()?;
            told(name, compare(&frames, &shown), frames.len(), "the camera's")?;
        }
        say!("\n5. the origin is started again, and a viewer comes again");
        let _origin = programs::origin(&self.network.servers, film)?;
        let mut direct = Player::start("the one beside the origin", &self.network.servers, DIRECT, "tcp")?;
        direct.wait_for(1)?;
        let mut player = Player::start("the first", &self.network.viewers, V4, "udp")?;
        player.wait_for(RATE)?;
        self.watch(std::slice::from_ref(&player))?;
        let (frames, shown) = (player.stop()?, direct.stop()?);
        told("the first", compare(&frames, &shown), frames.len(), "the camera's")
    }

    /// What was counted.
    fn totals(&self) -> Result<(), Failure> {
        say!("\n6. what was counted");
        let families: Vec<Family> = self.running.ask("metrics")?;
        let mut out = String::new();
        for name in ["media_packets_tapped", "media_packets_at_sockets", "media_packets_slow", "media_vanished"] {
            let own = families.iter().filter(|family| family.name.starts_with(name));
            own.for_each(|family| cli::metrics::show(family, &mut out));
        }
        cli::output::print(format_args!("{}", out.trim_start_matches('\n')));
        Ok(())
    }
}

/// Tells how many frames are as they were sent; too few are an error.
fn told(who: &str, same: usize, all: usize, whose: &str) -> Result<(), Failure> {
    say!("   {who}: {same} of {all} decoded frames are {whose}");
    match all > 0 && same * 100 >= all * LEAST {
        true => Ok(()),
        false => Err(Failure::refused("too many frames are not as they were sent")),
    }
}

/// Waits until something holds.
fn wait(what: &str, mut holds: impl FnMut() -> Result<bool, Failure>) -> Result<(), Failure> {
    let start = Instant::now();
    while !holds()? {
        if start.elapsed() > PATIENCE {
            return Err(Failure::refused(format!("{what} after {PATIENCE:?}")));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

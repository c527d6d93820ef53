//! What a server's CPU does for viewers of one film by RTSP, each with a place of its own in it, over UDP: this proxy
//! from its cache, and VLC's server of films (video on demand) from the same film. Servers are on one CPU, viewers on
//! the other. A film is sent at its own pace, so what is compared is CPU time.

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use lab::Running;
use wire::rtp::{self, Header};

use super::Directory;
use super::cost::{self, Cost, Meter};
use crate::media::network::{self, ENDS_CPU, HOST_CPU, Network};
use crate::media::systems::Millrace;
use crate::media::viewer::{self, Viewer};
use crate::results::Results;
use crate::stream::stay;
use crate::{Effort, text};

const SYSTEMS: [&str; 2] = ["millrace", "vlc"];
/// Where VLC's server is, at the host between.
const VLC: ([u8; 4], u16) = ([10, 0, 1, 1], 8599);
/// Mbit/s of the film's picture, and seconds that it takes.
const MBITS: u32 = 10;
const LENGTH: [u32; 2] = [20, 8];
/// Viewers at one time.
const VIEWERS: [usize; 2] = [1, 32];
/// Before costs are counted, and how long that takes.
const BEFORE: Duration = Duration::from_secs(2);
const WINDOW: [Duration; 2] = [Duration::from_secs(8), Duration::from_secs(2)];
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two looks at what has come.
const LOOK: Duration = Duration::from_millis(1);

/// Both systems by turns.
pub fn measure(effort: Effort, results: &mut Results) -> Result<(), String> {
    let quick = usize::from(effort.quick);
    let runs = if effort.quick { 1 } else { 5 };
    let network = Network::new()?;
    for program in ["cvlc", "ffmpeg"] {
        if network.proxy.check(&["which", program]).is_err() {
            results.note(format!("rtsp: not measured, {program} is not installed"));
            return Ok(());
        }
    }
    let directory = Directory::new("rtsp")?;
    let folder = Directory::of_all("film")?;
    let film = folder.path().join("film.ts");
    make(&network, &film, LENGTH[quick])?;
    let path = std::path::absolute(directory.path()).map_err(text)?;
    let more = format!(
        "\n[controllers.media.cache]\ndirectory = \"{}\"\nfree = \"0 B\"\n\n\
         [controllers.media.streams.bench]\nurl = \"rtp://10.0.2.1:5004\"\npayload = \"mp2t\"\nrecord = \"always\"\n",
        path.display()
    );
    let millrace = Millrace::start(&network, false, &more)?;
    // The film becomes a recording at its own pace.
    let input = film.display().to_string();
    let send = ["ffmpeg", "-v", "error", "-re", "-i", &input, "-c", "copy", "-f", "rtp_mpegts"];
    network.servers.check(&[&send[..], &["rtp://10.0.2.1:5004?pkt_size=1328"]].concat()).map_err(text)?;
    thread::sleep(Duration::from_secs(2));
    let vlc = start_vlc(&network, folder.path(), &film)?;
    let systems = [(network::proxy(), "bench?start=0", millrace.id()), (SocketAddr::from(VLC), "film", vlc.id())];
    for viewers in VIEWERS {
        let case = format!("film of {MBITS} Mbit/s by RTSP, {viewers} viewers");
        let mut all: [Vec<(Cost, f64)>; 2] = Default::default();
        for _ in 0..runs {
            for ((server, path, id), all) in systems.iter().zip(&mut all) {
                let cost = || cost(*server, path, *id, viewers, WINDOW[quick]);
                all.push(network.viewers.enter(cost).map_err(text)??);
            }
        }
        for (name, all) in SYSTEMS.iter().zip(all) {
            let (costs, lost): (Vec<Cost>, Vec<f64>) = all.into_iter().unzip();
            cost::add(results, &case, name, "payload", &costs);
            results.add(&case, name, "lost_per_million", "by their numbers", lost);
        }
    }
    drop(vlc);
    millrace.end()
}

/// Makes a film of a constant rate.
fn make(network: &Network, film: &Path, seconds: u32) -> Result<(), String> {
    let (seconds, rate) = (seconds.to_string(), format!("{MBITS}M"));
    let picture = ["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=640x360:rate=25", "-t", &seconds];
    // Noise, so that the rate is needed.
    let coding = ["-vf", "noise=alls=40:allf=t", "-c:v", "mpeg2video", "-b:v", &rate, "-minrate", &rate];
    let rest = ["-maxrate", &rate, "-bufsize", "2M", "-g", "25", "-f", "mpegts", &film.display().to_string()];
    network.servers.check(&[&picture[..], &coding[..], &rest[..]].concat()).map(drop).map_err(text)
}

/// VLC's server of films, which refuses to be root.
fn start_vlc(network: &Network, folder: &Path, film: &Path) -> Result<Running, String> {
    let config = folder.join("vlm.conf");
    let own = format!("new film vod enabled\nsetup film input file://{}\nsetup film mux mp2t\n", film.display());
    std::fs::write(&config, own).map_err(text)?;
    let command = network.proxy.command("setpriv").args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    let command = command.args(["taskset", "-c", &HOST_CPU.to_string(), "cvlc", "-I", "dummy", "--rtsp-port"]);
    let command = command.arg(VLC.1.to_string()).arg("--vlm-conf").arg(&config).env("HOME", "/nonexistent");
    let running = command.spawn().map_err(text)?;
    let (start, server) = (Instant::now(), SocketAddr::from(VLC));
    // It takes connections before it has the film.
    while let Err(error) = network.viewers.enter(|| Viewer::at(server, 0, "film")?.tear_down()).map_err(text)? {
        if start.elapsed() > PATIENCE {
            return Err(format!("VLC's server: {error}: {}", running.both()));
        }
        thread::sleep(Duration::from_millis(100));
    }
    Ok(running)
}

/// What has come to a viewer.
#[derive(Clone, Copy, Default)]
struct Seen {
    bytes: u64,
    packets: u64,
    /// The number of the next packet.
    next: Option<u16>,
    lost: u64,
}

impl Seen {
    fn packet(&mut self, packet: &[u8]) {
        let Some(header) = Header::read(packet) else { return };
        let missing = self.next.map_or(0, |next| header.sequence.wrapping_sub(next));
        // What comes late is no loss.
        if missing < 1 << 15 {
            self.lost += u64::from(missing);
            self.next = Some(header.sequence.wrapping_add(1));
        }
        self.packets += 1;
        self.bytes += (packet.len() - rtp::HEADER) as u64;
    }
}

/// So many viewers for a while; and how many of a million packets are missing.
fn cost(server: SocketAddr, path: &str, id: u32, viewers: usize, window: Duration) -> Result<(Cost, f64), String> {
    let sockets = (0..viewers).map(viewer::socket).collect::<Result<Vec<_>, _>>()?;
    sockets.iter().try_for_each(|own| own.set_nonblocking(true)).map_err(text)?;
    let mut sessions = (0..viewers).map(|own| Viewer::at(server, own, path)).collect::<Result<Vec<_>, _>>()?;
    sessions.iter_mut().try_for_each(Viewer::play)?;
    let watch = || {
        stay(ENDS_CPU, false)?;
        let mut seen = vec![Seen::default(); viewers];
        take(&sockets, &mut seen, BEFORE);
        let meter = Meter::start(id)?;
        let sum = |seen: &[Seen]| {
            seen.iter().fold((0, 0, 0), |sum, own| (sum.0 + own.bytes, sum.1 + own.packets, sum.2 + own.lost))
        };
        let before = sum(&seen);
        take(&sockets, &mut seen, window);
        let after = sum(&seen);
        let cost = meter.cost(after.0 - before.0)?;
        if seen.iter().any(|own| own.packets == 0) {
            return Err(format!("{server}/{path}: some of {viewers} viewers get nothing"));
        }
        let (packets, lost) = (after.1 - before.1, after.2 - before.2);
        Ok((cost, lost as f64 * 1e6 / (packets + lost).max(1) as f64))
    };
    // On a thread of its own, which stays on its CPU.
    let result = thread::scope(|scope| scope.spawn(watch).join()).map_err(|_| "the viewers have panicked")?;
    sessions.into_iter().try_for_each(Viewer::tear_down)?;
    result
}

/// Takes what comes for a while.
fn take(sockets: &[UdpSocket], seen: &mut [Seen], window: Duration) {
    let (start, mut buffer) = (Instant::now(), [0; 2048]);
    while start.elapsed() < window {
        for (socket, seen) in sockets.iter().zip(&mut *seen) {
            while let Ok(length) = socket.recv(&mut buffer) {
                seen.packet(&buffer[..length]);
            }
        }
        thread::sleep(LOOK);
    }
}

//! Other people's programs: an origin by GStreamer, players, and the film. Files lie in memory, so nothing is left.

use std::collections::HashSet;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::process::Command;

use cli::failure::Failure;
use lab::{Namespace, Running, Signal};
use nix::sys::memfd::{MFdFlags, memfd_create};

use super::network::PATIENCE;

/// That of the distribution, which has GStreamer.
const PYTHON: &str = "/usr/bin/python3";
const CAMERA: &str = include_str!("../../../camera.py");
const PLAYER: &str = include_str!("player.py");
/// Says which parts of GStreamer there are not.
const CHECK: &str = "
import gi
gi.require_version('Gst', '1.0')
gi.require_version('GstRtspServer', '1.0')
from gi.repository import Gst, GstRtspServer
Gst.init(None)
parts = 'videotestsrc', 'matroskademux', 'rtph264pay', 'rtspsrc', 'x264enc'
print(*(name for name in parts if not Gst.ElementFactory.find(name)), end='')
";
/// How all of them are installed.
const INSTALL: &str = "`make demo ARGS=media` installs it, or: apt install ffmpeg python3-gi \
                       gir1.2-gst-rtsp-server-1.0 gstreamer1.0-plugins-base gstreamer1.0-plugins-good \
                       gstreamer1.0-plugins-ugly";
/// One line for each decoded frame, with its hash at the end.
const HASHES: [&str; 7] = ["-map", "0:v", "-fps_mode", "passthrough", "-f", "framemd5", "-"];

/// Fails where a program is not there.
pub fn check() -> Result<(), Failure> {
    let runs = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let mut missing = Vec::new();
    if runs("ffmpeg", &["-version"]).is_none() {
        missing.push("ffmpeg".to_owned());
    }
    match runs(PYTHON, &["-c", CHECK]) {
        None => missing.push("GStreamer's RTSP server for Python".to_owned()),
        Some(parts) if !parts.is_empty() => missing.push(format!("GStreamer's {parts}")),
        Some(_) => {}
    }
    match missing.is_empty() {
        true => Ok(()),
        false => Err(Failure::refused(format!("missing: {}. {INSTALL}", missing.join(", ")))),
    }
}

/// A file in memory, which has a path while this process lives.
pub struct MemoryFile(File);

impl MemoryFile {
    /// An empty one.
    pub fn new() -> Result<MemoryFile, Failure> {
        let file = memfd_create("demo", MFdFlags::MFD_CLOEXEC).map_err(Failure::refused)?;
        Ok(MemoryFile(file.into()))
    }

    /// Where other processes find it.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }
}

/// A film: seconds of a test picture with a tone, 25 frames a second, a key frame each second.
pub fn film(place: &Namespace, seconds: u32) -> Result<MemoryFile, Failure> {
    let file = MemoryFile::new()?;
    let picture = format!("testsrc2=size=320x180:rate=25:duration={seconds}");
    let tone = format!("sine=frequency=440:sample_rate=8000:duration={seconds}");
    let sources = ["-y", "-loglevel", "error", "-f", "lavfi", "-i", &picture, "-f", "lavfi", "-i", &tone];
    let codecs = ["-c:v", "libx264", "-g", "25", "-bf", "0", "-pix_fmt", "yuv420p", "-c:a", "pcm_alaw"];
    let command = place.command("ffmpeg").args(sources).args(codecs).args(["-f", "matroska", &file.path()]);
    command.limit(PATIENCE).check().map_err(Failure::refused)?;
    Ok(file)
}

/// The origin, with a film; it answers.
pub fn origin(place: &Namespace, film: &MemoryFile) -> Result<Running, Failure> {
    let running = place.command(PYTHON).args(["-", &film.path()]).input(CAMERA).spawn().map_err(Failure::refused)?;
    super::wait("the origin does not answer", || {
        place.enter(|| std::net::TcpStream::connect("10.0.2.11:8554").is_ok()).map_err(Failure::refused)
    })?;
    Ok(running)
}

/// A player that pauses and seeks; it ends by itself.
pub fn film_player(place: &Namespace, url: &str, parts: &[MemoryFile; 2]) -> Result<Running, Failure> {
    let arguments = ["-", url, &parts[0].path(), &parts[1].path()];
    place.command(PYTHON).args(arguments).input(PLAYER).spawn().map_err(Failure::refused)
}

/// The frames of a file.
pub fn frames(place: &Namespace, file: &MemoryFile) -> Result<Vec<String>, Failure> {
    let command = place.command("ffmpeg").args(["-loglevel", "error", "-i", &file.path()]).args(HASHES);
    let output = command.limit(PATIENCE).check().map_err(Failure::refused)?;
    Ok(hashes(&output.text()))
}

/// ffmpeg, which decodes a stream and tells a hash of each frame.
pub struct Player {
    pub name: &'static str,
    running: Running,
}

impl Player {
    /// Over `udp` or `tcp`.
    pub fn start(name: &'static str, place: &Namespace, url: &str, transport: &str) -> Result<Player, Failure> {
        let input = ["-loglevel", "error", "-rtsp_transport", transport, "-i", url];
        let running = place.command("ffmpeg").args(input).args(HASHES).spawn().map_err(Failure::refused)?;
        Ok(Player { name, running })
    }

    /// Frames so far.
    pub fn count(&self) -> usize {
        hashes(&String::from_utf8_lossy(&self.running.stdout())).len()
    }

    /// Waits until it has shown so many.
    pub fn wait_for(&mut self, frames: usize) -> Result<(), Failure> {
        let what = format!("{} does not get {frames} frames", self.name);
        super::wait(&what, || Ok(self.count() >= frames))
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> Result<bool, Failure> {
        Ok(self.running.ended().map_err(Failure::refused)?.is_some())
    }

    /// Ends it; the frames that it has shown.
    pub fn stop(mut self) -> Result<Vec<String>, Failure> {
        self.running.signal(Signal::SIGINT).map_err(Failure::refused)?;
        Ok(hashes(&self.running.wait(PATIENCE).map_err(Failure::refused)?.text()))
    }
}

fn hashes(text: &str) -> Vec<String> {
    // The last line may not be whole yet.
    let whole = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
    let lines = whole.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_whitespace().next_back()).map(str::to_owned).collect()
}

/// Of so many frames, how many are among those of the source.
pub fn compare(frames: &[String], source: &[String]) -> usize {
    let known: HashSet<&String> = source.iter().collect();
    frames.iter().filter(|frame| known.contains(frame)).count()
}

//! Other people's clients: each reads a stream to its end, and the frames that it has got are told by their hashes.

use std::time::Duration;

use lab::{Namespace, Output, Running};

use crate::network::must;

/// For all that a client does.
const LIMIT: Duration = Duration::from_secs(90);
/// One line for each decoded frame, with its hash at the end.
const HASHES: [&str; 7] = ["-map", "0:v", "-fps_mode", "passthrough", "-f", "framemd5", "-"];

/// A client that reads from an address; what it must keep lies in the file.
pub type Client = fn(&Namespace, &str, &str) -> Sink;

/// All of them.
pub const CLIENTS: [(&str, Client); 6] =
    [("curl", curl), ("wget", wget), ("ffmpeg", ffmpeg), ("mpv", mpv), ("VLC", vlc), ("GStreamer", gstreamer)];

/// A running client, and where its frames are.
pub struct Sink {
    name: &'static str,
    running: Running,
    /// Its file; none: it tells the hashes itself.
    file: Option<String>,
}

impl Sink {
    fn new(place: &Namespace, arguments: &[&str], name: &'static str, file: Option<&str>) -> Sink {
        let running = must(place.command(arguments[0]).args(&arguments[1..]).spawn());
        Sink { name, running, file: file.map(str::to_owned) }
    }

    /// Waits until it has ended by itself.
    pub fn frames(mut self) -> Vec<String> {
        let output = must(self.running.wait(LIMIT));
        let Some(file) = &self.file else { return hashes(&output) };
        assert!(std::fs::metadata(file).is_ok_and(|own| own.len() != 0), "{}: {output}", self.name);
        let arguments = [&["-loglevel", "quiet", "-i", file], &HASHES[..]].concat();
        let done = std::process::Command::new("ffmpeg").args(arguments).output();
        let text = String::from_utf8_lossy(&done.unwrap().stdout).into_owned();
        lines(&text)
    }
}

/// Makes a film: seconds of a test picture at a constant rate, two key frames a second.
pub fn film(place: &Namespace, path: &str, seconds: u32, rate: u64) {
    let picture = format!("testsrc2=size=320x180:rate=25:duration={seconds}");
    let (video, all) = ((rate / 2).to_string(), rate.to_string());
    let source = ["-loglevel", "error", "-f", "lavfi", "-i", &picture, "-c:v", "libx264", "-g", "12", "-bf", "0"];
    let rates = ["-b:v", &video, "-maxrate", &video, "-bufsize", &video, "-muxrate", &all];
    let output = ["-pix_fmt", "yuv420p", "-f", "mpegts", path];
    run(place, "ffmpeg", &[&source[..], &rates, &output].concat());
}

/// The frames of a file.
pub fn frames(place: &Namespace, path: &str) -> Vec<String> {
    hashes(&run(place, "ffmpeg", &[&["-loglevel", "error", "-i", path], &HASHES[..]].concat()))
}

fn url(address: &str) -> String {
    format!("http://{address}/tower")
}

pub fn curl(place: &Namespace, address: &str, file: &str) -> Sink {
    Sink::new(place, &["curl", "-sS", "-g", "-o", file, &url(address)], "curl", Some(file))
}

fn wget(place: &Namespace, address: &str, file: &str) -> Sink {
    // It tries again what has no length, and would read the next stream.
    Sink::new(place, &["wget", "-q", "--tries=1", "-O", file, &url(address)], "wget", Some(file))
}

fn ffmpeg(place: &Namespace, address: &str, _: &str) -> Sink {
    let url = url(address);
    Sink::new(place, &[&["ffmpeg", "-loglevel", "error", "-i", &url], &HASHES[..]].concat(), "ffmpeg", None)
}

fn mpv(place: &Namespace, address: &str, _: &str) -> Sink {
    let url = url(address);
    let output = ["--no-audio", "--ovc=rawvideo", "--of=framemd5", "--o=-", &url];
    Sink::new(place, &[&["mpv", "--no-config", "--really-quiet"], &output[..]].concat(), "mpv", None)
}

/// It does not run as root.
fn vlc(place: &Namespace, address: &str, file: &str) -> Sink {
    std::fs::write(file, []).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    std::fs::set_permissions(file, open).unwrap();
    let url = url(address);
    let user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "HOME=/tmp"];
    // What comes is written as it comes.
    let own = ["cvlc", "-I", "dummy", "--quiet", "--demux=dump", "--demuxdump-file", file, &url, "vlc://quit"];
    Sink::new(place, &[&user[..], &own].concat(), "VLC", Some(file))
}

fn gstreamer(place: &Namespace, address: &str, file: &str) -> Sink {
    let (location, sink) = (format!("location={}", url(address)), format!("location={file}"));
    let own = ["gst-launch-1.0", "-q", "souphttpsrc", &location, "!", "filesink", &sink];
    Sink::new(place, &own, "GStreamer", Some(file))
}

fn hashes(output: &Output) -> Vec<String> {
    lines(&output.text())
}

fn lines(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_whitespace().next_back()).map(str::to_owned).collect()
}

/// Runs a program, which must be there and end well.
#[track_caller]
fn run(place: &Namespace, program: &str, arguments: &[&str]) -> Output {
    let output = place.command(program).args(arguments).limit(LIMIT).check();
    output.unwrap_or_else(|error| panic!("{program}: {error}"))
}

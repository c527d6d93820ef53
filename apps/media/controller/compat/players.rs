//! Other people's players: each plays a film to its end, and the frames that it has got are told by their hashes.

use std::time::Duration;

use lab::{Namespace, Output, Running, Signal};

use crate::network::must;

/// For all that a player does.
const LIMIT: Duration = Duration::from_secs(60);
/// That of Debian, which has GStreamer and libcurl.
const PYTHON: &str = "/usr/bin/python3";
const CURL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../apps/media/controller/compat/curl.py");
/// One line for each decoded frame, with its hash at the end.
const HASHES: [&str; 7] = ["-map", "0:v", "-fps_mode", "passthrough", "-f", "framemd5", "-"];

/// Plays a URL over `udp`, `tcp` or `http`; what it must keep lies in the folder.
pub type Player = fn(&Namespace, &str, &str, &str) -> Vec<String>;

/// All that play films.
pub const PLAYERS: [(&str, Player); 4] = [("ffmpeg", ffmpeg), ("mpv", mpv), ("GStreamer", gstreamer), ("curl", curl)];

/// Makes a film: seconds of a test picture with a tone, a key frame each second.
pub fn film(place: &Namespace, path: &str, seconds: u32) {
    let picture = format!("testsrc2=size=320x180:rate=25:duration={seconds}");
    let tone = format!("sine=frequency=440:sample_rate=8000:duration={seconds}");
    let sources = ["-loglevel", "error", "-f", "lavfi", "-i", &picture, "-f", "lavfi", "-i", &tone];
    let codecs = ["-c:v", "libx264", "-g", "25", "-bf", "0", "-pix_fmt", "yuv420p", "-c:a", "pcm_alaw", path];
    run(place, "ffmpeg", &[&sources[..], &codecs].concat());
}

/// The frames of a file.
pub fn frames(place: &Namespace, path: &str) -> Vec<String> {
    hashes(&run(place, "ffmpeg", &[&["-loglevel", "error", "-i", path], &HASHES[..]].concat()))
}

/// ffmpeg, which ends by itself after so many seconds of a live stream.
pub fn live(place: &Namespace, url: &str, transport: &str, seconds: &str) -> Vec<String> {
    let input = ["-loglevel", "error", "-rtsp_transport", transport, "-i", url, "-t", seconds];
    hashes(&run(place, "ffmpeg", &[&input[..], &HASHES].concat()))
}

/// ffmpeg on a playlist, with more options.
pub fn by_http(place: &Namespace, url: &str, options: &[&str]) -> Vec<String> {
    hashes(&run(place, "ffmpeg", &[&["-loglevel", "error", "-i", url], options, &HASHES].concat()))
}

/// ffmpeg beside the camera, until it is stopped: what there was to be seen.
pub struct Recorder(Running);

impl Recorder {
    pub fn start(place: &Namespace, url: &str) -> Recorder {
        let input = ["-loglevel", "error", "-rtsp_transport", "tcp", "-i", url];
        let mut running = must(place.command("ffmpeg").args(input).args(HASHES).spawn());
        must(running.wait_for_text("0, ", LIMIT));
        Recorder(running)
    }

    pub fn stop(mut self) -> Vec<String> {
        must(self.0.signal(Signal::SIGINT));
        hashes(&must(self.0.wait(LIMIT)))
    }
}

/// The codecs of a stream as ffprobe finds them.
pub fn codecs(place: &Namespace, url: &str, transport: &str) -> String {
    let how = ["-loglevel", "error", "-rtsp_transport", transport, "-show_entries", "stream=codec_name"];
    let output = run(place, "ffprobe", &[&how[..], &["-of", "csv=p=0", url]].concat());
    output.text().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn ffmpeg(place: &Namespace, url: &str, transport: &str, _: &str) -> Vec<String> {
    let input = ["-loglevel", "error", "-rtsp_transport", transport, "-i", url];
    hashes(&run(place, "ffmpeg", &[&input[..], &HASHES].concat()))
}

/// mpv.
pub fn mpv(place: &Namespace, url: &str, transport: &str, _: &str) -> Vec<String> {
    let transport = format!("--rtsp-transport={transport}");
    let output = ["--no-audio", "--ovc=rawvideo", "--of=framemd5", "--o=-"];
    hashes(&run(place, "mpv", &[&["--no-config", "--really-quiet", &transport], &output[..], &[url]].concat()))
}

/// Without a decoder of its own: what it takes out of the packets is decoded by ffmpeg.
fn gstreamer(place: &Namespace, url: &str, transport: &str, folder: &str) -> Vec<String> {
    let file = format!("{folder}/gstreamer.h264");
    // A tunnel over HTTP is a URL's scheme.
    let source = match transport {
        "http" => [url.replacen("rtsp:", "location=rtsph:", 1), "protocols=tcp+http".into()],
        _ => [format!("location={url}"), format!("protocols={transport}")],
    };
    let sink = format!("location={file}");
    let from = ["-q", "rtspsrc", &source[0], &source[1], "!", "rtph264depay", "!"];
    let to = ["video/x-h264,stream-format=byte-stream", "!", "filesink", "buffer-mode=unbuffered", &sink];
    run(place, "gst-launch-1.0", &[&from[..], &to].concat());
    frames(place, &file)
}

/// libcurl's verbs, from a script that takes the packets apart.
fn curl(place: &Namespace, url: &str, transport: &str, folder: &str) -> Vec<String> {
    let file = format!("{folder}/curl.h264");
    run(place, PYTHON, &[CURL, url, transport, &file]);
    frames(place, &file)
}

fn hashes(output: &Output) -> Vec<String> {
    let text = output.text();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_whitespace().next_back()).map(str::to_owned).collect()
}

/// Runs a program, which must be there and end well.
#[track_caller]
fn run(place: &Namespace, program: &str, arguments: &[&str]) -> Output {
    let output = place.command(program).args(arguments).limit(LIMIT).check();
    output.unwrap_or_else(|error| panic!("{program}: {error}"))
}

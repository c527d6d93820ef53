//! The media proxy between other people's programs: GStreamer's RTSP server, ffmpeg, ffprobe and mpv. `make compat`
//! runs this.

#[allow(dead_code)]
#[path = "../live/network.rs"]
mod network;

#[allow(dead_code)]
#[path = "../../../../tests/support/instance.rs"]
mod instance;
#[allow(dead_code)]
#[path = "../../../../tests/support/process.rs"]
mod process;

use network::{Media, PATIENCE, must};

const CAMERA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../apps/media/camera.py");
/// Seconds that each player watches.
const SECONDS: &str = "4";

#[test]
fn players_get_the_picture_of_a_camera() {
    let media = Media::start("xdp", &[]);
    let _camera = must(media.servers.command("/usr/bin/python3").arg(CAMERA).spawn());
    media.wait("the camera does not answer", |media| {
        media.servers.enter(|| std::net::TcpStream::connect("10.0.2.11:8554")).unwrap().is_ok()
    });
    for (proxy, origin) in [("10.0.1.1", "10.0.2.11"), ("[2001:db8:1::1]", "[2001:db8:2::11]")] {
        let url = format!("rtsp://{proxy}:8554/{origin}:8554/test");
        for transport in ["udp", "tcp"] {
            // A hash of each decoded frame is a line.
            let player = media.viewers.command("ffmpeg").args(["-loglevel", "error", "-rtsp_transport", transport]);
            let player = player.args(["-i", &url, "-t", SECONDS, "-map", "0:v", "-f", "framemd5", "-"]).limit(PATIENCE);
            let output = must(player.check());
            let frames = output.text().lines().filter(|line| !line.starts_with('#')).count();
            assert!(frames > 50, "{url} over {transport}: {frames} frames\n{output}");
            println!("ffmpeg, {url} over {transport}: {frames} frames");
            let probe = media.viewers.command("ffprobe").args(["-loglevel", "error", "-rtsp_transport", transport]);
            let probe = probe.args(["-show_entries", "stream=codec_name", "-of", "csv=p=0", &url]).limit(PATIENCE);
            let codecs = must(probe.check()).text();
            assert_eq!(codecs.split_whitespace().collect::<Vec<_>>(), ["h264", "pcm_alaw"], "{url}");
            println!("ffprobe, {url} over {transport}: {}", codecs.replace('\n', " "));
        }
        let player = media.viewers.command("mpv").args(["--no-config", "--vo=null", "--ao=null", "--length=3", &url]);
        let output = must(player.limit(PATIENCE).check());
        println!("mpv, {url}: {}", output.text().lines().last().unwrap_or(""));
    }
    assert_eq!(media.metric("media_packets_relayed_total"), 0);
    let url = "rtsp://10.0.1.1:8554/10.0.2.11:8554/tcp";
    let player = media.viewers.command("ffmpeg").args(["-loglevel", "error", "-rtsp_transport", "udp", "-i", url]);
    let output = must(player.args(["-t", SECONDS, "-map", "0:v", "-f", "framemd5", "-"]).limit(PATIENCE).check());
    let frames = output.text().lines().filter(|line| !line.starts_with('#')).count();
    assert!(frames > 50, "from a server without UDP: {frames} frames\n{output}");
    println!("ffmpeg, {url}, which the camera sends on its connection: {frames} frames");
    assert_ne!(media.metric("media_packets_relayed_total"), 0);
    assert_eq!(media.metric("media_streams_failed_total"), 0);
    media.wait("sessions are left", |media| media.json(&["media", "sessions"]).as_array().unwrap().is_empty());
    media.stop();
}

#[test]
fn what_ffmpeg_publishes_is_viewed() {
    let section = "[controllers.media.limits]";
    let stage = format!(
        "[controllers.media.users]\nband = \"loud\"\n\n[controllers.media.streams.stage]\n\
         publish.users = \"band\"\nviewers.tokens = [\"a-token-for-the-audience\"]\n\n{section}"
    );
    let media = Media::start("xdp", &[(section, &stage)]);
    for transport in ["udp", "tcp"] {
        let publisher = media.servers.command("ffmpeg").args(["-loglevel", "error", "-re", "-f", "lavfi"]);
        let publisher = publisher.args(["-i", "testsrc=size=320x240:rate=25", "-c:v", "libx264", "-g", "10"]);
        let publisher = publisher.args(["-preset", "ultrafast", "-pix_fmt", "yuv420p", "-f", "rtsp"]);
        let to = "rtsp://band:loud@10.0.2.1:8554/stage";
        let _publisher = must(publisher.args(["-rtsp_transport", transport, to]).spawn());
        media.wait("nobody publishes", |media| media.json(&["media", "streams"])[0]["playing"] == true);
        for viewer in ["udp", "tcp"] {
            let url = "rtsp://10.0.1.1:8554/stage?token=a-token-for-the-audience";
            let player = media.viewers.command("ffmpeg").args(["-loglevel", "error", "-rtsp_transport", viewer]);
            let player = player.args(["-i", url, "-t", SECONDS, "-f", "framemd5", "-"]).limit(PATIENCE);
            let output = must(player.check());
            let frames = output.text().lines().filter(|line| !line.starts_with('#')).count();
            assert!(frames > 50, "{transport} to {viewer}: {frames} frames\n{output}");
            println!("ffmpeg publishes over {transport}, ffmpeg views over {viewer}: {frames} frames");
        }
        drop(_publisher);
        media.wait("it is there", |media| media.json(&["media", "streams"]).as_array().unwrap().is_empty());
    }
    media.stop();
}

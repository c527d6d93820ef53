//! The media proxy between other people's programs: GStreamer's RTSP server, and ffmpeg, mpv, GStreamer, libcurl and
//! Chromium as players. `make compat` runs this. Every decoded frame is compared with the same at the source.
//!
//! Needs root and these programs (`tools/setup compat` installs them), and fails without. Debian's VLC has no client
//! for RTSP.

mod browser;
mod players;

#[allow(dead_code)]
#[path = "../live/network.rs"]
mod network;

#[allow(dead_code)]
#[path = "../../../../tests/support/chromium.rs"]
mod chromium;
#[allow(dead_code)]
#[path = "../../../../tests/support/instance.rs"]
mod instance;
#[allow(dead_code)]
#[path = "../../../../tests/support/process.rs"]
mod process;

use std::thread;

use lab::{Namespace, Running};
use network::{Media, PATIENCE, must};
use players::PLAYERS;
use process::Scratch;

const CAMERA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../apps/media/camera.py");
/// The proxy's address and that of the origin, of both versions of IP.
const WAYS: [(&str, &str); 2] = [("10.0.1.1", "10.0.2.11"), ("[2001:db8:1::1]", "[2001:db8:2::11]")];
/// Frames between two key frames of the camera.
const KEY: usize = 25;
const TRANSPORTS: [&str; 3] = ["udp", "tcp", "http"];

/// Starts the origin, with a film or without.
fn camera(media: &Media, film: Option<&str>) -> Running {
    let camera = must(media.servers.command("/usr/bin/python3").arg(CAMERA).args(film).spawn());
    media.wait("the camera does not answer", |media| {
        media.servers.enter(|| std::net::TcpStream::connect("10.0.2.11:8554")).unwrap().is_ok()
    });
    camera
}

/// All players at once, each with a session of its own.
fn films(driver: &str) {
    const SECONDS: u32 = 3;
    let media = Media::start(driver, &[]);
    let scratch = Scratch::new();
    let film = scratch.path("film.mkv");
    players::film(&media.viewers, &film, SECONDS);
    let expected = players::frames(&media.viewers, &film);
    assert_eq!(expected.len(), 25 * SECONDS as usize);
    let _camera = camera(&media, Some(&film));
    for (proxy, origin) in WAYS {
        let url = format!("rtsp://{proxy}:8554/{origin}:8554/film");
        for transport in TRANSPORTS {
            thread::scope(|scope| {
                for (name, player) in PLAYERS {
                    // libcurl has no tunnels over HTTP.
                    if (name, transport) == ("curl", "http") {
                        continue;
                    }
                    let (media, url, expected, folder) = (&media, &url, &expected, scratch.path(""));
                    scope.spawn(move || {
                        let frames = player(&media.viewers, url, transport, &folder);
                        let same = frames.iter().zip(expected).take_while(|(own, sent)| own == sent).count();
                        println!("{driver}, {name}, {url} over {transport}: {same} of {} frames", expected.len());
                        assert!(frames == *expected, "{name}, {url} over {transport}: {} frames", frames.len());
                    });
                }
            });
        }
    }
    assert_eq!(media.metric("media_packets_relayed_total"), 0);
    assert_eq!(media.metric("media_streams_failed_total"), 0);
    assert_eq!(media.metric("media_tunnels_total"), 2 * (PLAYERS.len() as u64 - 1));
    media.wait("sessions are left", |media| media.json(&["media", "sessions"]).as_array().unwrap().is_empty());
    media.stop();
}

#[test]
fn films_arrive_frame_by_frame_in_the_kernel() {
    films("xdp");
}

#[test]
fn films_arrive_frame_by_frame_on_workers() {
    films("afpacket");
}

/// Viewers of both versions of IP and over all transports at once, against one that sits beside the camera.
#[test]
fn viewers_of_a_camera_see_what_it_shows() {
    let media = Media::start("xdp", &[]);
    let _camera = camera(&media, None);
    let direct = players::Recorder::start(&media.servers, "rtsp://10.0.2.11:8554/test");
    let viewers = thread::scope(|scope| {
        let media = &media;
        let mut viewers = Vec::new();
        for (proxy, origin) in WAYS {
            let url = format!("rtsp://{proxy}:8554/{origin}:8554/test");
            for transport in TRANSPORTS {
                let url = url.clone();
                viewers.push(scope.spawn(move || {
                    assert_eq!(players::codecs(&media.viewers, &url, transport), "h264 pcm_alaw", "{url}");
                    (format!("{url} over {transport}"), players::live(&media.viewers, &url, transport, "4"))
                }));
            }
        }
        viewers.into_iter().map(|viewer| viewer.join().unwrap()).collect::<Vec<_>>()
    });
    let shown = direct.stop();
    for (name, frames) in viewers {
        // What ffmpeg makes of frames before the first key frame is nobody's picture. Some frames are like others: all
        // must be found in one piece.
        let is_shown = |begin: &usize| shown.windows(frames.len() - begin).any(|own| *own == frames[*begin..]);
        let begin = (0..frames.len().min(KEY)).find(is_shown);
        println!("{name}: {} frames, of them {begin:?} before the first key frame", frames.len());
        assert!(begin.is_some_and(|begin| frames.len() - begin >= 50), "{name}: {} of {}", frames.len(), shown.len());
    }
    assert_eq!(media.metric("media_streams_failed_total"), 0);
    media.wait("sessions are left", |media| media.json(&["media", "sessions"]).as_array().unwrap().is_empty());
    media.stop();
}

/// The demo, as root; without privileges all of it runs on workers.
#[test]
fn the_demo_runs() {
    let own = must(Namespace::new("outside"));
    for prefix in [vec![], process::without_privileges()] {
        let line = [&prefix[..], &[env!("CARGO_BIN_EXE_millrace"), "demo", "media", "--seconds", "5"]].concat();
        let output = must(own.command(line[0]).args(&line[1..]).limit(2 * PATIENCE).check());
        let text = output.text();
        for part in
            ["\n1. two players", "\n2. a third one", "paused: 0 frames", "seeks to 8 s", "from there on: 75 of 75"]
        {
            assert!(text.contains(part), "{part:?} is missing: {output}");
        }
        let compared = text.lines().filter(|line| line.contains(" decoded frames are ")).count();
        assert_eq!(compared, 6, "{output}");
        assert_eq!(text.contains("\nnot in the kernel"), !prefix.is_empty(), "{output}");
        print!("{text}");
    }
}

/// A server that sends on connections only.
#[test]
fn a_camera_without_udp_is_viewed() {
    let media = Media::start("xdp", &[]);
    let _camera = camera(&media, None);
    let url = "rtsp://10.0.1.1:8554/10.0.2.11:8554/tcp";
    for transport in TRANSPORTS {
        let frames = players::live(&media.viewers, url, transport, "4");
        println!("{url} over {transport}, which the camera sends on its connection: {} frames", frames.len());
        assert!(frames.len() > 50, "{transport}");
    }
    assert_ne!(media.metric("media_packets_relayed_total"), 0);
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
            let player = player.args(["-i", url, "-t", "4", "-f", "framemd5", "-"]).limit(PATIENCE);
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

/// ffmpeg sends a film to groups, as RTP and without it; each frame that comes to players is one of the film's.
#[test]
fn what_ffmpeg_sends_to_groups_is_viewed() {
    let section = "[controllers.media.limits]";
    let streams = "[controllers.media.streams.hall]\nurl = \"rtp://239.1.2.3:5004\"\npayload = \"mp2t\"\n\
        interface = \"servers\"\n\n[controllers.media.streams.bare]\nurl = \"udp://239.1.2.4:5008\"\n\
        interface = \"servers\"\n\n";
    let media = Media::start("xdp", &[(section, &format!("{streams}{section}"))]);
    must(media.servers.check(&["ip", "route", "add", "239.0.0.0/8", "dev", "eth0"]));
    let scratch = Scratch::new();
    let film = scratch.path("film.ts");
    players::film(&media.viewers, &film, 20);
    let expected = players::frames(&media.viewers, &film);
    for (name, format, to) in [
        ("hall", "rtp_mpegts", "rtp://239.1.2.3:5004"),
        ("bare", "mpegts", "udp://239.1.2.4:5008?pkt_size=1316&localaddr=10.0.2.11"),
    ] {
        let sender = media.servers.command("ffmpeg").args(["-loglevel", "error", "-re", "-i", &film, "-c", "copy"]);
        let _sender = must(sender.args(["-f", format, to]).spawn());
        let url = format!("rtsp://10.0.1.1:8554/{name}");
        thread::scope(|scope| {
            for transport in TRANSPORTS {
                let (media, url, expected) = (&media, &url, &expected);
                scope.spawn(move || {
                    let frames = players::live(&media.viewers, url, transport, "4");
                    let is_sent =
                        |begin: &usize| expected.windows(frames.len() - begin).any(|own| *own == frames[*begin..]);
                    let begin = (0..frames.len().min(2 * KEY)).find(is_sent);
                    println!(
                        "{url} over {transport}: {} frames, of them {begin:?} before the first key frame",
                        frames.len()
                    );
                    assert!(begin.is_some_and(|begin| frames.len() - begin >= 50), "{url} over {transport}");
                });
            }
        });
    }
    assert_eq!(media.metric("media_datagrams_malformed_total"), 0);
    media.stop();
}

/// A proxy that keeps films of the camera; one of so many seconds, and its frames.
fn kept_films(scratch: &Scratch, seconds: u32) -> (Media, String, Vec<String>) {
    let section = "[controllers.media.limits]";
    let sections = format!(
        "[controllers.media.cache]\ndirectory = \"{}\"\nfree = \"0 B\"\nfilms = \"rtsp://10.0.2.11:8554/\"\n\
         fresh = \"1h\"\n\n{section}",
        scratch.path("cache")
    );
    let media = Media::start("xdp", &[(section, &sections)]);
    let film = scratch.path("film.mkv");
    players::film(&media.viewers, &film, seconds);
    let expected = players::frames(&media.viewers, &film);
    (media, film, expected)
}

/// Waits until something was recorded, and nothing is any more.
fn wait_recorded(media: &Media) {
    media.wait("it is not recorded", |media| {
        let all = media.json(&["media", "cache", "ls"]);
        all.as_array().is_some_and(|all| !all.is_empty() && all.iter().all(|own| !own["ended"].is_null()))
    });
}

/// A film of GStreamer's server: once from there, then from the cache, also when the server is gone.
#[test]
fn films_are_viewed_again_from_the_cache() {
    const SECONDS: u32 = 4;
    let scratch = Scratch::new();
    let (media, film, expected) = kept_films(&scratch, SECONDS);
    let mut camera = camera(&media, Some(&film));
    let url = "rtsp://10.0.1.1:8554/10.0.2.11:8554/film";
    let views = |what: &str, (name, player): (&str, players::Player), transport: &str| {
        let frames = player(&media.viewers, url, transport, &scratch.path(""));
        let same = frames.iter().zip(&expected).take_while(|(own, sent)| own == sent).count();
        println!("{what}, {name} over {transport}: {same} of {} frames", expected.len());
        assert!(frames == expected, "{what}, {name} over {transport}: {} frames", frames.len());
    };
    views("from the server", PLAYERS[0], "udp");
    wait_recorded(&media);
    let mut hits = 0;
    for (what, is_there) in [("from the cache", true), ("from the cache, without the server", false)] {
        for player in PLAYERS {
            for transport in ["udp", "tcp"] {
                views(what, player, transport);
                hits += 1;
                assert_eq!(media.metric("media_film_hits_total"), hits, "{what}");
            }
        }
        if is_there {
            must(camera.signal(lab::Signal::SIGKILL));
        }
    }
    assert_eq!((media.metric("media_film_misses_total"), media.metric("media_film_partial_total")), (1, 0));
    media.stop();
}

/// A film of which a part is in the cache: players get that, and the rest from GStreamer's server, each frame once.
#[test]
fn films_go_on_at_their_server() {
    const SECONDS: u32 = 9;
    let scratch = Scratch::new();
    let (media, film, expected) = kept_films(&scratch, SECONDS);
    let _camera = camera(&media, Some(&film));
    let url = "rtsp://10.0.1.1:8554/10.0.2.11:8554/film";
    let mut count = 0;
    for (name, player) in PLAYERS {
        for transport in ["udp", "tcp"] {
            // Somebody views the first seconds, and leaves in the middle of a group of pictures.
            let part = players::live(&media.viewers, url, "tcp", "4.4");
            assert!(expected.starts_with(&part) && part.len() > 100, "{} frames", part.len());
            wait_recorded(&media);
            let frames = player(&media.viewers, url, transport, &scratch.path(""));
            let same = frames.iter().zip(&expected).take_while(|(own, sent)| own == sent).count();
            let again = media.metric("media_film_repeated_total");
            println!("{name} over {transport}: {same} of {} frames, {again} packets came again", expected.len());
            // GStreamer ends where the film does by its own clock: of its end so much is missing as the server took to
            // begin.
            let most = if name == "GStreamer" { KEY / 2 } else { 0 };
            let is_whole = expected.starts_with(&frames) && frames.len() + most >= expected.len();
            assert!(is_whole, "{name} over {transport}: {} frames", frames.len());
            count += 1;
            assert_eq!(media.metric("media_film_partial_total"), count);
            media.wait("it is removed", |media| {
                for own in media.json(&["media", "cache", "ls"]).as_array().unwrap() {
                    // What is still recorded is removed when it has ended.
                    media.millrace(&["media", "cache", "rm", &own["id"].to_string()]);
                }
                media.json(&["media", "cache", "ls"]).as_array().unwrap().is_empty()
            });
        }
    }
    media.stop();
}

/// A player that knows nothing of the proxy: the kernel leads its connections there. It has the origin's password, and
/// the proxy has not.
#[test]
fn a_player_proves_the_origins_password() {
    let media = Media::start("xdp", &[]);
    let _camera = camera(&media, None);
    must(media.viewers.check(&["ip", "route", "add", "10.0.2.0/24", "via", "10.0.1.1"]));
    let rules = "table ip lead { chain in { type nat hook prerouting priority dstnat; \
        iifname \"viewers\" tcp dport 8555 redirect to :8554; }; }";
    must(media.proxy.check(&["nft", rules]));
    for transport in TRANSPORTS {
        let frames = players::live(&media.viewers, "rtsp://viewer:secret@10.0.2.11:8555/test", transport, "4");
        println!("with a password of the origin over {transport}: {} frames", frames.len());
        assert!(frames.len() > 50, "{transport}");
    }
    let wrong = media.viewers.command("ffmpeg").args(["-loglevel", "error", "-i"]);
    let wrong = must(wrong.args(["rtsp://viewer:guess@10.0.2.11:8555/test", "-f", "null", "-"]).limit(PATIENCE).run());
    assert!(wrong.both().contains("401"), "{wrong}");
    assert!(media.metric("media_streams_asked_total") >= 4);
    media.stop();
}

/// A proxy that records the stream `hall`, which comes to a group, as soon as somebody views it by HTTP; `http` is what
/// the configuration says of that besides.
fn recorded_hall(scratch: &Scratch, http: &str) -> Media {
    let section = "[controllers.media.limits]";
    let sections = format!(
        "[controllers.media.cache]\ndirectory = \"{}\"\nfree = \"0 B\"\nsegment = \"1s\"\n\n\
         [controllers.media.http]\nlisten = \"10.0.1.1:8080\"\nlinger = \"10s\"\n{http}\n\
         [controllers.media.streams.hall]\nurl = \"rtp://239.1.2.3:5004\"\npayload = \"mp2t\"\n\
         interface = \"servers\"\nrecord = true\n\n{section}",
        scratch.path("cache")
    );
    let media = Media::start("xdp", &[(section, &sections)]);
    must(media.servers.check(&["ip", "route", "add", "239.0.0.0/8", "dev", "eth0"]));
    media
}

/// ffmpeg sends a film to its group, once somebody has it come, in real time.
fn send_to_hall(media: &Media, film: &str) {
    media.wait("nobody has it come", |media| {
        must(media.proxy.check(&["ip", "maddress", "show", "dev", "servers"])).text().contains("239.1.2.3")
    });
    let sender = media.servers.command("ffmpeg").args(["-loglevel", "error", "-re", "-i", film, "-c", "copy"]);
    let mut sender = must(sender.args(["-f", "rtp_mpegts", "rtp://239.1.2.3:5004"]).spawn());
    must(sender.wait(PATIENCE));
}

/// Waits until its recording has ended, and is over.
fn hall_is_over(media: &Media) {
    media.wait("the recording does not end", |media| !media.json(&["media", "cache", "ls"])[0]["ended"].is_null());
    // So long nothing must follow a recording that is over.
    thread::sleep(std::time::Duration::from_secs(11));
}

/// ffmpeg sends a film to a group that nobody views. By HTTP it is viewed while it is recorded, and when it has ended:
/// all frames are the film's, in one piece.
#[test]
fn what_is_recorded_is_viewed_by_http() {
    const SECONDS: usize = 12;
    let scratch = Scratch::new();
    let media = recorded_hall(&scratch, "");
    let film = scratch.path("film.ts");
    players::film(&media.viewers, &film, SECONDS as u32);
    let expected = players::frames(&media.viewers, &film);
    let url = "http://10.0.1.1:8080/hall/index.m3u8";
    let live = thread::scope(|scope| {
        let live = scope.spawn(|| players::by_http(&media.viewers, url, &["-t", "5"]));
        send_to_hall(&media, &film);
        live.join().unwrap()
    });
    let is_part = |frames: &[String]| expected.windows(frames.len()).any(|own| own == frames);
    println!("ffmpeg by HTTP, of the live stream: {} frames", live.len());
    assert!(live.len() >= 4 * KEY && is_part(&live), "{} frames of the live stream", live.len());
    hall_is_over(&media);
    let whole = format!("{url}?start=0");
    let players = [
        ("ffmpeg", players::by_http(&media.viewers, &whole, &[])),
        ("mpv", players::mpv(&media.viewers, &whole, "tcp", "")),
    ];
    for (name, frames) in players {
        check_film(&format!("{name} by HTTP, of the recording"), &frames, &expected);
    }
    assert!(media.metric("media_http_shared_total") > 0, "the second one reads what the first one has read");
    exported(&media, &scratch, &expected);
    media.stop();
}

/// The frames are the film's, in one piece. Its first packets, sent within 100 µs, come while the sender is not known
/// yet, and without them a decoder shows nothing before the second key frame. Its last frame is not sent where the last
/// packets of MPEG-TS do not fill a datagram: ffmpeg sends full ones only.
fn check_film(name: &str, frames: &[String], expected: &[String]) {
    let begin = expected.windows(frames.len()).position(|own| own == frames);
    println!("{name}: {} of {} frames, from {begin:?} on", frames.len(), expected.len());
    let is_there = |begin| begin <= KEY && begin + frames.len() + 1 >= expected.len();
    assert!(begin.is_some_and(is_there), "{name}: {} of {}, from {begin:?} on", frames.len(), expected.len());
}

/// The recording as files, of the directory that the proxy has: ffmpeg finds the film's frames, tcpdump no wrong sum.
fn exported(media: &Media, scratch: &Scratch, expected: &[String]) {
    let id = media.json(&["media", "cache", "ls"])[0]["id"].to_string();
    let packets = media.json(&["media", "cache", "ls"])[0]["packets"].as_u64().unwrap();
    let export = |name: &str| {
        let file = scratch.path(name);
        process::millrace(&["media", "cache", "export", &scratch.path("cache"), &id, &file]).ok();
        file
    };
    for name in ["hall.ts", "hall.mp4"] {
        let frames = players::frames(&media.viewers, &export(name));
        check_film(name, &frames, expected);
    }
    let said = must(media.viewers.check(&["tcpdump", "-n", "-vv", "-r", &export("hall.pcap")])).text();
    assert_eq!(said.matches("192.0.2.1.5004 > 192.0.2.2.5004: [udp sum ok]").count() as u64, packets, "{said}");
    assert!(!said.contains("bad"), "{said}");
    let again = process::millrace(&["media", "cache", "export", &scratch.path("cache"), &id, &scratch.path("hall.ts")]);
    assert!(again.failed(1).contains("--force"), "a file that is there stays");
}

//! What is recorded is viewed by HTTP: every byte of the segments is compared with what was sent.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;

use crate::cache::Directory;
use crate::network::{Media, PATIENCE, must};
use crate::publisher::Publisher;
use crate::source::{Sender, groups};

/// An answer.
pub struct Answer {
    pub status: u16,
    headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Answer {
    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// The URIs of a playlist.
    pub fn uris(&self) -> Vec<&str> {
        self.text().lines().filter(|line| !line.starts_with('#')).collect()
    }

    /// The number behind a tag.
    fn tag(&self, tag: &str) -> u64 {
        let line = self.text().lines().find_map(|line| line.strip_prefix(tag)?.strip_prefix(':'));
        line.unwrap_or_else(|| panic!("no {tag}: {}", self.text())).parse().unwrap()
    }
}

fn ask(media: &Media, method: &str, path: &str, headers: &[&str]) -> Answer {
    let mut stream = media.viewers.enter(|| TcpStream::connect("10.0.1.1:8080")).unwrap().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let headers: String = headers.iter().map(|own| format!("{own}\r\n")).collect();
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: proxy\r\nConnection: close\r\n{headers}\r\n").unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    let end = all.windows(4).position(|own| own == b"\r\n\r\n").expect("a head");
    let head = std::str::from_utf8(&all[..end]).unwrap();
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let header = |line: &str| line.split_once(": ").map(|(name, own)| (name.to_ascii_lowercase(), own.to_owned()));
    Answer { status, headers: lines.filter_map(header).collect(), body: all[end + 4..].to_vec() }
}

pub fn get(media: &Media, path: &str) -> Answer {
    ask(media, "GET", path, &[])
}

/// All segments of a playlist, one after the other.
fn segments(media: &Media, playlist: &Answer) -> Vec<u8> {
    let one = |uri: &&str| {
        let answer = get(media, &format!("/hall/{uri}"));
        assert_eq!((answer.status, &*answer.headers["content-type"]), (200, "video/mp2t"), "{uri}");
        answer.body
    };
    playlist.uris().iter().flat_map(one).collect()
}

/// Ranges of a segment, and whether it has changed.
fn parts(media: &Media, path: &str) {
    let all = get(media, path);
    let (bytes, length) = (&all.body, all.body.len());
    let tag = &all.headers["etag"];
    assert_eq!(all.headers["content-length"], length.to_string());
    for (field, status, range) in [
        ("bytes=0-187", 206, 0..188),
        ("bytes=-188", 206, length - 188..length),
        ("bytes=1000-", 206, 1000..length),
        ("bytes=100000-400000", 206, 100_000..400_001),
        ("bytes=9-1", 200, 0..length),
        ("lines=0-1", 200, 0..length),
    ] {
        let part = ask(media, "GET", path, &[&format!("Range: {field}")]);
        assert!(part.status == status && part.body == bytes[range.clone()], "{field}: {} {range:?}", part.status);
        if status == 206 {
            let expected = format!("bytes {}-{}/{length}", range.start, range.end - 1);
            assert_eq!(part.headers["content-range"], expected);
        }
    }
    let several = ask(media, "GET", path, &["Range: bytes=0-1,188-189"]);
    let text = String::from_utf8_lossy(&several.body);
    assert!(
        several.status == 206 && text.contains(&format!("Content-Range: bytes 188-189/{length}\r\n\r\n")),
        "{text}"
    );
    assert_eq!(several.headers["content-length"], several.body.len().to_string());
    let beyond = ask(media, "GET", path, &[&format!("Range: bytes={length}-")]);
    assert_eq!((beyond.status, &beyond.headers["content-range"]), (416, &format!("bytes */{length}")));
    let range = "Range: bytes=0-9";
    let same = |headers: &[&str]| ask(media, "GET", path, headers).status;
    assert_eq!(same(&[range, &format!("If-Range: {tag}")]), 206);
    assert_eq!(same(&[range, "If-Range: \"other\""]), 200);
    assert_eq!(same(&[range, &format!("If-Range: {}", all.headers["last-modified"])]), 206);
    // A length would be that of the representation, which browsers believe (RFC 9110 section 8.6).
    let unchanged = ask(media, "GET", path, &[&format!("If-None-Match: {tag}")]);
    assert_eq!((unchanged.status, unchanged.headers.get("content-length")), (304, None), "{:?}", unchanged.headers);
    assert_eq!(same(&[&format!("If-Modified-Since: {}", all.headers["last-modified"])]), 304);
    assert_eq!(same(&["If-Match: \"other\""]), 412);
    let head = ask(media, "HEAD", path, &[range]);
    assert_eq!((head.status, &*head.headers["content-length"], head.body.len()), (200, &*length.to_string(), 0));
    assert_eq!(ask(media, "PUT", path, &[]).status, 405);
    let page = ask(media, "GET", path, &["Origin: https://player.example"]);
    assert_eq!(page.headers["access-control-allow-origin"], "https://player.example");
    let other = ask(media, "GET", path, &["Origin: https://other.example"]);
    assert!(!other.headers.contains_key("access-control-allow-origin"));
}

#[test]
fn recordings_are_viewed_by_http() {
    const TOKEN: &str = "a-token-of-some-length";
    let directory = Directory::new("http");
    let log = std::env::temp_dir().join(format!("millrace-http-{}.log", std::process::id()));
    let limits = "[controllers.media.limits]";
    let sections = format!(
        "[controllers.media.cache]\ndirectory = \"{}\"\nfree = \"0 B\"\nsegment = \"1s\"\n\n\
         [controllers.media.http]\nlisten = [\"10.0.1.1:8080\", \"[::1]:8081\"]\nlinger = \"1s\"\n\
         allow_origins = \"https://player.example\"\n\n\
         [controllers.media.log]\nfile = \"{}\"\n\n\
         [controllers.media.streams.hall]\nurl = \"rtp://239.1.2.3:5004\"\npayload = \"mp2t\"\n\
         interface = \"servers\"\nrecord = true\n\n\
         [controllers.media.streams.gate]\npublish.addresses = \"10.0.2.0/24\"\nrecord = true\n\
         viewers.tokens = [\"{TOKEN}\"]\n\n{limits}",
        directory.text(),
        log.display()
    );
    let media = Media::start("xdp", &[(limits, &sections)]);
    must(media.servers.check(&["ip", "route", "add", "239.0.0.0/8", "dev", "eth0"]));
    let mut sender = Sender::new(&media, "10.0.2.11:7100", "239.1.2.3:5004", false);
    // Nobody views it: the request has it come, and waits for the first segment.
    let first = std::thread::scope(|scope| {
        let first = scope.spawn(|| get(&media, "/hall/index.m3u8"));
        media.wait("nobody has it come", |media| groups(media).contains("239.1.2.3"));
        sender.begin(&media);
        sender.send(5000);
        first.join().unwrap()
    });
    assert_eq!((first.status, &*first.headers["cache-control"]), (200, "no-cache"), "{}", first.text());
    assert_eq!(first.headers["content-type"], "application/vnd.apple.mpegurl");
    let sent: Vec<u8> = (0..5001).flat_map(|at| sender.payload(at).to_vec()).collect();
    let live = get(&media, "/hall/index.m3u8");
    assert!(live.uris().len() >= 2 && live.uris().starts_with(&first.uris()), "{}", live.text());
    assert_eq!(live.tag("#EXT-X-MEDIA-SEQUENCE"), first.tag("#EXT-X-MEDIA-SEQUENCE"));
    assert!(!live.text().contains("ENDLIST"), "{}", live.text());
    let bytes = segments(&media, &live);
    let at = sent.windows(1316).position(|own| *own == bytes[..1316]).unwrap();
    assert!(at <= 1316 && sent[at..].starts_with(&bytes), "as it was sent, from the beginning: {at}");
    let uri = live.uris()[0].to_owned();
    parts(&media, &format!("/hall/{uri}"));
    assert_eq!(
        ask(
            &media,
            "GET",
            "/hall/index.m3u8",
            &[&format!("If-None-Match: {}", get(&media, "/hall/index.m3u8").headers["etag"])]
        )
        .status,
        304
    );
    // What there is not, and who may not.
    for (path, status) in [
        ("/hall/1/0.ts", 404),
        ("/nowhere/index.m3u8", 404),
        ("/hall", 404),
        ("/hall/index.m3u8?start=soon", 400),
        ("/gate/index.m3u8", 403),
        ("/gate/index.m3u8?token=another-token-of-some-length", 403),
        (&*format!("/gate/{uri}?token={TOKEN}"), 404),
    ] {
        assert_eq!(get(&media, path).status, status, "{path}");
    }
    assert_eq!(media.metric("media_wrong_credentials_total"), 1);
    // It is recorded as packets, and says so.
    let mut publisher = Publisher::of_video(&media.servers, "10.0.2.1:8554", "gate", true);
    publisher.send(300);
    let path = format!("/gate/index.m3u8?token={TOKEN}");
    let other = get(&media, &path);
    assert!(other.status == 415 && other.text().contains("VP8"), "{} {}", other.status, other.text());
    drop(publisher);
    // From the beginning: the same time for each request from then on. It ends, as nobody asks for it any more.
    let begin = get(&media, "/hall/index.m3u8?start=0");
    assert_eq!(begin.status, 302);
    let path = format!("/hall/{}", begin.headers["location"]);
    let growing = get(&media, &path);
    assert!(growing.text().contains("#EXT-X-PLAYLIST-TYPE:EVENT"), "{}", growing.text());
    media.wait("it does not end", |media| get(media, &path).text().contains("#EXT-X-ENDLIST"));
    let ended = get(&media, &path);
    assert!(ended.text().contains("#EXT-X-PLAYLIST-TYPE:VOD") && ended.uris().starts_with(&growing.uris()));
    assert!(segments(&media, &ended) == sent[at..], "all of it");
    // What was removed is gone, and no playlist says otherwise.
    let id = uri.split('/').next().unwrap();
    media.millrace(&["media", "cache", "rm", id]).ok();
    media.wait("it is still there", |media| get(media, &path).status == 404);
    assert_eq!(get(&media, &format!("/hall/{uri}")).status, 410);
    assert!(media.metric("media_http_requests_total") > 20 && media.metric("media_http_refused_total") >= 8);
    assert_eq!(media.metric("media_http_connections"), 0);
    media.stop();
    let lines = std::fs::read_to_string(&log).unwrap();
    let _ = std::fs::remove_file(&log);
    assert!(lines.contains(&format!("\"GET /hall/{uri} HTTP/1.1\" 206 188\n")), "{lines}");
    assert!(lines.contains("\"GET /gate/index.m3u8?token=*** HTTP/1.1\" 415 "), "{lines}");
    assert!(!lines.contains(TOKEN));
}

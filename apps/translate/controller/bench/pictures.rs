//! What a picture suffers: a film that is sent once, in real time, to a player that decodes it.
//!
//! ffmpeg makes the film, decodes what came, and compares it with what was sent. The player is a model: it shows each
//! packet a second behind the time at which it would have come at best, and stands still where one is not there.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt};

use super::millrace::{Millrace, Start};
use super::sites::{PROXY_AT_SERVERS, SERVER, Sites};
use super::source::{BYTES, Clock, PORT};
use super::{chosen, is_chosen_case};
use crate::results::Results;
use crate::{Effort, text};

/// Of 100 packets, behind the proxy.
const LOSSES: [f64; 3] = [0.1, 1.0, 3.0];
const ROUND_TRIP: Duration = Duration::from_millis(100);
/// bit/s of the film, null packets included.
const RATE: u64 = 1_000_000;
/// Null packets before it, so that everybody is there when it begins, and behind it.
const BEFORE: Duration = Duration::from_secs(3);
const BEHIND: Duration = Duration::from_secs(2);
/// How long what is late is waited for, at least.
const AFTER: Duration = Duration::from_secs(10);
/// How far behind a player shows what comes.
const BUFFER: f64 = 1.0;
/// Of a frame.
const FRAME: f64 = 0.04;
/// Of frames that are not damaged; to round it costs less.
const WHOLE: f64 = 0.9999;
const TS: usize = 188;
const HTTP: SocketAddrV4 = SocketAddrV4::new(SERVER, 80);

/// Who delivers it: the translation, by what it fills holes with, or a server by TCP of a kind.
const SYSTEMS: [(&str, Option<&str>); 5] = [
    ("millrace, buffered", Some("buffered")),
    ("millrace, empty", Some("empty")),
    ("millrace, fresh", Some("fresh")),
    ("cubic", None),
    ("reno", None),
];

/// What a client reads, each piece with its time in seconds.
type Came = Vec<(f64, Vec<u8>)>;

/// All cases at one time.
pub fn measure(effort: Effort, results: &mut Results) -> Result<(), String> {
    if Command::new("ffmpeg").arg("-version").output().is_err() {
        results.note("pictures: not measured, ffmpeg is not installed");
        return Ok(());
    }
    let folder = std::env::temp_dir().join(format!("millrace-bench-pictures-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(text)?;
    let result = all(effort, &folder, results);
    // What is left in the folder for temporary files is no loss.
    let _ = std::fs::remove_dir_all(&folder);
    result
}

fn all(effort: Effort, folder: &Path, results: &mut Results) -> Result<(), String> {
    let film = Arc::new(film(folder, if effort.quick { 4 } else { 30 })?);
    let mut cases = Vec::new();
    for loss in LOSSES.into_iter().filter(|loss| is_chosen_case(&title(*loss))) {
        let systems = SYSTEMS.into_iter().filter(|(name, _)| chosen("SYSTEM", name.split(',').next().unwrap_or(name)));
        cases.extend(systems.map(|(name, fill)| (loss, name, fill)));
    }
    let sites = Sites::new(cases.len())?;
    let mut running = Vec::new();
    for (number, ((loss, _, fill), site)) in cases.iter().zip(&sites.sites).enumerate() {
        sites.set(number, ROUND_TRIP, loss / 100.0, true)?;
        let start = |fill| Millrace::start(&site.proxy, Start { fill, frames: 98_304, cpu: None });
        running.push(fill.map(start).transpose()?);
    }
    running.iter_mut().flatten().try_for_each(Millrace::wait)?;
    let found: Vec<Result<Came, String>> = std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for ((_, name, fill), site) in cases.iter().zip(&sites.sites) {
            let (film, name, by_rtp) = (film.clone(), *name, fill.is_some());
            threads.push(scope.spawn(move || {
                let sender = site.servers.enter(|| send(film.clone(), (!by_rtp).then(|| name.to_owned())));
                sender.map_err(text)??;
                // Half as long again, and more, for who is behind.
                let time = BEFORE + AFTER + Duration::from_secs_f64(1.5 * seconds(film.len()));
                let from = if by_rtp { (Millrace::place(), Millrace::path(PORT)) } else { (HTTP, "/".into()) };
                site.viewers.enter(|| watch(from.0, &from.1, time)).map_err(text)?
            }));
        }
        threads.into_iter().map(|own| own.join().unwrap_or_else(|_| Err("a thread has panicked".into()))).collect()
    });
    for ((loss, name, _), came) in cases.iter().zip(found) {
        let case = title(*loss);
        let came = came.map_err(|error| format!("{case}: {name}: {error}"))?;
        let seen = Seen::new(&film, &came);
        let (damaged, frames, ssim) = compare(folder, &came)?;
        let mut add = |metric: &str, unit: &str, value: f64| results.add(&case, name, metric, unit, vec![value]);
        add("damaged_frames", "% of the frames", damaged as f64 * 100.0 / frames as f64);
        add("ssim", "mean of all frames, beside the film as it was sent", ssim);
        add("continuity_errors", "of MPEG-TS", seen.discontinuities as f64);
        add("missing", "% of the film's packets", seen.missing * 100.0);
        add("freezes", "times that the player stood still for a frame or longer", f64::from(seen.freezes));
        add("frozen", "s in which it did", seen.frozen);
    }
    running.into_iter().flatten().try_for_each(Millrace::end)
}

fn title(loss: f64) -> String {
    format!("film, {loss} %")
}

/// How long so many bytes take.
fn seconds(bytes: usize) -> f64 {
    bytes as f64 * 8.0 / RATE as f64
}

fn ffmpeg(words: &[&str]) -> Result<(), String> {
    let output = Command::new("ffmpeg").args(["-nostdin", "-v", "error", "-y"]).args(words).output().map_err(text)?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// A file in the folder, as a word.
fn file(folder: &Path, name: &str) -> String {
    PathBuf::from(folder).join(name).display().to_string()
}

/// A film of so many seconds, at a constant rate, in whole packets; also in the folder.
fn film(folder: &Path, time: u32) -> Result<Vec<u8>, String> {
    let (source, to) = (format!("testsrc2=size=640x360:rate=25:duration={time}"), file(folder, "sent.ts"));
    let mut words = vec!["-f", "lavfi", "-i", &source, "-c:v", "libx264", "-preset", "veryfast", "-pix_fmt", "yuv420p"];
    words.extend(["-b:v", "800k", "-maxrate", "800k", "-bufsize", "400k", "-g", "25", "-f", "mpegts"]);
    words.extend(["-muxrate", "1000000", &to]);
    ffmpeg(&words)?;
    let mut film = std::fs::read(&to).map_err(text)?;
    while !film.len().is_multiple_of(BYTES) {
        film.extend(null());
    }
    Ok(film)
}

/// A null packet (ISO/IEC 13818-1 section 2.4.1).
fn null() -> [u8; TS] {
    let mut packet = [0xff; TS];
    packet[..4].copy_from_slice(&[0x47, 0x1f, 0xff, 0x10]);
    packet
}

/// Sends null packets, the film, and null packets again, in real time: by RTP, or by HTTP over a TCP to who asks first.
fn send(film: Arc<Vec<u8>>, control: Option<String>) -> Result<(), String> {
    let nulls = |time: Duration| null().repeat((time.as_secs_f64() * RATE as f64 / 8.0) as usize / BYTES * 7);
    let all = [nulls(BEFORE), film.to_vec(), nulls(BEHIND)].concat();
    let socket = UdpSocket::bind(SocketAddrV4::new(SERVER, PORT)).map_err(text)?;
    let listener = TcpListener::bind(HTTP).map_err(text)?;
    std::thread::spawn(move || {
        let mut client = None;
        if let Some(control) = control {
            let Ok((mut stream, _)) = listener.accept() else { return };
            // What was not read would have the connection end with a reset.
            if stream.read(&mut [0; 1024]).is_err() {
                return;
            }
            let set = setsockopt(&stream, sockopt::TcpCongestion, &control.into());
            if set.is_err() || stream.set_nodelay(true).is_err() || stream.write_all(super::relay::HEAD).is_err() {
                return;
            }
            client = Some(stream);
        }
        let mut clock = Clock::new(RATE);
        for (number, payload) in all.chunks(BYTES).enumerate() {
            clock.wait();
            if let Some(client) = &mut client {
                if client.write_all(payload).is_err() {
                    return;
                }
                continue;
            }
            let mut packet = super::turns::packet(number as u16, 7);
            packet.truncate(12);
            packet.extend(payload);
            let to: (Ipv4Addr, u16) = (PROXY_AT_SERVERS, PORT);
            // Where nobody listens yet the kernel says so: that is no end of the film.
            let _ = socket.send_to(&packet, to);
        }
        // The connection is there until all has come.
        std::thread::sleep(AFTER);
    });
    Ok(())
}

/// Asks for the film and reads for a while.
fn watch(from: SocketAddrV4, path: &str, time: Duration) -> Result<Came, String> {
    let start = Instant::now();
    let mut stream = TcpStream::connect(from).map_err(text)?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: film\r\n\r\n").as_bytes()).map_err(text)?;
    stream.set_read_timeout(Some(Duration::from_millis(100))).map_err(text)?;
    let (mut came, mut buffer, mut head) = (Vec::new(), vec![0; 65536], Some(Vec::new()));
    while start.elapsed() < time {
        let count = match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => continue,
            Err(error) => return Err(error.to_string()),
        };
        let mut bytes = buffer[..count].to_vec();
        if let Some(begin) = &mut head {
            begin.extend(bytes);
            let Some(end) = begin.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
            if !begin.starts_with(b"HTTP/1.1 200") {
                return Err(String::from_utf8_lossy(begin).into_owned());
            }
            bytes = begin.split_off(end + 4);
            head = None;
        }
        came.push((start.elapsed().as_secs_f64(), bytes));
    }
    Ok(came)
}

/// What a player notices.
struct Seen {
    discontinuities: usize,
    /// Of the film's packets, the part that did not come.
    missing: f64,
    freezes: u32,
    /// Seconds.
    frozen: f64,
}

impl Seen {
    fn new(film: &[u8], came: &[(f64, Vec<u8>)]) -> Seen {
        let mut places: HashMap<&[u8], Vec<usize>> = HashMap::new();
        for (place, packet) in film.chunks(TS).enumerate().filter(|(_, packet)| *packet != null()) {
            places.entry(packet).or_default().push(place);
        }
        let all = film.chunks(TS).filter(|packet| *packet != null()).count();
        let mut seen = Seen { discontinuities: 0, missing: 0.0, freezes: 0, frozen: 0.0 };
        let (mut counters, mut next, mut found) = (HashMap::<u16, u8>::new(), 0, 0);
        // When the player shows the first byte of the film, at the earliest.
        let (mut begin, mut rest) = (None::<f64>, Vec::new());
        for (time, bytes) in came {
            rest.extend(bytes);
            let whole = rest.len() / TS * TS;
            for packet in rest.drain(..whole).collect::<Vec<u8>>().chunks(TS) {
                let pid = u16::from_be_bytes([packet[1], packet[2]]) & 0x1fff;
                if pid == 0x1fff {
                    continue;
                }
                // It counts packets with a payload (ISO/IEC 13818-1 section 2.4.3.3); a packet may come twice.
                let (counter, has_payload) = (packet[3] & 15, packet[3] & 0x10 != 0);
                let last = counters.insert(pid, counter);
                let expected = last.map(|last| if has_payload { (last + 1) & 15 } else { last });
                if expected.is_some_and(|expected| expected != counter) && last != Some(counter) {
                    seen.discontinuities += 1;
                }
                let Some(place) = places.get(packet).and_then(|own| own.iter().find(|own| **own >= next)) else {
                    continue;
                };
                (next, found) = (place + 1, found + 1);
                let due = seconds(place * TS);
                let shown = begin.get_or_insert(time - due + BUFFER);
                let late = time - (*shown + due);
                if late > 0.0 {
                    // It goes on from there, later than before.
                    *shown += late;
                    seen.frozen += late;
                    seen.freezes += u32::from(late >= FRAME);
                }
            }
        }
        seen.missing = 1.0 - found as f64 / all.max(1) as f64;
        seen
    }
}

/// Decodes what came, and compares it frame by frame with what was sent: damaged frames, frames, and the mean of
/// their structural similarities. A frame that is missing is shown as the one before.
fn compare(folder: &Path, came: &[(f64, Vec<u8>)]) -> Result<(usize, usize, f64), String> {
    let bytes: Vec<u8> = came.iter().flat_map(|(_, bytes)| bytes).copied().collect();
    std::fs::write(folder.join("came.ts"), bytes).map_err(text)?;
    let (sent, came, stats) = (file(folder, "sent.ts"), file(folder, "came.ts"), file(folder, "ssim.txt"));
    let filter = format!("[0:v][1:v]ssim=stats_file={stats}");
    // Both have the film's own times.
    ffmpeg(&["-copyts", "-i", &sent, "-copyts", "-i", &came, "-lavfi", &filter, "-f", "null", "-"])
        .or_else(|error| if Path::new(&stats).exists() { Ok(()) } else { Err(error) })?;
    let lines = std::fs::read_to_string(&stats).map_err(text)?;
    let of_line = |line: &str| line.split("All:").nth(1)?.split_whitespace().next()?.parse::<f64>().ok();
    let all: Vec<f64> = lines.lines().filter_map(of_line).collect();
    if all.is_empty() {
        return Err("ffmpeg has compared nothing".into());
    }
    let damaged = all.iter().filter(|own| **own < WHOLE).count();
    Ok((damaged, all.len(), all.iter().sum::<f64>() / all.len() as f64))
}

//! Both ends of both ways: who sends the film, as RTP and over HTTP, and who reads what comes of it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cli::failure::Failure;

use super::network::PATIENCE;

/// Bytes of a packet's payload: seven packets of a transport stream.
pub const PACKET: usize = 1316;
/// Where RTP goes, and where the server without a proxy is.
pub const STREAM: &str = "10.0.2.1:5004";
pub const SERVER: &str = "10.0.2.11:80";

/// The next packet's time, at a rate in bit/s of payload.
struct Clock {
    next: Instant,
    pause: Duration,
}

impl Clock {
    fn new(rate: u64) -> Clock {
        Clock { next: Instant::now(), pause: Duration::from_nanos(PACKET as u64 * 8 * 1_000_000_000 / rate) }
    }

    /// Waits for it. Who is late does not wait.
    fn wait(&mut self) {
        self.next += self.pause;
        std::thread::sleep(self.next.saturating_duration_since(Instant::now()));
    }
}

/// Sends a film as RTP; before it `begins`, null packets.
pub fn send(socket: &UdpSocket, film: &[u8], rate: u64, begins: &AtomicBool) {
    let mut null = [0xff; PACKET];
    null.chunks_mut(188).for_each(|packet| packet[..4].copy_from_slice(&[0x47, 0x1f, 0xff, 0x10]));
    let (mut clock, mut packets, end) = (Clock::new(rate), film.chunks_exact(PACKET), Instant::now() + PATIENCE);
    for number in 0u32.. {
        clock.wait();
        let payload = match begins.load(Ordering::Relaxed) {
            true => match packets.next() {
                Some(payload) => payload,
                None => return,
            },
            false if Instant::now() > end => return,
            false => &null,
        };
        // Version 2, payload type 33 (RFC 2250), a clock of 90 kHz.
        let mut packet = vec![0x80, 33];
        packet.extend((number as u16).to_be_bytes());
        packet.extend(number.wrapping_mul(900).to_be_bytes());
        packet.extend([0, 0, 0, 7]);
        packet.extend(payload);
        // Where nobody listens yet the kernel says so.
        let _ = socket.send_to(&packet, STREAM);
    }
}

/// Serves a film to one client, as fast as it is to be played.
pub fn serve(listener: &TcpListener, film: &[u8], rate: u64) -> std::io::Result<()> {
    let (mut client, _) = listener.accept()?;
    client.set_nodelay(true)?;
    client.set_write_timeout(Some(PATIENCE))?;
    client.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: video/mp2t\r\nConnection: close\r\n\r\n")?;
    let mut clock = Clock::new(rate);
    for packet in film.chunks_exact(PACKET) {
        clock.wait();
        client.write_all(packet)?;
    }
    Ok(())
}

/// What a viewer has got, and when.
#[derive(Default)]
pub struct Came {
    pub bytes: Vec<u8>,
    /// Since the first byte: how many bytes there were then.
    times: Vec<(Duration, usize)>,
}

/// A connected viewer, who has read the head of the answer.
pub struct Viewer(TcpStream);

impl Viewer {
    /// Asks for a stream; to be called in the viewers' namespace.
    pub fn ask(server: &str, target: &str) -> Result<Viewer, Failure> {
        let address: SocketAddr = server.parse().map_err(Failure::wrong)?;
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(Failure::refused)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(Failure::refused)?;
        write!(stream, "GET {target} HTTP/1.1\r\nHost: demo\r\n\r\n").map_err(Failure::refused)?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).map_err(Failure::refused)?;
            head.extend(byte);
        }
        match head.starts_with(b"HTTP/1.1 200 ") {
            true => Ok(Viewer(stream)),
            false => Err(Failure::refused(String::from_utf8_lossy(&head))),
        }
    }

    /// Reads so much, for so long at most.
    pub fn read(mut self, most: usize, length: Duration) -> Came {
        let (start, mut buffer, mut came) = (Instant::now(), vec![0; 64 << 10], Came::default());
        // The last bytes may be null packets that nobody waits for.
        let _ = self.0.set_read_timeout(Some(Duration::from_millis(100)));
        while came.bytes.len() < most && start.elapsed() < length {
            match self.0.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => {
                    came.bytes.extend(&buffer[..count]);
                    came.times.push((start.elapsed(), came.bytes.len()));
                }
                Err(_) => {}
            }
        }
        came
    }
}

impl Came {
    /// Bytes in each part of the time.
    pub fn bins(&self, length: Duration, bin: Duration) -> Vec<usize> {
        let mut bins = vec![0; length.as_millis().div_ceil(bin.as_millis()) as usize];
        let mut before = 0;
        for (time, bytes) in &self.times {
            if let Some(own) = bins.get_mut((time.as_millis() / bin.as_millis()) as usize) {
                *own += bytes - before;
            }
            before = *bytes;
        }
        bins
    }

    /// How often, and how long, a player stands still that begins when it has so much to play.
    pub fn freezes(&self, rate: u64, buffer: Duration) -> (usize, Duration) {
        let played = |bytes: usize| Duration::from_secs_f64(bytes as f64 * 8.0 / rate as f64);
        let (mut begun, mut frozen, mut count): (Option<Duration>, Duration, usize) = (None, Duration::ZERO, 0);
        let mut before = 0;
        for (time, bytes) in &self.times {
            match begun {
                None if played(*bytes) >= buffer => begun = Some(*time),
                None => {}
                Some(since) => {
                    // What there was before this came has been played by then.
                    let dry = since + frozen + played(before);
                    if *time > dry {
                        // It goes on when it has as much as at the beginning.
                        frozen += (*time - dry) + buffer.min(played(*bytes - before));
                        count += 1;
                    }
                }
            }
            before = *bytes;
        }
        (count, frozen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_player_stands_still_when_nothing_is_left() {
        let ms = Duration::from_millis;
        // 1000 bytes are a second.
        let came = |times: &[(u64, usize)]| Came {
            bytes: Vec::new(),
            times: times.iter().map(|(time, bytes)| (ms(*time), *bytes)).collect(),
        };
        assert_eq!(came(&[(0, 500), (500, 1000), (1000, 1500), (1500, 2500)]).freezes(8000, ms(500)), (0, ms(0)));
        let (count, frozen) = came(&[(0, 500), (1500, 2000), (2000, 2500)]).freezes(8000, ms(500));
        assert!(count == 1 && frozen >= ms(1000), "{count} {frozen:?}");
        assert_eq!(came(&[(0, 5), (50, 10), (150, 30)]).bins(ms(300), ms(100)), [10, 20, 0]);
    }
}

//! Who sends a stream: packets of seven packets of a transport stream, at even times.

use std::net::{SocketAddrV4, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::sites::{PROXY_AT_SERVERS, SERVER};
use crate::text;

/// Bytes of a packet's payload.
pub const BYTES: usize = 1316;
/// The port that streams are sent from and to.
pub const PORT: u16 = 5004;

/// The next packet's time, at a rate in bit/s of payload.
pub struct Clock {
    next: Instant,
    pause: Duration,
}

impl Clock {
    pub fn new(rate: u64) -> Clock {
        Clock { next: Instant::now(), pause: Duration::from_nanos(BYTES as u64 * 8 * 1_000_000_000 / rate) }
    }

    /// Waits for it. Who is late does not wait.
    pub fn wait(&mut self) {
        self.next += self.pause;
        std::thread::sleep(self.next.saturating_duration_since(Instant::now()));
    }
}

/// The payload of a number.
pub fn payload(number: u32) -> [u8; BYTES] {
    let mut bytes = [0xff; BYTES];
    for packet in bytes.chunks_mut(188) {
        // A packet of program 256 with payload alone (ISO/IEC 13818-1 section 2.4.3.2).
        packet[..4].copy_from_slice(&[0x47, 0x01, 0x00, 0x10]);
        packet[4..8].copy_from_slice(&number.to_be_bytes());
    }
    bytes
}

/// Sends RTP until it is dropped.
pub struct Source {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Source {
    /// To be called in the servers' namespace.
    pub fn start(rate: u64) -> Result<Source, String> {
        let socket = UdpSocket::bind(SocketAddrV4::new(SERVER, PORT)).map_err(text)?;
        let to = SocketAddrV4::new(PROXY_AT_SERVERS, PORT);
        let stop = Arc::new(AtomicBool::new(false));
        let stops = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut clock = Clock::new(rate);
            for number in 0u32.. {
                if stops.load(Ordering::Relaxed) {
                    break;
                }
                clock.wait();
                // Version 2, payload type 33 (RFC 2250), a clock of 90 kHz.
                let mut packet = vec![0x80, 33];
                packet.extend((number as u16).to_be_bytes());
                packet.extend(number.wrapping_mul(900).to_be_bytes());
                packet.extend([0, 0, 0, 7]);
                packet.extend(payload(number));
                // Where nobody listens the kernel says so: that is no end of the stream.
                let _ = socket.send_to(&packet, to);
            }
        });
        Ok(Source { stop, thread: Some(thread) })
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // What it has to say was printed when it panicked.
            let _ = thread.join();
        }
    }
}

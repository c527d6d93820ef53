//! What delivers a stream to clients.

use std::io::{ErrorKind, Write};
use std::net::{SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use lab::{Running, Signal};
use nix::sys::socket::{setsockopt, sockopt};

use super::sites::{PROXY, PROXY_AT_SERVERS, SERVER, Site};
use super::source::{BYTES, Clock, PORT, Source, payload};
use crate::text;

/// Until a system serves.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often threads look whether they are to end.
const LOOK: Duration = Duration::from_millis(50);
/// Bytes that the relay keeps for a client that is slow; what does not fit is not for it.
const MOST_KEPT: usize = 1 << 20;
const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: video/mp2t\r\nConnection: close\r\n\r\n";

/// A system that takes part.
#[derive(Clone, Copy)]
pub enum System {
    Millrace,
    /// HTTP from the server, forwarded unchanged, with this congestion control.
    EndToEnd(&'static str),
    /// A proxy over sockets: one read and one write for each packet.
    Relay,
}

/// All of them, by their names in the results.
pub const SYSTEMS: [(&str, System); 5] = [
    ("millrace", System::Millrace),
    ("cubic", System::EndToEnd("cubic")),
    ("reno", System::EndToEnd("reno")),
    ("bbr", System::EndToEnd("bbr")),
    ("relay", System::Relay),
];

impl System {
    /// Why it cannot take part.
    pub fn missing(self) -> Option<String> {
        let System::EndToEnd(name) = self else { return None };
        let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
        (!known.split_whitespace().any(|own| own == name)).then(|| format!("the kernel does not have {name}"))
    }

    /// Where its clients ask, and for what.
    pub fn place(self) -> (SocketAddrV4, String) {
        match self {
            System::Millrace => (SocketAddrV4::new(PROXY, 8080), format!("/rtp/{PROXY_AT_SERVERS}:{PORT}")),
            System::EndToEnd(_) => (SocketAddrV4::new(SERVER, 80), "/".into()),
            System::Relay => (SocketAddrV4::new(PROXY, 8081), "/".into()),
        }
    }
}

/// A running system with its stream.
pub struct Line {
    _source: Option<Source>,
    threads: Threads,
    pub millrace: Option<Millrace>,
}

impl Line {
    /// Delivers a stream of so many bit/s.
    pub fn start(site: &Site, system: System, rate: u64) -> Result<Line, String> {
        let mut line = Line { _source: None, threads: Threads::default(), millrace: None };
        let stop = line.threads.stop.clone();
        match system {
            System::Millrace => line.millrace = Some(Millrace::start(site)?),
            System::EndToEnd(control) => {
                let listen = || TcpListener::bind(SocketAddrV4::new(SERVER, 80));
                let listener = site.servers.enter(listen).map_err(text)?.map_err(text)?;
                line.threads.spawn(move || serve(&listener, &stop, control, rate));
            }
            System::Relay => {
                let open = || {
                    let listener = TcpListener::bind(SocketAddrV4::new(PROXY, 8081))?;
                    Ok::<_, std::io::Error>((listener, UdpSocket::bind(SocketAddrV4::new(PROXY_AT_SERVERS, PORT))?))
                };
                let (listener, socket) = site.proxy.enter(open).map_err(text)?.map_err(text)?;
                line.threads.spawn(move || relay(&listener, &socket, &stop));
            }
        }
        if !matches!(system, System::EndToEnd(_)) {
            line._source = Some(site.servers.enter(|| Source::start(rate)).map_err(text)??);
        }
        Ok(line)
    }

    /// Ends it, and says what went wrong.
    pub fn end(mut self) -> Result<(), String> {
        self.threads.end()?;
        self.millrace.take().map_or(Ok(()), Millrace::end)
    }
}

/// Threads that end when they are told.
#[derive(Default)]
struct Threads {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<(), String>>>,
}

impl Threads {
    fn spawn(&mut self, work: impl FnOnce() -> Result<(), String> + Send + 'static) {
        self.threads.push(std::thread::spawn(work));
    }

    fn end(&mut self) -> Result<(), String> {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).try_for_each(|own| own.join().map_err(|_| "a thread has panicked")?)
    }
}

/// A server that writes a stream to each client at the stream's rate. What a client is late with it gets as soon as it
/// takes it.
fn serve(listener: &TcpListener, stop: &AtomicBool, control: &str, rate: u64) -> Result<(), String> {
    listener.set_nonblocking(true).map_err(text)?;
    while !stop.load(Ordering::Relaxed) {
        let Ok((mut client, _)) = listener.accept() else {
            std::thread::sleep(LOOK);
            continue;
        };
        client.set_nonblocking(false).map_err(text)?;
        client.set_nodelay(true).map_err(text)?;
        client.set_write_timeout(Some(PATIENCE)).map_err(text)?;
        setsockopt(&client, sockopt::TcpCongestion, &control.to_owned().into()).map_err(text)?;
        // It ends when the client goes.
        std::thread::spawn(move || {
            let mut clock = Clock::new(rate);
            let mut number = 0;
            let mut result = client.write_all(HEAD);
            while result.is_ok() {
                clock.wait();
                result = client.write_all(&payload(number));
                number += 1;
            }
        });
    }
    Ok(())
}

/// A client of the relay, and what it has not taken yet.
struct Client {
    stream: TcpStream,
    kept: Vec<u8>,
}

impl Client {
    /// Writes what is kept and then `bytes`; false where the client is gone.
    fn write(&mut self, bytes: &[u8]) -> bool {
        if self.kept.is_empty() {
            return match self.stream.write(bytes) {
                Ok(written) => {
                    self.kept.extend(&bytes[written..]);
                    true
                }
                Err(error) => {
                    self.kept.extend(bytes);
                    error.kind() == ErrorKind::WouldBlock
                }
            };
        }
        if self.kept.len() + bytes.len() <= MOST_KEPT {
            self.kept.extend(bytes);
        }
        match self.stream.write(&self.kept) {
            Ok(written) => {
                self.kept.drain(..written);
                true
            }
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        }
    }
}

/// Hands packets of a stream to all clients, without their header.
fn relay(listener: &TcpListener, socket: &UdpSocket, stop: &AtomicBool) -> Result<(), String> {
    listener.set_nonblocking(true).map_err(text)?;
    socket.set_read_timeout(Some(LOOK)).map_err(text)?;
    let (mut clients, mut buffer) = (Vec::<Client>::new(), [0; 2 * BYTES]);
    while !stop.load(Ordering::Relaxed) {
        if let Ok((stream, _)) = listener.accept() {
            stream.set_nonblocking(true).map_err(text)?;
            stream.set_nodelay(true).map_err(text)?;
            clients.push(Client { stream, kept: HEAD.to_vec() });
        }
        let Ok(length) = socket.recv(&mut buffer) else { continue };
        if let Some(payload) = buffer.get(12..length) {
            clients.retain_mut(|client| client.write(payload));
        }
    }
    Ok(())
}

/// The translation as a process.
pub struct Millrace {
    running: Running,
    folder: PathBuf,
}

impl Millrace {
    /// It takes connections.
    fn start(site: &Site) -> Result<Millrace, String> {
        let folder = std::env::temp_dir().join(format!("millrace-bench-translate-{}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(text)?;
        let config = folder.join("translate.toml");
        // The example, which may be asked for streams that come to its own address.
        let own = include_str!("../../translate.toml").replace("auto:", "xdp:");
        let own = own.replace("groups = [", &format!("groups = [\"{PROXY_AT_SERVERS}\", "));
        std::fs::write(&config, own).map_err(text)?;
        let program = std::env::current_exe().map_err(text)?.with_file_name("millrace").display().to_string();
        let command = site.proxy.command(&program).args(["run", "translate", "-c"]).arg(&config);
        let command = command.arg("--socket").arg(folder.join("socket")).arg("--state").arg(folder.join("state"));
        let mut millrace = Millrace { running: command.spawn().map_err(text)?, folder };
        millrace.running.wait_for_text("running on 2 ports", PATIENCE).map_err(text)?;
        Ok(millrace)
    }

    /// Ends it as Ctrl-C does.
    fn end(mut self) -> Result<(), String> {
        self.running.signal(Signal::SIGINT).map_err(text)?;
        let output = self.running.wait(PATIENCE).map_err(text)?;
        if output.status.success() { Ok(()) } else { Err(output.to_string()) }
    }
}

impl Drop for Millrace {
    fn drop(&mut self) {
        // What is left in the folder for temporary files is no loss.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

//! Two hosts in network namespaces of their own, with the kernel's TCP, and offloads as the kernel sets them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use super::live::{ip, run};
use crate::sys::check;

/// Bytes of a stream.
pub const BYTES: usize = 24 << 20;
const PATIENCE: Duration = Duration::from_secs(60);
/// What the hosts have as their own, and as each other's.
const MACS: [&str; 2] = ["02:00:00:00:00:01", "02:00:00:00:00:02"];

/// A thread in a network namespace of its own, which does as it is told.
struct Host {
    thread: libc::pid_t,
    work: Sender<Box<dyn FnOnce() + Send>>,
}

impl Host {
    fn new() -> Host {
        let (work, todo) = channel::<Box<dyn FnOnce() + Send>>();
        let (ready, is_ready) = channel();
        std::thread::spawn(move || {
            own_namespace();
            // SAFETY: asks for a number.
            ready.send(unsafe { libc::gettid() }).unwrap();
            todo.into_iter().for_each(|work| work());
        });
        Host { thread: is_ready.recv().unwrap(), work }
    }

    fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
        let (done, result) = channel();
        // Who does not wait does not care.
        self.work.send(Box::new(move || drop(done.send(work())))).unwrap();
        result
    }

    /// Sets the interface up that was given to it, with its own address and those of others.
    fn configure(&self, name: &'static str, own: u8, others: [(u8, &'static str); 2]) {
        let work = move || {
            ip("link set lo up");
            ip(&format!("addr add 10.7.0.{own}/24 dev {name}"));
            ip(&format!("link set dev {name} up"));
            for (other, mac) in others {
                ip(&format!("neigh replace 10.7.0.{other} lladdr {mac} dev {name}"));
            }
        };
        self.run(work).recv_timeout(PATIENCE).unwrap();
    }
}

fn own_namespace() {
    // SAFETY: moves this thread alone, which ends with the test.
    let moved = check(unsafe { libc::unshare(libc::CLONE_NEWNET) });
    moved.expect("a network namespace of its own: run the tests as root");
}

/// Byte of a stream at a place.
fn byte(at: usize) -> u8 {
    (at * 31 + at / 257) as u8
}

fn send(mut stream: &TcpStream, seed: usize) {
    let bytes: Vec<u8> = (0..BYTES).map(|at| byte(at + seed)).collect();
    stream.write_all(&bytes).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
}

fn receive(mut stream: &TcpStream, seed: usize) {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes.len(), BYTES);
    assert!(bytes.iter().enumerate().all(|(at, found)| *found == byte(at + seed)), "other bytes than were sent");
}

fn timed(stream: &TcpStream) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
}

/// A client, 10.7.0.1 at left, and a server, 10.7.0.2 at right, which listens at port 9090. They take each other and
/// 10.7.0.9 to be neighbours. The other ends are a and b, in the namespace of the thread that made them.
pub struct Hosts {
    client: Host,
    server: Host,
}

impl Hosts {
    /// In a new network namespace of this thread. At interfaces that are `off` offloads are.
    pub fn new(off: &[String]) -> Hosts {
        own_namespace();
        let (client, server) = (Host::new(), Host::new());
        for ((host, far, near), mac) in [(&client, "left", "a"), (&server, "right", "b")].into_iter().zip(MACS) {
            ip(&format!("link add dev {far} address {mac} type veth peer name {near}"));
            ip(&format!("link set dev {near} up"));
            ip(&format!("link set dev {far} netns {}", host.thread));
        }
        let features = "tx off tso off gso off";
        for name in off {
            match &name[..] {
                "left" => client.run(move || run("ethtool", &format!("-K left {features}"))).recv().unwrap(),
                "right" => server.run(move || run("ethtool", &format!("-K right {features}"))).recv().unwrap(),
                name => run("ethtool", &format!("-K {name} {features}")),
            }
        }
        client.configure("left", 1, [(9, MACS[1]), (2, MACS[1])]);
        server.configure("right", 2, [(1, MACS[0]), (9, MACS[0])]);
        Hosts { client, server }
    }

    /// The client asks at an address, sends a stream, and gets one back; both are compared. What is to be waited for.
    pub fn exchange(&self, at: &str) -> [Receiver<()>; 2] {
        let address: SocketAddr = at.parse().unwrap();
        let served = self.server.run(|| {
            let listener = TcpListener::bind("10.7.0.2:9090").unwrap();
            let (stream, peer) = listener.accept().unwrap();
            assert_eq!(peer.ip().to_string(), "10.7.0.1");
            timed(&stream);
            receive(&stream, 0);
            send(&stream, 7);
        });
        let asked = self.client.run(move || {
            let until = Instant::now() + PATIENCE;
            let stream = loop {
                match TcpStream::connect_timeout(&address, Duration::from_secs(5)) {
                    // It may not listen yet.
                    Err(_) if Instant::now() < until => std::thread::sleep(Duration::from_millis(10)),
                    stream => break stream.unwrap(),
                }
            };
            timed(&stream);
            send(&stream, 0);
            receive(&stream, 7);
        });
        [asked, served]
    }
}

/// Waits for both hosts.
pub fn both_have_all(hosts: [Receiver<()>; 2]) -> Result<(), &'static str> {
    let results = hosts.map(|host| host.recv_timeout(2 * PATIENCE));
    if results.iter().all(Result::is_ok) { Ok(()) } else { Err("a host has not got what it was sent") }
}

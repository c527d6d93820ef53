//! Hosts with a kernel's stack of their own, whose offloads are as the kernel sets them.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use super::live::{PATIENCE, ip};
use crate::sys;
use crate::testing::SplitMix64;

type Job = Box<dyn FnOnce() + Send>;

/// A host: a network namespace with an interface in it.
pub struct Stack {
    jobs: Sender<Job>,
    /// 1 or 2. Its Ethernet and IP addresses end with it.
    number: u8,
}

impl Stack {
    /// Takes an interface of this thread's namespace into one of its own.
    pub fn take(interface: &'static str, number: u8, mtu: usize) -> Self {
        let (jobs, work) = channel::<Job>();
        let (tell, told) = channel();
        std::thread::spawn(move || {
            // SAFETY: moves this thread alone; the number is that of the thread.
            let (moved, thread) = unsafe { (libc::unshare(libc::CLONE_NEWNET), libc::gettid()) };
            sys::check(moved).expect("a network namespace: run the tests as root");
            tell.send(thread).unwrap();
            work.into_iter().for_each(|job| job());
        });
        ip(&format!("link set dev {interface} netns {}", told.recv().unwrap()));
        let stack = Stack { jobs, number };
        stack.run(move || set_up(interface, number, mtu));
        stack
    }

    /// Does something in the namespace, and waits for it.
    pub fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        let (tell, told) = channel();
        self.jobs.send(Box::new(move || _ = tell.send(job()))).unwrap();
        told.recv().expect("the job is done")
    }

    pub fn address(&self, is_ipv6: bool) -> IpAddr {
        address(is_ipv6, self.number)
    }
}

/// Address of a host.
pub fn address(is_ipv6: bool, number: u8) -> IpAddr {
    if is_ipv6 { [0xfd00, 0, 0, 0, 0, 0, 0, number.into()].into() } else { [10, 9, 0, number].into() }
}

/// Gives an interface of this thread's namespace the addresses of a host, and tells it the other one's.
pub fn set_up(interface: &str, number: u8, mtu: usize) {
    let other = 3 - number;
    ip(&format!("link set dev {interface} down"));
    std::fs::write(format!("/proc/sys/net/ipv6/conf/{interface}/disable_ipv6"), "0").unwrap();
    ip(&format!("link set dev {interface} address 02:00:00:00:00:0{number} mtu {mtu} up"));
    for is_ipv6 in [false, true] {
        let (own, prefix) = (address(is_ipv6, number), if is_ipv6 { "64 nodad" } else { "24" });
        ip(&format!("address add {own}/{prefix} dev {interface}"));
        let other_ip = address(is_ipv6, other);
        ip(&format!("neighbour add {other_ip} lladdr 02:00:00:00:00:0{other} dev {interface} nud permanent"));
    }
}

/// Bytes of a transfer.
pub fn data(bytes: usize) -> Arc<Vec<u8>> {
    let mut random = SplitMix64(9);
    Arc::new((0..bytes / 8).flat_map(|_| random.next().to_ne_bytes()).collect())
}

fn limit(stream: &TcpStream) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
}

/// Sends data over a connection, and takes the same from it at the same time.
pub fn exchange(stream: TcpStream, data: &Arc<Vec<u8>>) {
    limit(&stream);
    let (mut to, own) = (stream.try_clone().unwrap(), data.clone());
    let sender = std::thread::spawn(move || {
        // Large writes and small ones.
        own.chunks(300_000).for_each(|chunk| match chunk.split_at_checked(7) {
            Some((few, more)) => [few, more].iter().for_each(|part| to.write_all(part).unwrap()),
            None => to.write_all(chunk).unwrap(),
        });
        to.shutdown(std::net::Shutdown::Write).unwrap();
    });
    let mut came = Vec::with_capacity(data.len());
    (&stream).read_to_end(&mut came).unwrap();
    sender.join().unwrap();
    assert!(came == **data, "{} bytes of {} came, or others", came.len(), data.len());
}

/// A server in this thread's namespace, which exchanges data with one client.
pub fn serve(address: IpAddr, data: &Arc<Vec<u8>>) -> (SocketAddr, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind((address, 0)).unwrap();
    let (to, data) = (listener.local_addr().unwrap(), data.clone());
    (to, std::thread::spawn(move || exchange(listener.accept().unwrap().0, &data)))
}

/// The client of such a server.
pub fn connect(to: SocketAddr, data: &Arc<Vec<u8>>) {
    exchange(TcpStream::connect_timeout(&to, PATIENCE).unwrap(), data);
}

/// A socket of this thread's namespace that waits for datagrams.
pub fn datagrams(address: IpAddr) -> UdpSocket {
    let socket = UdpSocket::bind((address, 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket
}

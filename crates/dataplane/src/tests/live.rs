//! What tests of ports on live veth pairs share: a network namespace that ends with the test's thread, hosts,
//! instances.
//!
//! Needs the right to make network namespaces (root, or `unshare -Ur`) and `ip` and `tc` of iproute2; fails without.

use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Command;
use std::time::{Duration, Instant};

use baker::opt::Level;
use codegen::OptLevel;

use crate::ports::Driver;
use crate::sys;
use crate::testing::{forward_program, frame};
use crate::{EngineKind, FrameConfig, Instance, Options, PollMode, PortConfig, Snapshot};

/// A driver of network interfaces, by the name of one.
pub type Make = fn(&str) -> Driver;

pub const AFPACKET: Make = |name| Driver::AfPacket { interface: name.to_owned() };
pub const AFXDP: Make = |name| Driver::AfXdp { interface: name.to_owned() };
pub const XDP: Make = |name| Driver::Xdp { interface: name.to_owned() };
pub const TC: Make = |name| Driver::Tc { interface: name.to_owned() };

/// The same tests over each driver of network interfaces, with the pairs left–a and b–right of so many queues.
macro_rules! over_both {
    ($queues:literal: $($test:ident),*) => {
        mod over_afpacket {
            $(#[test] fn $test() { super::live::in_namespace($queues, || super::$test(super::live::AFPACKET)) })*
        }
        mod over_afxdp {
            $(#[test] fn $test() { super::live::in_namespace($queues, || super::$test(super::live::AFXDP)) })*
        }
    };
}
pub(super) use over_both;

/// Runs a test in a fresh network namespace with the pairs left–a and b–right; Millrace gets a (0) and b (1).
pub fn in_namespace(queues: u32, test: impl FnOnce() + Send + 'static) {
    let run = move || {
        // SAFETY: moves this thread alone, which ends with the test.
        let moved = sys::check(unsafe { libc::unshare(libc::CLONE_NEWNET) });
        moved.expect("a network namespace of its own: run the tests as root or in `unshare -Ur`");
        pair("left", "a", queues);
        pair("b", "right", queues);
        test();
    };
    if let Err(panic) = std::thread::spawn(run).join() {
        std::panic::resume_unwind(panic);
    }
}

/// A pair of interfaces that are up, with so many queues. What one sends waits where the other has no room: with XDP it
/// has room for 256 packets, and a busy machine is slow to make more.
pub fn pair(one: &str, other: &str, queues: u32) {
    let queues = format!("numtxqueues {queues} numrxqueues {queues}");
    ip(&format!("link add dev {one} {queues} type veth peer name {other} {queues}"));
    for name in [one, other] {
        // Without it the kernel sends router solicitations and the like in between.
        std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1").unwrap();
        run("tc", &format!("qdisc replace dev {name} root pfifo limit 20000"));
        ip(&format!("link set dev {name} up"));
    }
}

/// Removes a pair of interfaces, and makes another one of which the first end has the same index.
pub fn made_again_with_its_index(one: &str, other: &str) {
    let index = sys::interface(&sys::inet_socket().unwrap(), one).unwrap().index;
    ip(&format!("link del dev {one}"));
    ip(&format!("link add dev {one} index {index} type veth peer name {other}"));
    for name in [one, other] {
        std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1").unwrap();
        ip(&format!("link set dev {name} up"));
    }
}

/// Waits until packets pass both ways once more, then sends some.
pub fn pass_again(left: &Host, right: &Host) {
    let start = Instant::now();
    let probe = frame(0x88b6, u32::MAX, 60);
    for (from, to) in [(left, right), (right, left)] {
        while !to.has_packet() {
            assert!(start.elapsed() < PATIENCE, "packets pass again");
            from.send(&probe);
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(50));
        while to.has_packet() {
            to.expect(&probe);
        }
    }
    for number in 0..100 {
        let packet = frame(0x88b6, number, 60);
        for (from, to) in [(left, right), (right, left)] {
            from.send(&packet);
            to.expect(&packet);
        }
    }
}

/// Lets interfaces receive from a ring of their own: they take packets from programs in the kernel then, and a sender
/// waits where they are slow. Otherwise the kernel has room for 1000 packets per CPU, and drops the rest.
pub fn gro(names: &[&str]) {
    names.iter().for_each(|name| run("ethtool", &format!("-K {name} gro on")));
}

pub fn ip(arguments: &str) {
    run("ip", arguments);
}

pub fn run(program: &str, arguments: &str) {
    let output =
        Command::new(program).args(arguments.split(' ')).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program} {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Capabilities by number (`linux/capability.h`).
pub const CAP_IPC_LOCK: u32 = 14;
pub const CAP_SYS_ADMIN: u32 = 21;
pub const CAP_BPF: u32 = 39;

/// Takes a right from this thread.
pub fn drop_capability(number: u32) {
    // `_LINUX_CAPABILITY_VERSION_3` and this thread; effective, permitted and inheritable, low words and high.
    let header = [0x2008_0522u32, 0];
    let mut sets = [[0u32; 3]; 2];
    // SAFETY: both calls take the header and two sets of three words, which they read or write.
    unsafe {
        assert_eq!(libc::syscall(libc::SYS_capget, &header, &mut sets), 0);
        sets[number as usize / 32][0] &= !(1 << (number % 32));
        assert_eq!(libc::syscall(libc::SYS_capset, &header, &sets), 0, "run the tests as root");
    }
}

/// An instance between a and b.
pub fn start_with(driver: Make, options: Options) -> Instance {
    try_start(driver, options).unwrap_or_else(|error| panic!("{error}"))
}

pub fn try_start(driver: Make, options: Options) -> Result<Instance, crate::StartError> {
    let ports = [("a", 0), ("b", 1)].map(|(name, number)| PortConfig::new(name, number, driver(name)));
    Instance::start(forward_program(), &options, &ports)
}

pub fn start(driver: Make, workers: usize, poll: PollMode) -> Instance {
    let engine = EngineKind::Native(OptLevel::O0, Level::Base);
    // Bursts of tests, 2000 packets in one queue, are not to be lost where a worker does not run for a while.
    let frames = FrameConfig { count: 32768 * workers as u32, ..FrameConfig::default() };
    start_with(driver, Options { engine, poll, workers, frames, ..Options::default() })
}

/// What takes longer does not come.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A host on an interface: a plain packet socket, which shares no code with the driver.
pub struct Host(OwnedFd);

impl Host {
    pub fn on(interface: &str) -> Self {
        let socket = sys::packet_socket().unwrap();
        let index = sys::interface(&socket, interface).unwrap().index;
        sys::set_option(&socket, libc::SOL_PACKET, libc::PACKET_AUXDATA, &1i32).unwrap();
        sys::set_option(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1i32).unwrap();
        // Beyond the system's limit where that is allowed.
        sys::set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &(64i32 << 20))
            .or_else(|_| sys::set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, &(8i32 << 20)))
            .unwrap();
        let timeout = libc::timeval { tv_sec: PATIENCE.as_secs() as i64, tv_usec: 0 };
        sys::set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVTIMEO, &timeout).unwrap();
        sys::bind_packet(&socket, index).unwrap();
        Host(socket)
    }

    pub fn send(&self, packet: &[u8]) {
        // SAFETY: the pointer and the length describe the packet.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), packet.as_ptr().cast(), packet.len(), 0) };
        assert_eq!(sent, packet.len() as isize, "{}", std::io::Error::last_os_error());
    }

    /// The next packet, and the VLAN tag that the kernel took out of it.
    pub fn receive(&self) -> Option<(Vec<u8>, Option<u16>)> {
        let mut bytes = vec![0u8; 70_000];
        let mut control = [0u64; 32];
        // SAFETY: the message describes the two buffers, which outlive the call; the control messages are walked as
        // cmsg(3) says, and the one read is of the type that its level and type name.
        unsafe {
            let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
            let mut message: libc::msghdr = std::mem::zeroed();
            (message.msg_iov, message.msg_iovlen) = (&mut part, 1);
            (message.msg_control, message.msg_controllen) = (control.as_mut_ptr().cast(), size_of_val(&control) as _);
            let len = libc::recvmsg(self.0.as_raw_fd(), &mut message, 0);
            if len < 0 {
                assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EAGAIN));
                return None;
            }
            bytes.truncate(len as usize);
            let header = libc::CMSG_FIRSTHDR(&message);
            assert!(!header.is_null() && (*header).cmsg_type == libc::PACKET_AUXDATA);
            let aux = libc::CMSG_DATA(header).cast::<libc::tpacket_auxdata>().read_unaligned();
            let tag = aux.tp_status & libc::TP_STATUS_VLAN_VALID != 0;
            Some((bytes, tag.then_some(aux.tp_vlan_tci)))
        }
    }

    /// Whether a packet is there.
    pub fn has_packet(&self) -> bool {
        let mut poll = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one structure, which the call writes.
        unsafe { libc::poll(&mut poll, 1, 0) == 1 }
    }

    pub fn expect(&self, packet: &[u8]) {
        let (bytes, tag) = self.receive().expect("the packet arrives");
        assert!(bytes == packet && tag.is_none(), "{} bytes in place of {}", bytes.len(), packet.len());
    }
}

/// Waits until the counters are as asked; they lag behind the packets.
pub fn eventually(instance: &Instance, what: impl Fn(&Snapshot) -> bool) -> Snapshot {
    let start = Instant::now();
    loop {
        let snapshot = instance.snapshot();
        if what(&snapshot) {
            return snapshot;
        }
        assert!(start.elapsed() < PATIENCE, "{snapshot:#?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

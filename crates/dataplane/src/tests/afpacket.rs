//! AF_PACKET ports on live veth pairs, in a network namespace that ends with the test's thread.
//!
//! Needs the right to make network namespaces (root, or `unshare -Ur`) and `ip` of iproute2; fails without.

use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Command;
use std::time::{Duration, Instant};

use baker::opt::Level;
use codegen::OptLevel;

use crate::ports::Driver;
use crate::sys;
use crate::testing::{TO_HOST, forward_program, frame};
use crate::{EngineKind, FrameConfig, Instance, Options, PollMode, PortConfig, Snapshot};

/// Runs a test in a fresh network namespace with the pairs left–a and b–right; Millrace gets a (0) and b (1).
pub fn in_namespace(test: impl FnOnce() + Send + 'static) {
    let run = move || {
        // SAFETY: moves this thread alone, which ends with the test.
        let moved = sys::check(unsafe { libc::unshare(libc::CLONE_NEWNET) });
        moved.expect("a network namespace of its own: run the tests as root or in `unshare -Ur`");
        pair("left", "a");
        pair("b", "right");
        test();
    };
    if let Err(panic) = std::thread::spawn(run).join() {
        std::panic::resume_unwind(panic);
    }
}

/// A pair of interfaces that are up.
pub fn pair(one: &str, other: &str) {
    ip(&format!("link add dev {one} type veth peer name {other}"));
    for name in [one, other] {
        // Without it the kernel sends router solicitations and the like in between.
        std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1").unwrap();
        ip(&format!("link set dev {name} up"));
    }
}

pub fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().expect("`ip` of iproute2 is installed");
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

fn ports() -> Vec<PortConfig> {
    let port = |name: &str, number| PortConfig::new(name, number, Driver::AfPacket { interface: name.to_owned() });
    vec![port("a", 0), port("b", 1)]
}

fn start(poll: PollMode) -> Instance {
    start_with(Options { engine: EngineKind::Native(OptLevel::O0, Level::Base), poll, ..Options::default() })
}

pub fn start_with(options: Options) -> Instance {
    Instance::start(forward_program(), &options, &ports()).unwrap()
}

/// A host on an interface: a plain packet socket, which shares no code with the driver.
pub struct Host(OwnedFd);

impl Host {
    pub fn on(interface: &str) -> Self {
        let socket = sys::packet_socket().unwrap();
        let index = sys::interface(&socket, interface).unwrap().index;
        sys::set_option(&socket, libc::SOL_PACKET, libc::PACKET_AUXDATA, &1i32).unwrap();
        sys::set_option(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1i32).unwrap();
        sys::set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, &(8i32 << 20)).unwrap();
        let timeout = libc::timeval { tv_sec: 5, tv_usec: 0 };
        sys::set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVTIMEO, &timeout).unwrap();
        sys::bind_packet(&socket, index).unwrap();
        Host(socket)
    }

    pub fn send(&self, packet: &[u8]) {
        // SAFETY: the pointer and the length describe the packet.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), packet.as_ptr().cast(), packet.len(), 0) };
        assert_eq!(sent, packet.len() as isize, "{}", std::io::Error::last_os_error());
    }

    /// The next packet within 5 s, and the VLAN tag that the kernel took out of it.
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

    fn expect(&self, packet: &[u8]) {
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
        assert!(start.elapsed() < Duration::from_secs(5), "{snapshot:#?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn forwards_all_lengths_both_ways() {
    for poll in [PollMode::Interrupt, PollMode::Busy] {
        let (left, right) = (Host::on("left"), Host::on("right"));
        let instance = start(poll);
        // 14 is the shortest that a packet socket may send.
        for (number, len) in [14, 15, 60, 64, 128, 1000, 1513, 1514].into_iter().cycle().take(400).enumerate() {
            let packet = frame(0x88b6, number as u32, len);
            let (from, to) = if number % 3 == 0 { (&right, &left) } else { (&left, &right) };
            from.send(&packet);
            to.expect(&packet);
        }
        for burst in 0..20 {
            let packets: Vec<_> = (0..200).map(|n| frame(0x88b6, burst * 1000 + n, 60 + n as usize * 7)).collect();
            packets.iter().for_each(|packet| left.send(packet));
            packets.iter().for_each(|packet| right.expect(packet));
        }
        left.send(&frame(TO_HOST, 1, 60));
        eventually(&instance, |s| s.dropped("no_host") == 1);
        let report = instance.stop();
        assert_eq!(report.errors, [""; 0]);
        assert_eq!(report.free_frames, report.frames);
        let (a, b) = (report.snapshot.port("a").unwrap(), report.snapshot.port("b").unwrap());
        assert_eq!((a.rx_packets, b.tx_packets), (266 + 4000 + 1, 266 + 4000));
        assert_eq!((b.rx_packets, a.tx_packets), (134, 134));
        assert_eq!((a.rx_dropped, a.oversize, a.tx_failed, b.tx_failed), (0, 0, 0, 0));
    }
}

#[test]
fn forwards() {
    in_namespace(forwards_all_lengths_both_ways);
}

#[test]
fn works_unprivileged_in_a_user_namespace() {
    // The same test again in a process whose rights end at its own user namespace.
    let this = std::env::current_exe().unwrap();
    let output = Command::new("unshare")
        .args(["-Urn", this.to_str().unwrap(), "--exact", "tests::afpacket::forwards"])
        .output()
        .expect("`unshare` of util-linux is installed");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
fn vlan_tags_survive() {
    in_namespace(|| {
        let (left, right) = (Host::on("left"), Host::on("right"));
        let instance = start(PollMode::Interrupt);
        for len in [60, 1514] {
            let plain = frame(0x88b6, 1, len);
            let mut tagged = plain.clone();
            // 802.1Q, priority 5, VLAN 100.
            tagged.splice(12..12, [0x81, 0x00, 0xa0, 0x64]);
            left.send(&tagged);
            let (bytes, tag) = right.receive().expect("the packet arrives");
            assert!(bytes == plain, "the receiving kernel takes the tag out again");
            assert_eq!(tag, Some(0xa064));
        }
        let port = instance.stop().snapshot.port("a").unwrap().clone();
        assert_eq!((port.rx_packets, port.rx_bytes), (2, 60 + 1514 + 2 * 4), "the program saw the tag");
    });
}

#[test]
fn too_long_packets_are_counted_and_the_rings_go_on() {
    in_namespace(|| {
        for name in ["left", "a"] {
            ip(&format!("link set dev {name} mtu 9000"));
        }
        let (left, right) = (Host::on("left"), Host::on("right"));
        let instance = start(PollMode::Interrupt);
        let (small, mtu_plus_1) = (frame(0x88b6, 1, 60), frame(0x88b6, 2, 1515));
        // More than a frame holds: just so, more than a slot too, and the most that there is.
        for (len, count) in [(1793, 1), (2049, 2), (9014, 3)] {
            left.send(&frame(0x88b6, 3, len));
            left.send(&small);
            right.expect(&small);
            eventually(&instance, |s| s.port("a").unwrap().oversize == count);
        }
        // More than the other side's MTU.
        for count in 1..=3 {
            left.send(&mtu_plus_1);
            left.send(&small);
            right.expect(&small);
            let snapshot = eventually(&instance, |s| s.port("b").unwrap().tx_failed == count);
            assert_eq!(snapshot.dropped("tx_failed"), count);
        }
        // The MTU shrinks while running: whether the driver or, at first, the kernel notices, the ring goes on.
        ip("link set dev b mtu 600");
        for _ in 0..5 {
            left.send(&frame(0x88b6, 4, 1000));
            left.send(&small);
            right.expect(&small);
        }
        std::thread::sleep(Duration::from_millis(300));
        left.send(&frame(0x88b6, 4, 1000));
        eventually(&instance, |s| s.port("b").unwrap().tx_failed >= 4);
        left.send(&small);
        right.expect(&small);
        let report = instance.stop();
        assert_eq!((report.free_frames, report.errors.len()), (report.frames, 0));
    });
}

#[test]
fn large_frames_carry_jumbo_packets() {
    in_namespace(|| {
        for name in ["left", "a", "b", "right"] {
            ip(&format!("link set dev {name} mtu 65000"));
        }
        let (left, right) = (Host::on("left"), Host::on("right"));
        let frames = FrameConfig { frame_size: 65536, count: 512, ..FrameConfig::default() };
        let instance = start_with(Options { frames, ..Options::default() });
        for (number, len) in [60, 1514, 4000, 9014, 65014].into_iter().enumerate() {
            let packet = frame(0x88b6, number as u32, len);
            left.send(&packet);
            right.expect(&packet);
        }
        assert_eq!(instance.stop().snapshot.port("b").unwrap().tx_failed, 0);
    });
}

#[test]
fn an_interface_that_goes_down_and_comes_back() {
    in_namespace(|| {
        let (left, right) = (Host::on("left"), Host::on("right"));
        let instance = start(PollMode::Interrupt);
        let small = frame(0x88b6, 1, 60);
        left.send(&small);
        right.expect(&small);
        ip("link set dev b down");
        // More than the transmit ring holds.
        for burst in 0..6 {
            (0..1000).for_each(|n| left.send(&frame(0x88b6, burst * 1000 + n, 60)));
            eventually(&instance, |s| s.port("a").unwrap().rx_packets == 1 + u64::from(burst + 1) * 1000);
        }
        let snapshot = eventually(&instance, |s| s.port("b").unwrap().error.is_some());
        let port = snapshot.port("b").unwrap();
        assert_eq!(port.error.as_deref(), Some("b: went down: run `ip link set dev b up`"));
        assert_eq!((port.tx_packets, port.tx_failed), (1, 6000));
        assert_eq!((port.tx_bytes, snapshot.dropped("tx_failed")), (60, 6000));
        ip("link set dev b up");
        // Nothing that is old is sent now, and the error is no more.
        let last = frame(0x88b7, 77, 99);
        left.send(&last);
        right.expect(&last);
        eventually(&instance, |s| s.port("b").unwrap().error.is_none());
        let report = instance.stop();
        assert_eq!((report.free_frames, report.errors), (report.frames, vec![]));
    });
}

#[test]
fn errors_say_what_to_do() {
    in_namespace(|| {
        let error = || {
            let options = Options { engine: EngineKind::Interp, ..Options::default() };
            Instance::start(forward_program(), &options, &ports()).expect_err("refused").to_string()
        };
        ip("link set dev a down");
        assert_eq!(error(), "port a: a: is down: run `ip link set dev a up`");
        ip("link set dev a up");
        ip("link del dev b");
        assert_eq!(error(), "port b: b: there is no such interface in this network namespace (see `ip link`)");
        // A user without rights: of this thread alone, so by the bare system call.
        // SAFETY: changes the user of this thread, which ends with the test.
        let dropped = unsafe { libc::syscall(libc::SYS_setresuid, -1, 65534, -1) };
        assert_eq!(dropped, 0, "run the tests as root");
        let text = error();
        assert!(text.starts_with("port a: a: no permission to open a packet socket: run as root"), "{text}");
    });
}

#[test]
fn an_interface_that_is_removed() {
    in_namespace(|| {
        let left = Host::on("left");
        let instance = start(PollMode::Interrupt);
        ip("link del dev right");
        for n in 0..10 {
            left.send(&frame(0x88b6, n, 60));
        }
        let snapshot =
            eventually(&instance, |s| s.port("a").unwrap().rx_packets == 10 && s.port("b").unwrap().error.is_some());
        assert_eq!(snapshot.port("b").unwrap().error.as_deref(), Some("b: was removed"));
        assert_eq!(snapshot.dropped("tx_failed"), 10);
        // Made again, it is used again.
        pair("b", "right");
        eventually(&instance, |s| s.port("b").unwrap().error.is_none());
        let right = Host::on("right");
        let packet = frame(0x88b6, 11, 60);
        left.send(&packet);
        right.expect(&packet);
        right.send(&packet);
        left.expect(&packet);
        ip("link del dev right");
        let report = instance.stop();
        assert_eq!((report.free_frames, report.errors), (report.frames, vec!["port b: b: was removed".to_owned()]));
    });
}

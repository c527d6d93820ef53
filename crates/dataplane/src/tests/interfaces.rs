//! Ports at network interfaces, on live veth pairs: what holds for each driver.

use std::process::Command;
use std::time::Duration;

use super::live::{
    self, AFPACKET, Host, Make, eventually, in_namespace, ip, over_both, pair, start, start_with, try_start,
};
use crate::testing::{TO_HOST, frame};
use crate::{EngineKind, FrameConfig, Options, PollMode};

over_both!(1: forwards, vlan_tags_survive, too_long_packets_are_counted_and_the_rings_go_on, large_frames_carry_jumbo_packets,
    an_interface_that_goes_down_and_comes_back, an_interface_that_is_removed, an_interface_that_is_made_again_with_its_index);

fn forwards(driver: Make) {
    for poll in [PollMode::Interrupt, PollMode::Busy] {
        let (left, right) = (Host::on("left"), Host::on("right"));
        let instance = start(driver, 1, poll);
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
fn works_unprivileged_in_a_user_namespace() {
    // The same test again in a process whose rights end at its own user namespace.
    let this = std::env::current_exe().unwrap();
    let output = Command::new("unshare")
        .args(["-Urn", this.to_str().unwrap(), "--exact", "tests::interfaces::over_afpacket::forwards"])
        .output()
        .expect("`unshare` of util-linux is installed");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

fn vlan_tags_survive(driver: Make) {
    let (left, right) = (Host::on("left"), Host::on("right"));
    let instance = start(driver, 1, PollMode::Interrupt);
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
}

fn too_long_packets_are_counted_and_the_rings_go_on(driver: Make) {
    for name in ["left", "a"] {
        ip(&format!("link set dev {name} mtu 9000"));
    }
    let (left, right) = (Host::on("left"), Host::on("right"));
    let instance = start(driver, 1, PollMode::Interrupt);
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
    // The MTU shrinks while running: until the driver notices, the kernel may drop what is too long now, or take it.
    // The ring goes on.
    ip("link set dev b mtu 600");
    let large = frame(0x88b6, 4, 1000);
    for _ in 0..5 {
        left.send(&large);
        left.send(&small);
        let received = std::iter::repeat_with(|| right.receive().expect("the packet arrives").0);
        let last = received.take(2).find(|packet| *packet != large);
        assert!(last.is_some_and(|last| last == small));
    }
    std::thread::sleep(Duration::from_millis(300));
    left.send(&large);
    eventually(&instance, |s| s.port("b").unwrap().tx_failed >= 4);
    left.send(&small);
    right.expect(&small);
    let report = instance.stop();
    assert_eq!((report.free_frames, report.errors.len()), (report.frames, 0));
}

fn large_frames_carry_jumbo_packets(driver: Make) {
    for name in ["left", "a", "b", "right"] {
        ip(&format!("link set dev {name} mtu 65000"));
    }
    let (left, right) = (Host::on("left"), Host::on("right"));
    let frames = FrameConfig { frame_size: 65536, count: 512, ..FrameConfig::default() };
    let instance = start_with(driver, Options { frames, ..Options::default() });
    for (number, len) in [60, 1514, 4000, 9014, 65014].into_iter().enumerate() {
        let packet = frame(0x88b6, number as u32, len);
        left.send(&packet);
        right.expect(&packet);
    }
    assert_eq!(instance.stop().snapshot.port("b").unwrap().tx_failed, 0);
}

fn an_interface_that_goes_down_and_comes_back(driver: Make) {
    let (left, right) = (Host::on("left"), Host::on("right"));
    let instance = start(driver, 1, PollMode::Interrupt);
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
}

fn an_interface_that_is_removed(driver: Make) {
    let left = Host::on("left");
    let instance = start(driver, 1, PollMode::Interrupt);
    ip("link del dev right");
    for n in 0..10 {
        left.send(&frame(0x88b6, n, 60));
    }
    let snapshot =
        eventually(&instance, |s| s.port("a").unwrap().rx_packets == 10 && s.port("b").unwrap().error.is_some());
    assert_eq!(snapshot.port("b").unwrap().error.as_deref(), Some("b: was removed"));
    assert_eq!(snapshot.dropped("tx_failed"), 10);
    // Made again, it is used again.
    pair("b", "right", 1);
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
}

fn an_interface_that_is_made_again_with_its_index(driver: Make) {
    let left = Host::on("left");
    let instance = start(driver, 1, PollMode::Interrupt);
    live::made_again_with_its_index("b", "right");
    live::pass_again(&left, &Host::on("right"));
    let report = instance.stop();
    assert_eq!((report.free_frames, report.errors), (report.frames, vec![]));
}

#[test]
fn errors_say_what_to_do() {
    in_namespace(1, || {
        let error = || {
            let options = Options { engine: EngineKind::Interp, ..Options::default() };
            try_start(AFPACKET, options).expect_err("refused").to_string()
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

//! Super-packets of UDP: what comes out at the other end of a veth pair is what would come packet by packet, read by
//! code that shares nothing with the driver.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::live::{AFPACKET, Host, gro, in_namespace, ip, run};
use super::super_packet::total;
use crate::counters::PortCounters;
use crate::packets::{FramePool, TxBatch};
use crate::ports::{self, Common, Extras, Gso, Queue, Sent};
use crate::testing::{SplitMix64, forward_program};
use crate::xdp::PortRole;
use crate::{FrameConfig, sys};

/// A queue at interface b, with frames for its packets.
struct Port {
    pool: Arc<FramePool>,
    queue: Box<dyn Queue>,
    about: String,
    counters: PortCounters,
}

impl Port {
    fn open(gso: Gso, frame_size: u32) -> Self {
        let pool =
            FramePool::new(&forward_program(), FrameConfig { count: 2048, frame_size, ..FrameConfig::default() });
        let (pool, driver) = (Arc::new(pool.unwrap()), AFPACKET("b"));
        let common = Common::new(1, &pool, None, false, "test", std::iter::once(&driver));
        let extras = Extras { gso, ..Extras::default() };
        let mut opened = ports::open(&driver, PortRole { number: 1, host: None }, extras, &common).unwrap();
        let (queue, about) = (opened.queues.pop().unwrap(), opened.about.unwrap_or_default());
        Port { pool, queue, about, counters: PortCounters::default() }
    }

    /// Sends packets as a batch. Those with a place have the bytes from there on in common with the first one that has
    /// the same bytes there.
    fn send(&mut self, packets: &[(Vec<u8>, Option<usize>)]) -> Sent {
        let mut frames: Vec<u32> = (0..packets.len() as u32).collect();
        let mut shared: HashMap<(usize, &[u8]), u32> = HashMap::new();
        let mut more = packets.len() as u32;
        let headroom = self.pool.headroom() as usize;
        for ((bytes, place), frame) in packets.iter().zip(&frames) {
            // SAFETY: all frames are the test's.
            unsafe {
                self.pool.place(*frame, headroom, bytes.len()).copy_from_slice(bytes);
                let Some(place) = place.filter(|place| *place < bytes.len()) else { continue };
                let rest = *shared.entry((place, &bytes[place..])).or_insert_with(|| {
                    more += 1;
                    self.pool.place(more - 1, headroom, bytes.len())[place..].copy_from_slice(&bytes[place..]);
                    more - 1
                });
                // What is not read any more.
                self.pool.place(*frame, headroom, bytes.len())[place..].fill(0xee);
                let descriptor = self.pool.descriptor(*frame);
                ((*descriptor).held, (*descriptor).rest) = ((headroom + place) as u32, rest);
                assert_eq!(self.pool.bytes(*frame).to_vec(), *bytes);
            }
        }
        assert!(more <= self.pool.count());
        // SAFETY: as above.
        let mut batch = unsafe { TxBatch::new(&self.pool, &mut frames) };
        self.queue.transmit(&mut batch)
    }

    /// Super-packets sent, and packets in them.
    fn joined(&mut self) -> (u64, u64) {
        self.queue.tick(&self.counters);
        assert_eq!(self.counters.error(), None);
        (self.counters.tx_super.load(Ordering::Relaxed), self.counters.tx_in_super.load(Ordering::Relaxed))
    }
}

/// A flow of UDP.
#[derive(Clone, Debug)]
struct Flow {
    number: u16,
    is_ipv6: bool,
    tag: Option<u16>,
    ttl: u8,
    /// "Don't fragment".
    is_atomic: bool,
    identification: u16,
}

impl Flow {
    fn new(number: u16) -> Self {
        Flow { number, is_ipv6: false, tag: None, ttl: 64, is_atomic: false, identification: 7 }
    }

    /// The flow's next packet, right in all respects.
    fn packet(&mut self, payload: &[u8]) -> Vec<u8> {
        let [high, low] = self.number.to_be_bytes();
        let mut packet = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, high, low];
        packet.extend(self.tag.iter().flat_map(|tag| [[0x81, 0], tag.to_be_bytes()].concat()));
        let length = payload.len() + 8;
        let udp = [5004, 6000 + self.number, length as u16, 0].map(u16::to_be_bytes).concat();
        let ip = match self.is_ipv6 {
            true => {
                let address = |last| [&[0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, high, low, 0][..], &[last]].concat();
                let mut header = vec![0x60, 0, 0, 9];
                header.extend((length as u16).to_be_bytes());
                header.extend([&[17, self.ttl][..], &address(1), &address(2)].concat());
                header
            }
            false => {
                let mut header = vec![0x45, 0x28];
                header.extend((length as u16 + 20).to_be_bytes());
                header.extend(self.identification.to_be_bytes());
                header.extend([if self.is_atomic { 0x40 } else { 0 }, 0, self.ttl, 17, 0, 0]);
                header.extend([10, 0, high, low, 10, 1, high, low]);
                self.identification = self.identification.wrapping_add(1);
                finish(&mut header, 10, &[]);
                header
            }
        };
        let kind = if self.is_ipv6 { [0x86, 0xdd] } else { [8, 0] };
        packet.extend([&kind[..], &ip, &udp, payload].concat());
        let at = packet.len() - length;
        let addresses = if self.is_ipv6 { 32 } else { 8 };
        let pseudo = [&packet[at - addresses..at], &[0, 17], &(length as u16).to_be_bytes()].concat();
        finish(&mut packet[at..], 6, &pseudo);
        packet
    }
}

/// Writes the checksum of bytes at this place of them.
fn finish(bytes: &mut [u8], place: usize, before: &[u8]) {
    bytes[place..place + 2].fill(0);
    let check = !total(&[before, bytes]);
    let check = if check == 0 && place == 6 { 0xffff } else { check };
    bytes[place..place + 2].copy_from_slice(&check.to_be_bytes());
}

/// Interface b divides nothing and finishes no checksums, and its other end merges nothing.
fn plain_ends() {
    run("ethtool", "-K b tx off tso off gso off tx-udp-segmentation off");
    run("ethtool", "-K right gro off");
}

/// The next packet, its tag in it.
fn receive(host: &Host) -> Vec<u8> {
    let (mut bytes, tag) = host.receive().expect("what was sent arrives");
    if let Some(tag) = tag {
        bytes.splice(12..12, [[0x81, 0], tag.to_be_bytes()].concat());
    }
    bytes
}

/// Whether a packet came as it was sent. The identification of an IPv4 packet that must not be fragmented may be
/// another one.
fn is_same(came: &[u8], sent: &[u8]) -> bool {
    if came == sent {
        return true;
    }
    let ip = if sent[12..14] == [0x81, 0] { 18 } else { 14 };
    let is_atomic = sent[ip - 2..ip] == [8, 0] && sent[ip] == 0x45 && sent[ip + 6..ip + 8] == [0x40, 0];
    let without = |packet: &[u8]| {
        let mut packet = packet.to_vec();
        packet[ip + 4..ip + 6].fill(0);
        packet[ip + 10..ip + 12].fill(0);
        packet
    };
    let is_right = |packet: &[u8]| total(&[&packet[ip..ip + 20]]) == 0xffff;
    is_atomic && came.len() == sent.len() && is_right(came) && is_right(sent) && without(came) == without(sent)
}

/// A packet, perhaps with something about it that keeps it from others.
fn some_packet(flow: &mut Flow, size: usize, random: &mut SplitMix64) -> Vec<u8> {
    if flow.is_atomic && random.below(2) == 0 {
        flow.identification = [0, flow.identification, random.next() as u16][random.below(3) as usize];
    }
    let size = if random.below(8) == 0 { random.below(size as u64 + 1) as usize } else { size };
    let payload: Vec<u8> = (0..size).map(|at| (at as u64 * 7 + u64::from(flow.number)) as u8).collect();
    let mut packet = flow.packet(&payload);
    let ip = if flow.tag.is_some() { 18 } else { 14 };
    let udp = ip + if flow.is_ipv6 { 40 } else { 20 };
    match random.below(40) {
        // Wrong in one place: a checksum, a length, the payload.
        0 => packet[udp + 6] ^= 1,
        1 => packet[udp + 5] ^= 1,
        2 => *packet.last_mut().unwrap() ^= 1,
        3 if !flow.is_ipv6 => packet[ip + 10] ^= 1,
        // Without a checksum.
        4 => packet[udp + 6..udp + 8].fill(0),
        // Padded.
        5 => packet.extend([0; 3]),
        // Another way of service, another hop count.
        6 if !flow.is_ipv6 => {
            packet[ip + 1] ^= 3;
            finish(&mut packet[ip..ip + 20], 10, &[]);
        }
        7 if flow.is_ipv6 => packet[ip + 7] -= 1,
        // A fragment, or behind another header.
        8 if !flow.is_ipv6 => {
            packet[ip + 6] = 0x20;
            finish(&mut packet[ip..ip + 20], 10, &[]);
        }
        8 => packet[ip + 6] = 44,
        // TCP.
        9 => packet[if flow.is_ipv6 { ip + 6 } else { ip + 9 }] = 6,
        // Neither.
        10 => packet[ip - 2..ip].copy_from_slice(&[0x88, 0xb5]),
        // An identification that does not follow.
        11 if !flow.is_ipv6 => flow.identification = flow.identification.wrapping_add(1000),
        _ => {}
    }
    packet
}

/// Batches of many flows come out as they are, each flow in its order.
fn as_they_are(frame_size: u32, most: usize, seed: u64, rounds: usize) {
    plain_ends();
    let mut random = SplitMix64(seed);
    let host = Host::on("right");
    let mut port = Port::open(Gso::Auto, frame_size);
    assert!(port.about.contains("the kernel divides"), "{}", port.about);
    let mut sent_in_all = 0;
    for round in 0..rounds {
        let mut flows: Vec<Flow> = (0..1 + random.below(12) as u16)
            .map(|number| Flow {
                is_ipv6: random.below(2) == 0,
                tag: (random.below(4) == 0).then_some(0x2064),
                ttl: 2 + random.below(250) as u8,
                is_atomic: random.below(2) == 0,
                identification: random.next() as u16,
                ..Flow::new(number)
            })
            .collect();
        let sizes: Vec<usize> = flows.iter().map(|_| 1 + random.below(most as u64 - 62) as usize).collect();
        let splits: Vec<Option<usize>> =
            flows.iter().map(|_| (random.below(3) > 0).then(|| 14 + random.below(100) as usize)).collect();
        let count = 1 + random.below(if most > 2000 { 120 } else { 220 }) as usize;
        let mut packets = Vec::new();
        while packets.len() < count {
            let at = random.below(flows.len() as u64) as usize;
            for _ in 0..=random.below(12) {
                packets.push((some_packet(&mut flows[at], sizes[at], &mut random), splits[at]));
            }
        }
        let sent = port.send(&packets);
        let bytes: u64 = packets.iter().map(|(packet, _)| packet.len() as u64).sum();
        assert_eq!(sent, Sent { packets: packets.len(), bytes }, "round {round}");
        sent_in_all += packets.len() as u64;
        let mut due: HashMap<Vec<u8>, VecDeque<&[u8]>> = HashMap::new();
        for (packet, _) in &packets {
            due.entry(packet[6..12].to_vec()).or_default().push_back(packet);
        }
        for _ in 0..packets.len() {
            let came = receive(&host);
            // Those of other protocols are other flows, but have a number, too, and come in order among themselves.
            let queue = due.get_mut(&came[6..12]).expect("it was sent");
            let place = queue
                .iter()
                .position(|sent| is_same(&came, sent))
                .unwrap_or_else(|| panic!("round {round}: {came:02x?}\nis not one of\n{:02x?}", queue.front()));
            // What it overtook is of other flows.
            let is_udp = |packet: &[u8]| {
                let ip = if packet[12..14] == [0x81, 0] { 18 } else { 14 };
                match packet[ip - 2..ip] {
                    [8, 0] => packet[ip + 9] == 17,
                    [0x86, 0xdd] => packet[ip + 6] == 17 || packet[ip + 6] == 44,
                    _ => false,
                }
            };
            let overtaken = queue.iter().take(place);
            assert!(overtaken.clone().all(|other| is_udp(other) != is_udp(&came)), "round {round}: {came:02x?}");
            queue.remove(place);
        }
    }
    let (joined, packets) = port.joined();
    assert!(joined > 0 && packets > sent_in_all / 3 && packets < sent_in_all, "{joined} {packets} {sent_in_all}");
}

#[test]
fn what_comes_out_is_what_would_come_packet_by_packet() {
    in_namespace(1, || as_they_are(2048, 1500, 1, 60));
}

#[test]
fn jumbo_packets_do_so_too() {
    in_namespace(1, || {
        ["b", "right"].iter().for_each(|name| ip(&format!("link set dev {name} mtu 9000")));
        as_they_are(16384, 9000, 2, 25);
    });
}

/// The packets of some flows by turns, as a program makes them that copies each packet to all.
fn by_turns(flows: &mut [Flow], packets: usize, payload: &[u8]) -> Vec<(Vec<u8>, Option<usize>)> {
    let packet = |flow: &mut Flow| (flow.packet(payload), Some(42 + usize::from(flow.number)));
    (0..packets).flat_map(|_| flows.iter_mut().map(packet).collect::<Vec<_>>()).collect()
}

#[test]
fn a_flow_s_packets_of_a_batch_are_one() {
    in_namespace(1, || {
        plain_ends();
        let (host, mut port) = (Host::on("right"), Port::open(Gso::Auto, 2048));
        let mut flows: Vec<Flow> = (0..10).map(Flow::new).collect();
        let mut expect = |port: &mut Port, packets: usize, more: (u64, u64)| {
            let before = port.joined();
            let packets = by_turns(&mut flows, packets, &[7; 1328]);
            assert_eq!(port.send(&packets).packets, packets.len());
            let mut came: Vec<_> = packets.iter().map(|_| receive(&host)).collect();
            let mut sent: Vec<_> = packets.into_iter().map(|(packet, _)| packet).collect();
            // Each flow in order; identifications are part of it.
            came.sort_by_key(|packet| packet[11]);
            sent.sort_by_key(|packet| packet[11]);
            assert!(came == sent);
            let after = port.joined();
            assert_eq!((after.0 - before.0, after.1 - before.1), more);
        };
        expect(&mut port, 8, (10, 80));
        // Too few to be worth it.
        expect(&mut port, 3, (0, 0));
        // As many as older kernels divide, and as many as fit the length of an IP packet.
        flows.truncate(1);
        let mut expect = |port: &mut Port, packets: usize, size: usize, more: (u64, u64)| {
            let before = port.joined();
            let packets = by_turns(&mut flows, packets, &vec![7; size]);
            assert_eq!(port.send(&packets).packets, packets.len());
            packets.iter().for_each(|(packet, _)| assert!(receive(&host) == *packet));
            let after = port.joined();
            assert_eq!((after.0 - before.0, after.1 - before.1), more);
        };
        expect(&mut port, 130, 10, (3, 130));
        expect(&mut port, 100, 1400, (3, 100));
    });
}

#[test]
fn nothing_is_lost_or_overtaken_where_the_kernel_takes_no_more() {
    in_namespace(1, || {
        plain_ends();
        gro(&["right"]);
        run("tc", "qdisc replace dev b root tbf rate 200mbit burst 100kb limit 60kb");
        let (host, mut port) = (Host::on("right"), Port::open(Gso::Auto, 2048));
        let mut flows: Vec<Flow> = (0..4).map(Flow::new).collect();
        for round in 0..10 {
            // More than the queueing discipline has room for, then some that are not worth joining, then more again.
            let batches = [30, 1, 10].map(|packets| by_turns(&mut flows, packets, &[round; 1300]));
            let mut due: HashMap<u8, VecDeque<Vec<u8>>> = HashMap::new();
            for batch in &batches {
                assert_eq!(port.send(batch).packets, batch.len(), "round {round}");
                batch.iter().for_each(|(packet, _)| due.entry(packet[11]).or_default().push_back(packet.clone()));
            }
            let left = |due: &HashMap<u8, VecDeque<Vec<u8>>>| due.values().map(VecDeque::len).sum::<usize>();
            let start = Instant::now();
            while left(&due) > 0 {
                assert!(start.elapsed() < Duration::from_secs(20), "round {round}: {} are missing", left(&due));
                // What waits is sent now and then.
                port.joined();
                while host.has_packet() {
                    let came = receive(&host);
                    let next = due.get_mut(&came[11]).and_then(VecDeque::pop_front);
                    assert!(next == Some(came), "round {round}: in order, none lost");
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let (joined, packets) = port.joined();
        assert!(joined > 10 && packets < 10 * 41 * 4, "{joined} {packets}: some went the other way");
    });
}

#[test]
fn what_the_kernel_would_make_right_goes_as_it_is() {
    in_namespace(1, || {
        plain_ends();
        let (host, mut port) = (Host::on("right"), Port::open(Gso::Auto, 2048));
        let mut flow = Flow::new(3);
        // Its checksum is zero, which is sent as 0xffff. Zero itself says that there is none.
        let mut payload = [5; 100];
        payload[..2].fill(0);
        let check = flow.packet(&payload)[40..42].to_vec();
        payload[..2].copy_from_slice(&check);
        let right: Vec<_> = (0..8).map(|_| flow.packet(&payload)).collect();
        assert!(right.iter().all(|packet| packet[40..42] == [0xff; 2]));
        let mut without = right.clone();
        without.iter_mut().for_each(|packet| packet[40..42].fill(0));
        let mut wrong = right.clone();
        wrong.iter_mut().for_each(|packet| packet[41] ^= 1);
        let mut expect = |packets: Vec<Vec<u8>>, joined: u64| {
            let before = port.joined().1;
            assert_eq!(port.send(&packets.iter().map(|packet| (packet.clone(), None)).collect::<Vec<_>>()).packets, 8);
            packets.iter().for_each(|packet| host.expect(packet));
            assert_eq!(port.joined().1 - before, joined);
        };
        expect(without, 0);
        expect(wrong.clone(), 0);
        expect([&right[..2], &wrong[2..3], &right[3..]].concat(), 7);
        expect(right, 8);
    });
}

#[test]
fn what_is_sent_alone_waits_for_what_was_sent_before_it_alone() {
    in_namespace(1, || {
        plain_ends();
        run("tc", "qdisc replace dev b root tbf rate 2mbit burst 16kb limit 1mb");
        let (host, mut port) = (Host::on("right"), Port::open(Gso::Auto, 2048));
        let mut flow = [Flow::new(1)];
        let batches = [20, 1, 1].map(|packets| by_turns(&mut flow, packets, &[6; 1000]));
        for batch in &batches {
            assert_eq!(port.send(batch).packets, batch.len());
        }
        // Without another call of the port.
        batches.iter().flatten().for_each(|(packet, _)| host.expect(packet));
        assert_eq!(port.joined(), (1, 20));
    });
}

#[test]
fn an_interface_that_divides_nothing_gets_packets_one_by_one() {
    in_namespace(1, || {
        let host = Host::on("right");
        let packets = by_turns(&mut [Flow::new(1)], 8, &[1; 1000]);
        let alone = |port: &mut Port| {
            assert_eq!(port.send(&packets).packets, 8);
            packets.iter().for_each(|(packet, _)| host.expect(packet));
            assert_eq!(port.joined(), (0, 0));
        };
        // A veth device as it is made: it would hand on super-packets.
        let mut port = Port::open(Gso::Auto, 2048);
        assert!(port.about.contains("run `ethtool -K b tx off tx-udp-segmentation off`"), "{}", port.about);
        alone(&mut port);
        drop(port);
        // Where that is wanted, it does.
        let mut port = Port::open(Gso::On, 2048);
        assert!(port.about.contains("the device divides"), "{}", port.about);
        assert_eq!(port.send(&packets).packets, 8);
        assert_eq!(host.receive().unwrap().0.len(), 42 + 8 * 1000);
        assert_eq!(port.joined(), (1, 8));
        drop(port);
        plain_ends();
        let mut port = Port::open(Gso::Off, 2048);
        assert_eq!(port.about, "");
        alone(&mut port);
        // An interface that goes down takes nothing, and is used again.
        drop(port);
        let mut port = Port::open(Gso::Auto, 2048);
        ip("link set dev b down");
        assert_eq!(port.send(&packets), Sent::default());
        ip("link set dev b up");
        let start = Instant::now();
        while port.send(&packets).packets == 0 {
            assert!(start.elapsed() < Duration::from_secs(20));
            port.queue.tick(&port.counters);
            std::thread::sleep(Duration::from_millis(10));
        }
        packets.iter().for_each(|(packet, _)| host.expect(packet));
        assert_eq!(port.joined(), (1, 8));
    });
}

#[test]
fn the_kernel_s_version_is_known() {
    assert!(sys::is_linux_from(4, 20) && !sys::is_linux_from(1000, 0));
}

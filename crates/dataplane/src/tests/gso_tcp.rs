//! Super-packets of TCP: what comes out at the other end is what would come packet by packet.

use std::collections::{HashMap, VecDeque};

use super::gso::{Port, is_same, plain_ends, receive};
use super::live::{Host, in_namespace};
use super::super_packet::Super;
use crate::ports::Gso;
use crate::testing::SplitMix64;

/// One direction of a connection.
struct Flow {
    number: u8,
    next: Super,
    acknowledged: u8,
    window: u8,
}

impl Flow {
    fn new(number: u8, payload: usize, random: &mut SplitMix64) -> Self {
        let next = Super {
            tags: if random.below(4) == 0 { vec![0x2064] } else { Vec::new() },
            is_atomic: random.below(2) == 0,
            identification: random.next() as u16,
            tcp_options: 4 * random.below(11) as usize,
            sequence: random.next() as u32,
            flags: 0x10,
            ..Super::new(random.below(2) == 0, true, payload)
        };
        Flow { number, next, acknowledged: 1, window: 1 }
    }

    /// Its next packet, which may have something about it that keeps it from others, or ends a super-packet.
    fn packet(&mut self, random: &mut SplitMix64) -> Vec<u8> {
        let mut packet = self.next.clone();
        let (number, mut urgent) = (self.number, 0);
        match random.below(60) {
            0 => packet.flags |= 0x08,
            1 => packet.flags |= 0x01,
            2 => packet.flags |= 0x80,
            3 => packet.flags |= [0x02, 0x04, 0x20, 0x40][random.below(4) as usize],
            4 => self.acknowledged += 1,
            5 => self.window += 1,
            6 => packet.payload.truncate(random.below(packet.payload.len() as u64 + 1) as usize),
            7 => packet.sequence = packet.sequence.wrapping_add(1),
            8 => packet.identification = packet.identification.wrapping_add(7),
            9 => urgent = 1,
            // A fragment's header, or options: neither is joined to anything.
            10 if !packet.is_ipv6 => packet.options = 8,
            _ => {}
        }
        let (acknowledged, window) = (self.acknowledged, self.window);
        let mut bytes = packet.finished(|tcp| {
            tcp[1] = number;
            (tcp[8], tcp[14], tcp[19]) = (acknowledged, window, urgent);
        });
        bytes[11] = number;
        match random.below(60) {
            // A wrong checksum, or a payload that is not what it was.
            0 => bytes[packet.transport() + 16] ^= 4,
            1 => *bytes.last_mut().unwrap() ^= 4,
            // Padded.
            2 => bytes.extend([0; 2]),
            _ => {}
        }
        self.next.sequence = packet.sequence.wrapping_add(packet.payload.len() as u32);
        self.next.identification = packet.identification.wrapping_add(1);
        bytes
    }
}

#[test]
fn what_comes_out_is_what_would_come_packet_by_packet() {
    in_namespace(1, || {
        plain_ends();
        let mut random = SplitMix64(5);
        let (host, mut port) = (Host::on("right"), Port::open(Gso::Auto, 2048));
        assert!(port.about.contains("the kernel divides"), "{}", port.about);
        let mut sent_in_all = 0;
        for round in 0..80 {
            let mut flows: Vec<Flow> = (0..1 + random.below(6) as u8)
                .map(|number| Flow::new(number, 1 + random.below(1300) as usize, &mut random))
                .collect();
            let mut packets = Vec::new();
            while packets.len() < 150 {
                let at = random.below(flows.len() as u64) as usize;
                for _ in 0..=random.below(40) {
                    packets.push((flows[at].packet(&mut random), None));
                }
            }
            assert_eq!(port.send(&packets).packets, packets.len(), "round {round}");
            sent_in_all += packets.len() as u64;
            let mut due: HashMap<u8, VecDeque<&[u8]>> = HashMap::new();
            for (packet, _) in &packets {
                due.entry(packet[11]).or_default().push_back(packet);
            }
            for _ in 0..packets.len() {
                let came = receive(&host);
                let sent = due.get_mut(&came[11]).and_then(VecDeque::pop_front).expect("it was sent");
                assert!(is_same(&came, sent), "round {round}: {came:02x?}\nis not\n{sent:02x?}");
            }
        }
        let (joined, packets) = port.joined();
        assert!(joined > 100 && packets > sent_in_all / 3 && packets < sent_in_all, "{joined} {packets} {sent_in_all}");
    });
}

/// The first one may say that the congestion window was reduced, and the last one that data is to be pushed.
#[test]
fn flags_of_the_first_and_of_the_last_one_are_kept() {
    in_namespace(1, || {
        plain_ends();
        let (host, mut port) = (Host::on("right"), Port::open(Gso::Auto, 2048));
        for is_ipv6 in [false, true] {
            let mut next = Super::new(is_ipv6, true, 1000);
            let mut packet = |flags| {
                next.flags = flags;
                let bytes = next.finished(|_| ());
                next.sequence = next.sequence.wrapping_add(1000);
                next.identification = next.identification.wrapping_add(1);
                (bytes, None)
            };
            let flags = [0x90, 0x10, 0x10, 0x10, 0x18, 0x10, 0x10, 0x10, 0x10, 0x19];
            let packets: Vec<_> = flags.into_iter().map(&mut packet).collect();
            let before = port.joined();
            assert_eq!(port.send(&packets).packets, 10);
            packets.iter().for_each(|(packet, _)| assert!(receive(&host) == *packet));
            let after = port.joined();
            assert_eq!((after.0 - before.0, after.1 - before.1), (2, 10));
        }
    });
}

//! What sources send: all forms that are taken, and what is not.

use baker::ir::interp::End;
use baker::ir::{TableId, TableStore};
use dataplane::EngineKind;

use crate::client::{fold, frame, pseudo, sum};
use crate::stream::{payload, payload_of};
use crate::world::{Scene, World};
use crate::{program, quiet, streamed};

/// Addresses and ports of a datagram.
#[derive(Clone, Copy)]
pub struct Flow {
    src: [u8; 4],
    dst: [u8; 4],
    ports: [u16; 2],
}

pub const SOURCE: Flow = Flow { src: [10, 0, 2, 11], dst: [10, 0, 2, 1], ports: [5000, 5001] };

/// A frame with a datagram.
pub fn udp(flow: Flow, payload: &[u8]) -> Vec<u8> {
    let mut udp = flow.ports.map(u16::to_be_bytes).concat();
    udp.extend((8 + payload.len() as u16).to_be_bytes());
    udp.extend([0, 0]);
    udp.extend(payload);
    let checksum = !fold(sum(&udp) + pseudo(flow.src, flow.dst, 17, udp.len()));
    udp[6..8].copy_from_slice(&checksum.to_be_bytes());
    frame(flow.src, flow.dst, 17, &udp)
}

/// An RTP packet.
pub fn rtp(number: u16, payload: &[u8]) -> Vec<u8> {
    let mut rtp = vec![0x80, 33];
    rtp.extend(number.to_be_bytes());
    rtp.extend([0, 0, 0, 0, 0, 0, 0, 9]);
    rtp.extend(payload);
    rtp
}

/// Packets in a stream's ring.
fn in_ring(world: &World, stream: u128) -> u128 {
    let at = program().tables.iter().position(|table| table.name == "ring.streams").unwrap();
    world.stepper.get(TableId(at as u32), &[stream], None).unwrap()[5]
}

#[test]
fn bare_packets_are_delivered() {
    for form in [1, 2] {
        let (_, read) = streamed(Scene { bare: true, form, ..quiet() }, 500);
        assert!(read.packets > 95 && read.missing == 0 && read.nulls == 0, "{read:?}");
    }
}

#[test]
fn rtp_and_bare_packets_are_told_apart() {
    let mut world = World::new(&program(), Scene { form: 2, ..quiet() });
    world.running = false;
    world.connect();
    world.run(50);
    for number in 0..20u32 {
        let body = payload(number);
        let bytes = if number % 2 == 0 { body } else { rtp(number as u16 / 2, &body) };
        world.receive_source(&udp(SOURCE, &bytes));
        world.run(2);
    }
    world.run(100);
    let expected: Vec<u8> = (0..20).flat_map(payload).collect();
    assert_eq!(world.client.data.strip_prefix(crate::world::HEAD), Some(&expected[..]));
}

#[test]
fn of_a_group_anybody_may_be_the_sender() {
    let mut world = World::new(&program(), quiet());
    world.running = false;
    for (number, sender) in (0..).zip([[10, 0, 2, 77], [10, 0, 2, 78], [192, 0, 2, 1]]) {
        let flow = Flow { src: sender, dst: [239, 1, 2, 3], ports: [4000 + number as u16, 5004] };
        world.receive_source(&udp(flow, &payload(number)));
    }
    assert_eq!(in_ring(&world, 4), 3);
    // Another group, and another port, are the host's.
    for (dst, port) in [([239, 1, 2, 4], 5004), ([239, 1, 2, 3], 5005)] {
        let flow = Flow { src: [10, 0, 2, 77], dst, ports: [4000, port] };
        let out = world.stepper.receive(2, &udp(flow, &payload(9)));
        assert!(matches!(out[..], [ref own] if own.end == End::Host));
    }
}

#[test]
fn what_is_no_stream_is_not_taken() {
    for engine in [EngineKind::NATIVE, EngineKind::Interp] {
        let mut world = World::new(&program(), Scene { engine, ..quiet() });
        world.running = false;
        let good = udp(SOURCE, &rtp(1, &payload(1)));
        let changed = |at: usize, bytes: &[u8]| {
            let mut frame = good.clone();
            frame[at..at + bytes.len()].copy_from_slice(bytes);
            frame
        };
        let of = |packet: &[u8]| udp(SOURCE, packet);
        let with = |first: u8, rest: &[u8]| {
            let mut packet = rtp(1, rest);
            packet[0] = first;
            packet
        };
        let parts = |count: usize, cut: usize| {
            let body = payload_of(1, 7);
            body[..188 * count - cut].to_vec()
        };
        let mut unsynchronized = payload(1);
        unsynchronized[0] = 0x48;
        let bad = [
            // The datagram says that it is longer, shorter, nothing.
            changed(38, &2000u16.to_be_bytes()),
            changed(38, &100u16.to_be_bytes()),
            changed(38, &[0, 0]),
            changed(38, &7u16.to_be_bytes()),
            // Not whole packets of MPEG-TS, or none.
            of(&rtp(1, &parts(7, 1))),
            of(&rtp(1, &parts(1, 187))),
            of(&rtp(1, &[])),
            of(&rtp(1, &unsynchronized)),
            // Another version of RTP, another payload type, reports, headers that are longer than the packet.
            of(&with(0x40, &payload(1))),
            of(&[0x80, 96, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9]),
            of(&[&[0x80, 96][..], &rtp(1, &payload(1))[2..]].concat()),
            of(&with(0x8f, &[0x47; 20])),
            of(&with(0x90, &[0xbe, 0xde, 0xff, 0xff, 0x47])),
            // Padding that is longer than the packet, or of no bytes.
            of(&with(0xa0, &[&payload(1)[..], &[0, 0, 0, 0]].concat())),
            of(&with(0xa0, &[&payload(1)[..187], &[255]].concat())),
            of(&[0x80]),
            of(&[]),
        ];
        for (index, frame) in bad.iter().enumerate() {
            let out = world.stepper.receive(2, frame);
            assert!(out.iter().all(|own| own.end == End::Host), "{index}");
            assert_eq!(in_ring(&world, 3), 0, "{index}");
        }
        // Fragments, options and what is cut off are the host's.
        for frame in [changed(20, &[0x20, 0]), changed(20, &[0, 1]), changed(14, &[0x46]), good[..700].to_vec()] {
            let out = world.stepper.receive(2, &frame);
            assert!(matches!(out[..], [ref own] if own.end == End::Host && own.bytes == frame));
        }
        assert_eq!(in_ring(&world, 3), 0);
        // Padding of the frame is none of the packet; a sum of zero says nothing.
        world.receive_source(&[&good[..], &[1, 2, 3]].concat());
        world.receive_source(&udp(SOURCE, &rtp(2, &payload(2))));
        let mut unsummed = udp(SOURCE, &rtp(3, &payload(3)));
        unsummed[40..42].fill(0);
        world.receive_source(&unsummed);
        assert_eq!(in_ring(&world, 3), 3);
        world.connect();
        world.run(100);
        let body = world.client.data.strip_prefix(crate::world::HEAD).unwrap();
        assert_eq!(body, payload(3), "with a sum of its own");
    }
}

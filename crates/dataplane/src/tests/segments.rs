//! Segments are those that the kernel makes of the same super-packet.

use std::os::fd::{AsRawFd, OwnedFd};

use super::live::{Host, in_namespace, run};
use super::super_packet::Super;
use crate::packets::{Segments, Unfinished};
use crate::sys;
use crate::testing::SplitMix64;

/// A host that leaves checksums and segments to its kernel.
pub struct Unfinisher(OwnedFd);

impl Unfinisher {
    pub fn on(interface: &str) -> Self {
        let socket = sys::packet_socket().unwrap();
        // `PACKET_VNET_HDR`
        sys::set_option(&socket, libc::SOL_PACKET, 15, &1i32).unwrap();
        let index = sys::interface(&socket, interface).unwrap().index;
        sys::bind_to_send(&socket, index).unwrap();
        Unfinisher(socket)
    }

    /// Sends a packet with segments of so many bytes of payload; it is none where that is 0.
    pub fn send(&self, packet: &Super, size: u16) {
        let bytes = [&packet.header(size)[..], &packet.bytes()].concat();
        // SAFETY: the pointer and the length describe the bytes.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) };
        assert_eq!(sent, bytes.len() as isize, "{packet:?}: {}", std::io::Error::last_os_error());
    }
}

/// A packet of any kind that the kernel can divide.
pub fn some_super(random: &mut SplitMix64) -> (Super, u16) {
    let (is_ipv6, is_tcp) = (random.below(2) == 0, random.below(2) == 0);
    let size = 200 + random.below(1200) as u16;
    // The kernel makes no more segments of UDP than 128, and none of less than one.
    let most = if is_tcp { 60_000 } else { u64::from(size) * 40 };
    let payload = u64::from(size) + 1 + random.below(most.min(60_000) - u64::from(size));
    let packet = Super {
        tags: if random.below(3) == 0 { vec![0x2064] } else { Vec::new() },
        is_atomic: random.below(2) == 0,
        identification: random.next() as u16,
        options: 8 * random.below(3) as usize,
        tcp_options: 4 * random.below(11) as usize,
        // Any but SYN and RST.
        flags: 0x10 | random.next() as u8 & 0xf9,
        sequence: random.next() as u32,
        ..Super::new(is_ipv6, is_tcp, payload as usize)
    };
    (packet, size)
}

#[test]
fn segments_are_those_of_the_kernel() {
    in_namespace(1, || {
        run("ethtool", "-K left tx off tso off gso off tx-udp-segmentation off");
        run("ethtool", "-K a gro off");
        let (sender, host) = (Unfinisher::on("left"), Host::on("a"));
        let mut random = SplitMix64(3);
        for round in 0..200 {
            let (packet, mut size) = some_super(&mut random);
            if round % 5 == 0 {
                // The kernel only computes the checksum.
                size = 0;
            }
            let packet = if size == 0 { Super { payload: packet.payload[..200].to_vec(), ..packet } } else { packet };
            sender.send(&packet, size);
            let bytes = packet.bytes();
            let left = Unfinished::read(&packet.header(size)).unwrap();
            let mut segments = Segments::new(&bytes, &left, None).unwrap();
            let all = segments.left();
            while let Some(len) = segments.next_len() {
                let number = all - segments.left();
                let mut own = vec![0; len];
                segments.write(&bytes, &mut own);
                let (mut kernels, tag) = host.receive().expect("the kernel's segment arrives");
                if let Some(tag) = tag {
                    kernels.splice(12..12, [[0x81, 0], tag.to_be_bytes()].concat());
                }
                assert!(
                    own == kernels,
                    "round {round}, segment {number} of {all}: {packet:?} {size}\n{own:02x?}\n{kernels:02x?}"
                );
            }
        }
        assert!(!host.has_packet());
    });
}

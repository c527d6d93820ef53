//! Packets that get bytes in front at traffic control, and go to the host.

use std::net::UdpSocket;
use std::time::Duration;

use super::live::{Host, TC, eventually, gro, in_namespace, ip};
use super::tc::{question, whole};
use super::xdp::prepare_at;
use crate::testing::{compiled_with_operations, frame};

/// What comes in of one kind gets to the host in a UDP datagram with a header of an even size in front, of another kind
/// with one of an odd size.
const INTO_UDP: &str = "import \"net/udp\"; import \"net/ipv4\";
protocol even { kind : u16; demux { 2 }; }
protocol odd { kind : u8; demux { 1 }; }
module m {
    in ether input; out ether for_host, output; channel even evens; channel odd odds; channel udp framed;
    ppf first(ether_packet_t *pkt) from input {
        if (pkt->type == 0x88b6) { even_packet_t *e = packet_encap(pkt); e->kind = 0x6565; channel_put(evens, e); return; }
        if (pkt->type == 0x88b7) { odd_packet_t *o = packet_encap(pkt); o->kind = 0x6f; channel_put(odds, o); return; }
        if (pkt->type == 0x88b8) { pkt->metadata.tx.port = 2; channel_put(output, pkt); return; }
        channel_put(for_host, pkt);
    }
    ppf of_even(even_packet_t *e) from evens { udp_packet_t *udp = packet_encap(e); channel_put(framed, udp); }
    ppf of_odd(odd_packet_t *o) from odds { udp_packet_t *udp = packet_encap(o); channel_put(framed, udp); }
    ppf frame(udp_packet_t *udp) from framed {
        udp->src_port = 5;
        udp->dst_port = 7777;
        ipv4_packet_t *ip = packet_encap(udp);
        ip->ttl = 64;
        ip->protocol = IP_PROTO_UDP;
        ip->src = 0x0a090002;
        ip->dst = 0x0a090001;
        ether_packet_t *ether = packet_encap(ip);
        ether->dst = 0x020000000001;
        ether->src = 0x020000000002;
        ether->type = ETH_TYPE_IPV4;
        channel_put(for_host, ether);
    }
}
program { rx -> m.input; m.output -> tx; m.for_host -> host; }";

/// The stack sees the front that a packet has, not the one that it came in with.
#[test]
fn packets_that_have_got_headers_in_front_come_to_the_host() {
    in_namespace(1, || {
        gro(&["left", "a", "b", "right"]);
        ip("link set dev a address 02:00:00:00:00:01");
        ip("addr add 10.9.0.1/24 dev a");
        let socket = UdpSocket::bind("10.9.0.1:7777").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let (left, right) = (Host::on("left"), Host::on("right"));
        let instance = prepare_at(TC, &compiled_with_operations(INTO_UDP), 1).run().unwrap();
        let mut found = [0; 2000];
        for number in 0..100 {
            let packet = frame(0x88b6, number, 60 + 13 * number as usize);
            left.send(&packet);
            let (len, _) = socket.recv_from(&mut found).expect("the datagram");
            assert_eq!(found[..len], [&[0x65, 0x65][..], &packet].concat());
            // What has the front that it came in with goes to the stack at once, and other packets out.
            left.send(&question());
            left.receive().expect("the kernel's answer");
            let packet = frame(0x88b8, number, 60);
            left.send(&packet);
            right.expect(&packet);
        }
        // The kernel makes room for an even number of bytes: the host's packets are a worker's, and there is no port
        // by which those go.
        for number in 0..100 {
            left.send(&frame(0x88b7, number, 60));
        }
        eventually(&instance, |s| s.dropped("no_host") == 100);
        let snapshot = whole(instance);
        assert_eq!((snapshot.channel("rx"), snapshot.channel("m.for_host")), (400, 300));
        assert_eq!((snapshot.port("a").unwrap().rx_packets, snapshot.dropped("no_worker")), (400, 0));
    });
}

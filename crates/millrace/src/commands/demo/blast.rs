//! As many small packets as h1 can send, sent by Millrace itself: a generator in memory, a program of one line, AF_PACKET.

use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dataplane::ports::{Driver, MemPort};
use dataplane::{Instance, Options, PollMode, PortConfig};
use lab::{Host, L3Switch};

use crate::apps::{self, Source};
use crate::failure::Failure;

const GENERATOR: &str = r#"
import "net/ether";
drop_reason not_generated;
module generator {
    in ether input;
    out ether output;
    ppf send(ether_packet_t *pkt) from input {
        if (pkt->metadata.rx.port != 1) { packet_drop(pkt, not_generated); return; }
        pkt->metadata.tx.port = 2;
        channel_put(output, pkt);
    }
}
program {
    rx -> generator.input;
    generator.output -> tx;
}
"#;

/// UDP packets from h1 to the discard port of h2 (switched), h3 and h4 (routed), 64 bytes with the frame check sequence.
pub fn packets() -> Vec<Vec<u8>> {
    let to = [(2, 1), (3, 2), (2, 1), (4, 2)];
    (0..64u16).map(|i| packet(to[i as usize % 4], 1024 + i)).collect()
}

fn packet((host, subnet): (u8, u8), source_port: u16) -> Vec<u8> {
    let switched = subnet == 1;
    let mut frame = Vec::with_capacity(60);
    let gateway = [2, 0, 0, 0, 1, 1];
    frame.extend(if switched { [2, 0, 0, 0, 0, 0x10 + host] } else { gateway });
    frame.extend([2, 0, 0, 0, 0, 0x11]);
    frame.extend(0x0800u16.to_be_bytes());
    let mut ip = vec![0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 1, 11, 10, 0, subnet, 10 + host];
    let mut sum: u32 = ip.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    sum = (sum & 0xffff) + (sum >> 16);
    ip[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    frame.extend(ip);
    frame.extend(source_port.to_be_bytes());
    frame.extend(9u16.to_be_bytes());
    frame.extend(26u16.to_be_bytes());
    frame.resize(60, 0);
    frame
}

/// Sends for this long: how many packets, in how much time.
pub fn run(network: &L3Switch, packets: &[Vec<u8>], length: Duration, cpus: usize) -> Result<(u64, Duration), Failure> {
    // Sockets that nobody reads: the kernel drops what they get, and sends no ICMP errors back.
    let sinks: Result<Vec<_>, _> =
        network.hosts[1..].iter().map(|host| host.ns.enter(|| UdpSocket::bind("0.0.0.0:9"))).collect();
    let sinks: Result<Vec<_>, _> = sinks.map_err(Failure::refused)?.into_iter().collect();
    let _sinks = sinks.map_err(Failure::refused)?;
    let source = Source { name: "generator.baker".into(), text: GENERATOR.into(), config: None };
    let program = apps::compile(&source)?;
    let options =
        Options { poll: PollMode::Busy, cpus: if cpus > 1 { vec![1] } else { Vec::new() }, ..Options::default() };
    let ports = [
        PortConfig::new("generator", 1, Driver::Mem(MemPort::generator(packets.to_vec(), u64::MAX))),
        PortConfig::new("line", 2, Driver::AfPacket { interface: Host::DEVICE.into() }),
    ];
    let generator = network.host(1).ns.enter(|| Instance::start(Arc::clone(&program), &options, &ports));
    let generator = generator.map_err(Failure::refused)?.map_err(Failure::refused)?;
    let started = Instant::now();
    std::thread::sleep(length);
    let time = started.elapsed();
    let done = generator.stop();
    // What is still on its way when the generator stops.
    std::thread::sleep(Duration::from_millis(100));
    Ok((done.snapshot.port("line").map_or(0, |port| port.tx_packets), time))
}

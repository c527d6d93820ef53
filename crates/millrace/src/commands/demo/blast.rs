//! As many small packets as h1 can send.

use std::net::UdpSocket;
use std::time::Duration;

use cli::failure::Failure;
use cli::output::print;
use cli::report::{self, grouped, rate};
use dataplane::{Instance, PortSnapshot};
use lab::{Flow, Generator, Host, L3Switch, Traffic, Transport};

/// Bytes of a frame; the frame check sequence makes it 64.
const LENGTH: usize = 60;

/// UDP from h1 to the discard port of h2 (switched), h3 and h4 (routed).
fn flows(network: &L3Switch) -> Vec<Flow> {
    let from = network.host(1);
    let flow = |port: u16| {
        let to = network.host([2, 3, 2, 4][usize::from(port) % 4]);
        let switched = to.port == network.host(2).port;
        let (_, gateway, _) = L3Switch::GATEWAYS[0];
        let address = |host: &Host| host.address.parse().expect("the address of one of our hosts");
        Flow {
            mac: (from.mac, if switched { to.mac } else { gateway }),
            address: (address(from), address(to)),
            transport: Transport::Udp { ports: (port, 9) },
        }
    };
    (1024..1088).map(flow).collect()
}

/// The packets, without numbers, to measure the program alone with.
pub fn packets(network: &L3Switch) -> Result<Vec<Vec<u8>>, Failure> {
    flows(network).iter().map(|flow| flow.frame(LENGTH).map_err(Failure::refused)).collect()
}

/// What got through.
pub struct Passed {
    pub forwarded: u64,
    pub time: Duration,
}

impl Passed {
    /// Packets per second.
    pub fn rate(&self) -> f64 {
        self.forwarded as f64 / self.time.as_secs_f64()
    }
}

/// Sends for this long through an instance, and shows what became of it.
pub fn through(network: &L3Switch, instance: &Instance, length: Duration, cpus: usize) -> Result<Passed, Failure> {
    let before = instance.snapshot();
    let (sent, time) = run(network, length, cpus)?;
    let after = instance.snapshot();
    let counted = |pick: fn(&PortSnapshot) -> u64| -> u64 {
        after.ports.iter().map(pick).sum::<u64>() - before.ports.iter().map(pick).sum::<u64>()
    };
    let (received, forwarded, lost) = (counted(|p| p.rx_packets), counted(|p| p.tx_packets), counted(|p| p.rx_dropped));
    let rows = [
        ("sent by h1", sent),
        ("received by the switch", received),
        ("forwarded", forwarded),
        ("lost before the switch, in the kernel", lost),
    ];
    let rows = rows.map(|(what, n)| vec![what.to_string(), grouped(n), rate(n as f64 / time.as_secs_f64())]);
    let mut out = String::new();
    report::table(&mut out, &["", "packets", "per second"], rows.to_vec());
    print(format_args!("{out}"));
    Ok(Passed { forwarded, time })
}

/// Sends for this long: how many packets, in how much time.
fn run(network: &L3Switch, length: Duration, cpus: usize) -> Result<(u64, Duration), Failure> {
    // Sockets that are not read: the kernel drops what they get, and sends no ICMP errors back.
    let sinks: Result<Vec<_>, _> =
        network.hosts[1..].iter().map(|host| host.ns.enter(|| UdpSocket::bind("0.0.0.0:9"))).collect();
    let sinks: Result<Vec<_>, _> = sinks.map_err(Failure::refused)?.into_iter().collect();
    let _sinks = sinks.map_err(Failure::refused)?;
    let traffic = Traffic::flows(&flows(network), &[LENGTH]).map_err(Failure::refused)?;
    let traffic = if cpus > 1 { traffic.cpu(1) } else { traffic };
    let generator = Generator::start(&network.host(1).ns, Host::DEVICE, traffic).map_err(Failure::refused)?;
    std::thread::sleep(length);
    let sent = generator.stop().map_err(Failure::refused)?;
    // What is still on its way when the generator stops.
    std::thread::sleep(Duration::from_millis(100));
    Ok((sent.packets, sent.time))
}

//! Numbered packets from one host of the L3 switch's network to another.

use std::time::Duration;

use lab::{Flow, Generator, Host, L3Switch, Received, Sent, Sink, Traffic, Transport};

/// How long packets may be on their way once the generator has stopped.
const ON_THE_WAY: Duration = Duration::from_secs(5);

/// A flow with this source port, to the discard port: to the other host itself where it is in the same subnet, else to
/// the router.
pub fn flow(network: &L3Switch, from: usize, to: usize, port: u16) -> Flow {
    let subnet = |host: usize| (host - 1) / 2;
    let dst = if subnet(from) == subnet(to) { network.host(to).mac } else { L3Switch::GATEWAYS[subnet(from)].1 };
    let address = |host: &Host| host.address.parse().unwrap();
    let (from, to) = (network.host(from), network.host(to));
    let transport = Transport::Udp { ports: (port, 9) };
    Flow { mac: (from.mac, dst), address: (address(from), address(to)), transport }
}

/// A generator and a sink. Only one at a time may end at a host: a sink sees all numbered packets there.
pub struct Stream {
    generator: Generator,
    sink: Sink,
}

impl Stream {
    /// Starts to send frames of these lengths over eight flows, so many per second.
    pub fn start(network: &L3Switch, from: usize, to: usize, lengths: &[usize], rate: u64) -> Stream {
        let flows: Vec<Flow> = (5000..5008).map(|port| flow(network, from, to, port)).collect();
        let sink = Sink::start(&network.host(to).ns, Host::DEVICE, None).unwrap();
        let traffic = Traffic::flows(&flows, lengths).unwrap().rate(rate);
        let generator = Generator::start(&network.host(from).ns, Host::DEVICE, traffic).unwrap();
        Stream { generator, sink }
    }

    /// Packets that have arrived.
    pub fn arrived(&self) -> u64 {
        self.sink.packets()
    }

    /// Waits until more packets have arrived than now; whether they did.
    pub fn goes_on(&self, limit: Duration) -> bool {
        let (before, start) = (self.arrived(), std::time::Instant::now());
        while self.arrived() < before + 10 {
            if start.elapsed() > limit {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }

    /// Stops; what was sent and what came.
    pub fn stop(self) -> (Sent, Received) {
        let sent = self.generator.stop().unwrap();
        let received = self.sink.stop_after(sent.packets, ON_THE_WAY).unwrap();
        (sent, received)
    }

    /// Stops, and every packet must have arrived once and in order.
    #[track_caller]
    pub fn stop_whole(self) -> Sent {
        let (sent, received) = self.stop();
        let found = (received.lost(&sent), received.duplicated, received.reordered, sent.refused);
        assert_eq!(found, (0, 0, 0, 0), "lost, doubled, overtaken, refused: {sent:?} {received:?}");
        sent
    }
}

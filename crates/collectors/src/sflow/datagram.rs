//! Samples into datagrams. All numbers are of 4 bytes or 8, the first byte the highest (XDR, RFC 4506).

use std::net::IpAddr;

/// Bytes of a datagram at most: it is in one packet on all ways that take 1500 bytes.
pub const MOST: usize = 1400;
/// Bytes that Ethernet's checksum takes, which sampled packets no more have, but are counted.
const FCS: u32 = 4;
/// In place of an interface's index (sFlow version 5, §5.3, `interface`): the packet is for this machine itself; it was
/// dropped for a reason without a number there; it goes out at so many interfaces.
const OWN: u32 = 0x3fff_ffff;
const DROPPED: u32 = 0x4000_0000 | 256;
const SEVERAL: u32 = 0x8000_0000;
/// What is not counted.
const UNKNOWN: u32 = u32::MAX;

/// Where a sampled packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output<'p> {
    /// That is not known.
    Unknown,
    /// Out at interfaces with these indexes.
    Interfaces(&'p [u32]),
    /// To this machine itself.
    Own,
    /// Nowhere: it is dropped.
    Dropped,
}

impl Output<'_> {
    fn word(self) -> u32 {
        match self {
            Output::Unknown | Output::Interfaces([]) => 0,
            Output::Interfaces([one]) => *one,
            Output::Interfaces(several) => SEVERAL | several.len() as u32,
            Output::Own => OWN,
            Output::Dropped => DROPPED,
        }
    }
}

/// A packet that was sampled as it came in (`flow_sample` with a `sampled_header`).
#[derive(Clone, Copy, Debug)]
pub struct FlowSample<'p> {
    /// Counts samples of the port, from 1.
    pub number: u32,
    /// Index of the interface.
    pub interface: u32,
    /// Where it goes.
    pub output: Output<'p>,
    /// One of so many packets is sampled.
    pub one_in: u32,
    /// Packets that came in there until now: what samples were drawn from.
    pub pool: u32,
    /// Samples for which there was no room until now.
    pub drops: u32,
    /// Bytes from the frame's first one to its last.
    pub length: u32,
    /// The first of them.
    pub header: &'p [u8],
}

/// A port's counters (`counters_sample` with `if_counters`), with what there is of RFC 2233's `ifTable`.
#[derive(Clone, Copy, Debug, Default)]
pub struct CounterSample {
    /// Counts samples of counters of the port, from 1.
    pub number: u32,
    /// Index of the interface.
    pub interface: u32,
    /// Bits per second; 0 where that is not known.
    pub speed: u64,
    /// Whether packets can pass in both directions at the same time; none where that is not known.
    pub full_duplex: Option<bool>,
    /// Whether it is to be up, and is up.
    pub status: [bool; 2],
    /// Bytes and packets that came in.
    pub received: [u64; 2],
    /// Packets that came in and were not processed, as there was no room, and as they could not be.
    pub not_received: [u64; 2],
    /// Bytes and packets that went out.
    pub sent: [u64; 2],
    /// Packets that could not be sent.
    pub not_sent: u64,
}

/// Datagrams with a sender's name and number.
#[derive(Debug)]
pub struct Datagrams {
    agent: IpAddr,
    number: u32,
    samples: u32,
    body: Vec<u8>,
}

impl Datagrams {
    /// Of an agent that has sent none yet.
    pub fn new(agent: IpAddr) -> Datagrams {
        Datagrams { agent, number: 0, samples: 0, body: Vec::with_capacity(MOST) }
    }

    /// By which address collectors know the sender.
    pub fn agent(&self) -> IpAddr {
        self.agent
    }

    /// Sets that for datagrams from now on.
    pub fn set_agent(&mut self, agent: IpAddr) {
        self.agent = agent;
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.samples == 0
    }

    /// Takes what is in the next one; `uptime` in milliseconds.
    pub fn take(&mut self, uptime: u32) -> Vec<u8> {
        self.number = self.number.wrapping_add(1);
        let mut all = Vec::with_capacity(MOST);
        put(&mut all, 5);
        match self.agent {
            IpAddr::V4(address) => {
                put(&mut all, 1);
                all.extend(address.octets());
            }
            IpAddr::V6(address) => {
                put(&mut all, 2);
                all.extend(address.octets());
            }
        }
        // There are no agents in parts.
        [0, self.number, uptime, self.samples].into_iter().for_each(|word| put(&mut all, word));
        all.append(&mut self.body);
        self.samples = 0;
        all
    }

    /// Adds a sample; the datagram before it, where that is full.
    pub fn flow(&mut self, sample: &FlowSample, uptime: u32) -> Option<Vec<u8>> {
        let mut record = Vec::new();
        // Ethernet's frames.
        [1, sample.length.saturating_add(FCS), FCS].into_iter().for_each(|word| put(&mut record, word));
        put_opaque(&mut record, sample.header);
        let mut own = Vec::new();
        let FlowSample { number, interface, one_in, pool, drops, .. } = *sample;
        [number, interface, one_in, pool, drops, interface, sample.output.word(), 1, 1]
            .into_iter()
            .for_each(|word| put(&mut own, word));
        put_opaque(&mut own, &record);
        self.add(1, &own, uptime)
    }

    /// Adds a sample; the datagram before it, where that is full.
    pub fn counters(&mut self, sample: &CounterSample, uptime: u32) -> Option<Vec<u8>> {
        let mut record = Vec::new();
        // 6: ethernetCsmacd.
        [sample.interface, 6].into_iter().for_each(|word| put(&mut record, word));
        put_long(&mut record, sample.speed);
        let direction = sample.full_duplex.map_or(0, |is_full| if is_full { 1 } else { 2 });
        let [to_be, is] = sample.status.map(u32::from);
        [direction, to_be | is << 1].into_iter().for_each(|word| put(&mut record, word));
        // Packets for many are not told from others; counters of 4 bytes go around.
        let [bytes, packets] = sample.received;
        let [no_room, wrong] = sample.not_received;
        put_long(&mut record, bytes);
        [packets as u32, UNKNOWN, UNKNOWN, no_room as u32, wrong as u32, UNKNOWN]
            .into_iter()
            .for_each(|word| put(&mut record, word));
        let [bytes, packets] = sample.sent;
        put_long(&mut record, bytes);
        // Whether it takes what is not for it is not known: 0.
        [packets as u32, UNKNOWN, UNKNOWN, UNKNOWN, sample.not_sent as u32, 0]
            .into_iter()
            .for_each(|word| put(&mut record, word));
        let mut own = Vec::new();
        [sample.number, sample.interface, 1, 1].into_iter().for_each(|word| put(&mut own, word));
        put_opaque(&mut own, &record);
        self.add(2, &own, uptime)
    }

    fn add(&mut self, format: u32, sample: &[u8], uptime: u32) -> Option<Vec<u8>> {
        /// Bytes of a datagram's head with the longest address, and of a sample's.
        const HEADS: usize = 40 + 8;
        let full = self.samples > 0 && HEADS + self.body.len() + sample.len() > MOST;
        let before = full.then(|| self.take(uptime));
        put(&mut self.body, format);
        put_opaque(&mut self.body, sample);
        self.samples += 1;
        before
    }
}

fn put(to: &mut Vec<u8>, word: u32) {
    to.extend(word.to_be_bytes());
}

fn put_long(to: &mut Vec<u8>, word: u64) {
    to.extend(word.to_be_bytes());
}

/// Bytes with their number in front, up to a multiple of 4.
fn put_opaque(to: &mut Vec<u8>, bytes: &[u8]) {
    put(to, bytes.len() as u32);
    to.extend(bytes);
    to.resize(to.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(bytes: &[u8]) -> Vec<u32> {
        bytes.chunks(4).map(|word| u32::from_be_bytes(word.try_into().unwrap())).collect()
    }

    /// By the specification's structures, counted out by hand.
    #[test]
    fn samples_are_as_specified() {
        let mut own = Datagrams::new("10.0.0.1".parse().unwrap());
        let sample = FlowSample {
            number: 7,
            interface: 3,
            output: Output::Interfaces(&[8]),
            one_in: 100,
            pool: 700,
            drops: 2,
            length: 60,
            header: &[1, 2, 3, 4, 5],
        };
        assert_eq!(own.flow(&sample, 9), None);
        let counters = CounterSample {
            number: 4,
            interface: 3,
            speed: 10_000_000_000,
            full_duplex: Some(true),
            status: [true, true],
            received: [1 << 33, (1 << 32) + 5],
            not_received: [6, 7],
            sent: [8, 9],
            not_sent: 10,
        };
        assert_eq!(own.counters(&counters, 9), None);
        let none = u32::MAX;
        let head = [5, 1, 0x0a00_0001, 0, 1, 5000, 2];
        let flow = [1, 64, 7, 3, 100, 700, 2, 3, 8, 1, 1, 24, 1, 64, 4, 5, 0x0102_0304, 0x0500_0000];
        let count = [2, 108, 4, 3, 1, 1, 88, 3, 6, 2, 0x540b_e400, 1, 3, 2, 0, 5, none, none, 6, 7, none];
        let sent = [0, 8, 9, none, none, none, 10, 0];
        assert_eq!(words(&own.take(5000)), [&head[..], &flow, &count, &sent].concat());
        assert!(own.is_empty());
    }

    #[test]
    fn datagrams_are_bounded_and_counted() {
        let mut own = Datagrams::new("2001:db8::1".parse().unwrap());
        let header = [9; 256];
        let mut sent = Vec::new();
        for number in 1..=100 {
            let sample = FlowSample {
                number,
                interface: 1,
                output: Output::Unknown,
                one_in: 1,
                pool: 0,
                drops: 0,
                length: 999,
                header: &header,
            };
            sent.extend(own.flow(&sample, 0));
        }
        sent.push(own.take(0));
        let heads: Vec<_> = sent.iter().map(|own| words(&own[..40])).collect();
        assert!(sent.iter().all(|own| own.len() <= MOST), "{:?}", sent.iter().map(Vec::len).collect::<Vec<_>>());
        assert!(heads.iter().zip(1..).all(|(head, number)| head[7] == number));
        assert_eq!(heads.iter().map(|head| head[9]).sum::<u32>(), 100);
    }

    #[test]
    fn what_is_no_interface_has_numbers_of_its_own() {
        let several = [3, 4, 7];
        let outputs = [Output::Unknown, Output::Own, Output::Dropped, Output::Interfaces(&several)];
        assert_eq!(outputs.map(Output::word), [0, 0x3fff_ffff, 0x4000_0100, 0x8000_0003]);
    }
}

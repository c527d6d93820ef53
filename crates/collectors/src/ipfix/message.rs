//! Flows into messages (RFC 7011). Information elements are those of IANA's registry.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, SystemTime};

use super::flow::Flow;

/// Bytes of a message at most: it is in one packet on all ways that take 1500 bytes.
pub const MOST: usize = 1400;
/// Bytes of a message's head.
const HEAD: usize = 16;
/// Bytes of an application's name that are sent.
const MOST_NAME: usize = 64;
/// The set of templates.
const TEMPLATES: u16 = 2;
/// A field whose length each record says.
const VARIABLE: u16 = 65_535;

/// Marks the number of an element that is not IANA's; whose it is follows.
const ENTERPRISE: u16 = 0x8000;
/// Whose elements are those of IANA, for the other direction (RFC 5103 §6.1).
const REVERSE: u32 = 29_305;

/// A field of a record: the number of its information element, and its bytes.
type Field = (u16, u16);

/// The template of flows between addresses of IPv4, and of those of IPv6.
const NUMBERS: [u16; 2] = [256, 257];

/// Fields of a record. Those that are addresses are of the template's version.
const FIELDS: [[Field; 20]; 2] = [fields([8, 12, 226], 4), fields([27, 28, 282], 16)];

const fn fields(addresses: [u16; 3], bytes: u16) -> [Field; 20] {
    [
        // flowStartMilliseconds, flowEndMilliseconds
        (152, 8),
        (153, 8),
        // sourceIPv4Address, sourceIPv6Address; sourceTransportPort
        (addresses[0], bytes),
        (7, 2),
        // destinationIPv4Address, destinationIPv6Address; destinationTransportPort
        (addresses[1], bytes),
        (11, 2),
        // postNATDestinationIPv4Address, postNATDestinationIPv6Address; postNAPTDestinationTransportPort
        (addresses[2], bytes),
        (228, 2),
        // protocolIdentifier, flowEndReason
        (4, 1),
        (136, 1),
        // initiatorOctets, responderOctets
        (231, 8),
        (232, 8),
        // initiatorPackets, responderPackets
        (298, 8),
        (299, 8),
        // octetDeltaCount, reverseOctetDeltaCount, packetDeltaCount, reversePacketDeltaCount: the same once more, for
        // collectors that know no other
        (1, 8),
        (ENTERPRISE | 1, 8),
        (2, 8),
        (ENTERPRISE | 2, 8),
        // httpStatusCode, applicationName
        (457, 2),
        (96, VARIABLE),
    ]
}

/// Messages of an observation domain.
#[derive(Debug)]
pub struct Messages {
    domain: u32,
    /// Data records that were sent.
    sent: u32,
    /// Data records in the next one.
    records: u32,
    /// Sets of the next one.
    body: Vec<u8>,
    /// Where the length of the last set stands in `body`, and which template it is of.
    last: Option<(usize, u16)>,
}

impl Messages {
    /// Of a domain that has sent none yet.
    pub fn new(domain: u32) -> Messages {
        Messages { domain, sent: 0, records: 0, body: Vec::with_capacity(MOST), last: None }
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.body.is_empty()
    }

    /// A message that says what records look like, without any.
    pub fn templates(&self, now: SystemTime) -> Vec<u8> {
        let mut set: Vec<u8> = Vec::new();
        for (number, fields) in NUMBERS.iter().zip(FIELDS) {
            set.extend([*number, fields.len() as u16].map(u16::to_be_bytes).as_flattened());
            for (element, bytes) in fields {
                set.extend([element, bytes].map(u16::to_be_bytes).as_flattened());
                if element & ENTERPRISE != 0 {
                    set.extend(REVERSE.to_be_bytes());
                }
            }
        }
        let mut message = self.head(now, HEAD + 4 + set.len());
        message.extend([TEMPLATES, 4 + set.len() as u16].map(u16::to_be_bytes).as_flattened());
        message.extend(set);
        message
    }

    /// Takes what is in the next message.
    pub fn take(&mut self, now: SystemTime) -> Vec<u8> {
        let mut message = self.head(now, HEAD + self.body.len());
        message.append(&mut self.body);
        self.sent = self.sent.wrapping_add(self.records);
        (self.records, self.last) = (0, None);
        message
    }

    fn head(&self, now: SystemTime, length: usize) -> Vec<u8> {
        let mut head = Vec::with_capacity(MOST);
        head.extend([10, length as u16].map(u16::to_be_bytes).as_flattened());
        let seconds = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs() as u32;
        head.extend([seconds, self.sent, self.domain].map(u32::to_be_bytes).as_flattened());
        head
    }

    /// Adds a flow; the message before it, where that is full.
    pub fn flow(&mut self, flow: &Flow, now: SystemTime) -> Option<Vec<u8>> {
        let is_ipv6 = !(is_ipv4(flow.client.ip()) && is_ipv4(flow.server.ip()));
        let number = NUMBERS[usize::from(is_ipv6)];
        let record = record(flow, is_ipv6);
        let full = HEAD + self.body.len() + 4 + record.len() > MOST && self.records > 0;
        let before = full.then(|| self.take(now));
        let at = match self.last {
            Some((at, of)) if of == number => at,
            _ => {
                self.body.extend([number, 4].map(u16::to_be_bytes).as_flattened());
                self.body.len() - 2
            }
        };
        self.last = Some((at, number));
        self.body.extend(record);
        let length = (self.body.len() + 2 - at) as u16;
        self.body[at..at + 2].copy_from_slice(&length.to_be_bytes());
        self.records += 1;
        before
    }
}

fn is_ipv4(address: IpAddr) -> bool {
    address.to_canonical().is_ipv4()
}

fn record(flow: &Flow, is_ipv6: bool) -> Vec<u8> {
    let mut record = Vec::with_capacity(128);
    let address = |record: &mut Vec<u8>, address: IpAddr| match (address.to_canonical(), is_ipv6) {
        (IpAddr::V4(address), false) => record.extend(address.octets()),
        (IpAddr::V4(address), true) => record.extend(address.to_ipv6_mapped().octets()),
        (IpAddr::V6(address), true) => record.extend(address.octets()),
        // One of IPv6 behind one of IPv4: it has no room in this template.
        (IpAddr::V6(_), false) => record.extend(Ipv4Addr::UNSPECIFIED.octets()),
    };
    for time in flow.time {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        record.extend((since.as_millis() as u64).to_be_bytes());
    }
    let nobody = std::net::SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
    for end in [flow.client, flow.server, flow.chosen.unwrap_or(nobody)] {
        address(&mut record, end.ip());
        record.extend(end.port().to_be_bytes());
    }
    record.extend([flow.protocol, flow.end as u8]);
    let counts = [flow.octets, flow.packets].map(|both| both.map(u64::to_be_bytes));
    record.extend([counts, counts].as_flattened().as_flattened().as_flattened());
    record.extend(flow.status.unwrap_or(0).to_be_bytes());
    let mut end = flow.application.len().min(MOST_NAME);
    while !flow.application.is_char_boundary(end) {
        end -= 1;
    }
    record.push(end as u8);
    record.extend(&flow.application.as_bytes()[..end]);
    record
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ipfix::End;

    /// Whole records, by the templates that were sent, read by RFC 7011 alone: the fields by element.
    fn read(templates: &[u8], messages: &[Vec<u8>]) -> Vec<Vec<(u16, Vec<u8>)>> {
        let short = |bytes: &[u8], at: usize| usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
        let sets = |message: &[u8]| {
            assert_eq!((short(message, 0), short(message, 2)), (10, message.len()));
            let (mut at, mut all) = (16, Vec::new());
            while at < message.len() {
                let length = short(message, at + 2);
                all.push((short(message, at), message[at + 4..at + length].to_vec()));
                at += length;
            }
            assert_eq!(at, message.len());
            all
        };
        let mut known = std::collections::BTreeMap::new();
        for (set, bytes) in sets(templates) {
            assert_eq!(set, 2);
            let mut at = 0;
            while at < bytes.len() {
                let (template, count) = (short(&bytes, at), short(&bytes, at + 2));
                at += 4;
                let mut fields = Vec::new();
                for _ in 0..count {
                    fields.push((short(&bytes, at), short(&bytes, at + 2)));
                    at += 4;
                    if fields[fields.len() - 1].0 >= 0x8000 {
                        assert_eq!(bytes[at..at + 4], 29_305u32.to_be_bytes());
                        at += 4;
                    }
                }
                known.insert(template, fields);
            }
        }
        let mut records = Vec::new();
        for (set, bytes) in messages.iter().flat_map(|message| sets(message)) {
            let mut at = 0;
            while at < bytes.len() {
                let mut record = Vec::new();
                for (element, length) in &known[&set] {
                    let mut length = *length;
                    if length == 65_535 {
                        length = bytes[at].into();
                        assert!(length < 255);
                        at += 1;
                    }
                    record.push((*element as u16, bytes[at..at + length].to_vec()));
                    at += length;
                }
                records.push(record);
            }
        }
        records
    }

    fn flow(client: &str, server: &str, chosen: Option<&str>) -> Flow {
        let at = |ms| SystemTime::UNIX_EPOCH + Duration::from_millis(ms);
        Flow {
            client: client.parse().unwrap(),
            server: server.parse().unwrap(),
            chosen: chosen.map(|own| own.parse().unwrap()),
            protocol: 6,
            time: [at(1_795_342_410_123), at(1_795_342_410_456)],
            octets: [80, 1 << 40],
            packets: [3, 1 << 33],
            end: End::Done,
            status: Some(200),
            application: "www".into(),
        }
    }

    #[test]
    fn records_are_as_their_templates_say() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(7);
        let mut own = Messages::new(9);
        let flows = [
            flow("10.0.1.11:4000", "10.0.1.80:80", Some("10.0.2.11:8080")),
            flow("[::ffff:10.0.1.12]:4001", "[::ffff:10.0.1.80]:80", None),
            flow("[2001:db8::1]:4002", "[2001:db8::80]:443", Some("10.0.2.12:8080")),
        ];
        let templates = own.templates(now);
        assert_eq!(templates[4..16], [0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 9]);
        flows.iter().for_each(|flow| assert_eq!(own.flow(flow, now), None));
        let message = own.take(now);
        assert!(own.is_empty());
        // Three records were sent before the next one.
        assert_eq!(own.templates(now)[8..12], [0, 0, 0, 3]);
        let read = read(&templates, &[message]);
        let field = |record: usize, element: u16| {
            let found = read[record].iter().find(|(own, _)| *own == element);
            found.unwrap_or_else(|| panic!("{element}")).1.clone()
        };
        assert_eq!(read.len(), 3);
        assert_eq!(field(0, 152), 1_795_342_410_123u64.to_be_bytes());
        assert_eq!(field(0, 153), 1_795_342_410_456u64.to_be_bytes());
        assert_eq!((field(0, 8), field(0, 7)), (vec![10, 0, 1, 11], 4000u16.to_be_bytes().to_vec()));
        assert_eq!((field(0, 12), field(0, 11)), (vec![10, 0, 1, 80], vec![0, 80]));
        assert_eq!((field(0, 226), field(0, 228)), (vec![10, 0, 2, 11], 8080u16.to_be_bytes().to_vec()));
        assert_eq!((field(0, 4), field(0, 136)), (vec![6], vec![3]));
        assert_eq!((field(0, 231), field(0, 232)), (80u64.to_be_bytes().to_vec(), (1u64 << 40).to_be_bytes().to_vec()));
        assert_eq!((field(0, 298), field(0, 299)), (3u64.to_be_bytes().to_vec(), (1u64 << 33).to_be_bytes().to_vec()));
        for (own, same) in [(1, 231), (0x8001, 232), (2, 298), (0x8002, 299)] {
            assert_eq!(field(0, own), field(0, same));
        }
        assert_eq!((field(0, 457), field(0, 96)), (vec![0, 200], b"www".to_vec()));
        assert_eq!((field(1, 8), field(1, 226), field(1, 228)), (vec![10, 0, 1, 12], vec![0; 4], vec![0; 2]));
        let address: Ipv6Addr = "2001:db8::1".parse().unwrap();
        assert_eq!(field(2, 27), address.octets());
        let mapped: Ipv6Addr = "::ffff:10.0.2.12".parse().unwrap();
        assert_eq!(field(2, 282), mapped.octets());
    }

    #[test]
    fn messages_are_bounded_and_counted() {
        let now = SystemTime::UNIX_EPOCH;
        let mut own = Messages::new(1);
        let templates = own.templates(now);
        let flows = (0..500u16).map(|number| {
            let client = if number % 3 == 0 { "[2001:db8::1]:1" } else { "10.0.0.1:1" };
            let name = "ä".repeat(usize::from(number % 60));
            Flow { application: name, ..flow(client, "10.0.0.2:80", None) }
        });
        let mut sent: Vec<_> = flows.filter_map(|flow| own.flow(&flow, now)).collect();
        sent.push(own.take(now));
        assert!(sent.iter().all(|message| message.len() <= MOST) && sent.len() > 20);
        let mut before = 0;
        for message in &sent {
            assert_eq!(message[8..12], (before as u32).to_be_bytes());
            before += read(&templates, std::slice::from_ref(message)).len();
        }
        assert_eq!(before, 500);
        let names = read(&templates, &sent).iter().map(|record| record[19].1.len()).max();
        assert_eq!(names, Some(MOST_NAME));
    }
}

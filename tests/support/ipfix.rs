//! Messages of IPFIX as a collector reads them: by RFC 7011, not by what wrote them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::time::{Duration, Instant, SystemTime};

/// A record: its fields by information element.
pub type Record = BTreeMap<u16, Vec<u8>>;

/// What a collector has.
#[derive(Default)]
pub struct Collected {
    /// Elements and lengths, by template.
    pub templates: BTreeMap<u16, Vec<(u16, usize)>>,
    pub records: Vec<Record>,
    /// Records that came before, as the last message says.
    sent: Option<u32>,
}

/// Two bytes as a number.
pub fn short(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

impl Collected {
    /// Waits a moment for a message, and reads it. Records before the first templates can't be read.
    pub fn receive(&mut self, socket: &UdpSocket) {
        let mut buffer = [0; 2048];
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        if let Ok(length) = socket.recv(&mut buffer)
            && (!self.templates.is_empty() || short(&buffer, 16) == 2)
        {
            self.take(&buffer[..length]);
        }
    }

    /// Receives until there are templates.
    pub fn learn_templates(&mut self, socket: &UdpSocket, patience: Duration) {
        let end = Instant::now() + patience;
        while self.templates.is_empty() {
            assert!(Instant::now() < end, "no templates");
            self.receive(socket);
        }
    }

    /// The record of which something holds, as soon as it has come.
    pub fn find(&mut self, socket: &UdpSocket, patience: Duration, is: impl Fn(&Record) -> bool) -> Record {
        let end = Instant::now() + patience;
        loop {
            if let Some(found) = self.records.iter().find(|own| is(own)) {
                return found.clone();
            }
            assert!(Instant::now() < end, "{:?}", self.records);
            self.receive(socket);
        }
    }

    fn take(&mut self, message: &[u8]) {
        assert_eq!((short(message, 0), usize::from(short(message, 2))), (10, message.len()));
        let word = |at: usize| u32::from_be_bytes(message[at..at + 4].try_into().unwrap());
        assert_eq!(word(12), 7, "the domain");
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        assert!(now.abs_diff(word(4).into()) < 30);
        assert!(self.sent.is_none_or(|sent| sent == word(8)), "{} behind {:?}", word(8), self.sent);
        let known = self.records.len();
        let mut at = 16;
        while at < message.len() {
            let (set, length) = (short(message, at), usize::from(short(message, at + 2)));
            let body = &message[at + 4..at + length];
            match set {
                2 => self.learn(body),
                _ => self.read(set, body),
            }
            at += length;
        }
        self.sent = Some(word(8) + (self.records.len() - known) as u32);
    }

    fn learn(&mut self, mut set: &[u8]) {
        while !set.is_empty() {
            let (template, fields) = (short(set, 0), short(set, 2));
            set = &set[4..];
            let mut all = Vec::new();
            for _ in 0..fields {
                let element = short(set, 0);
                all.push((element, usize::from(short(set, 2))));
                set = &set[4..];
                if element >= 0x8000 {
                    // Of the other direction (RFC 5103).
                    assert_eq!(set[..4], 29_305u32.to_be_bytes());
                    set = &set[4..];
                }
            }
            self.templates.insert(template, all);
        }
    }

    fn read(&mut self, template: u16, mut set: &[u8]) {
        let fields = self.templates.get(&template).unwrap_or_else(|| panic!("no template {template}"));
        while !set.is_empty() {
            let mut record = Record::new();
            for (element, length) in fields {
                let length = match *length {
                    65_535 => {
                        let length = usize::from(set[0]);
                        set = &set[1..];
                        length
                    }
                    length => length,
                };
                record.insert(*element, set[..length].to_vec());
                set = &set[length..];
            }
            self.records.push(record);
        }
    }
}

/// A field as a number.
pub fn number(record: &Record, element: u16) -> u64 {
    record[&element].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// A field that is an address of IPv4 or one of IPv6.
pub fn address(record: &Record, elements: [u16; 2]) -> IpAddr {
    let [v4, v6] = elements.map(|element| record.get(&element).map(Vec::as_slice));
    match (v4, v6) {
        (Some(bytes), _) => Ipv4Addr::from(<[u8; 4]>::try_from(bytes).unwrap()).into(),
        (_, Some(bytes)) => Ipv6Addr::from(<[u8; 16]>::try_from(bytes).unwrap()).into(),
        _ => panic!("{record:?}"),
    }
}

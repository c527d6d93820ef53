//! Records of flows on their way to collectors of IPFIX.

use std::net::{Ipv6Addr, SocketAddr};
use std::time::{Duration, SystemTime};

use collectors::ipfix::{End, Flow};

use super::flow::FlowKey;

/// Bytes of one.
const BYTES: usize = 96;

/// What the program says of a flow (`flow_record` of `apps/firewall/record.baker`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowRecord {
    key: FlowKey,
    end: End,
    rule: u16,
    low_first: bool,
    /// Of the first packet and the last, in nanoseconds of the monotonic clock.
    time: [u64; 2],
    packets: [u64; 2],
    octets: [u64; 2],
}

impl FlowRecord {
    /// Reads one. None where it is none.
    pub fn read(bytes: &[u8]) -> Option<FlowRecord> {
        let bytes = bytes.get(..BYTES)?;
        let number =
            |at: usize, len: usize| bytes[at..at + len].iter().fold(0, |all, byte| all << 8 | u128::from(*byte));
        let pair = |at: usize| [number(at, 8) as u64, number(at + 8, 8) as u64];
        Some(FlowRecord {
            key: FlowKey {
                low: Ipv6Addr::from(number(0, 16)),
                high: Ipv6Addr::from(number(16, 16)),
                low_port: number(32, 2) as u16,
                high_port: number(34, 2) as u16,
                protocol: bytes[36],
            },
            end: match bytes[37] {
                1 => End::Idle,
                2 => End::Active,
                3 => End::Done,
                4 => End::Forced,
                _ => return None,
            },
            rule: number(38, 2) as u16,
            low_first: bytes[40] != 0,
            time: pair(48),
            packets: pair(64),
            octets: pair(80),
        })
    }

    /// As collectors are told of it, at a time of both clocks, by the name of its rule.
    pub fn flow(&self, monotonic: u64, now: SystemTime, rule: impl FnOnce(u16) -> String) -> Flow {
        let at = |time: u64| {
            let ago = Duration::from_nanos(monotonic.saturating_sub(time));
            now.checked_sub(ago).unwrap_or(SystemTime::UNIX_EPOCH)
        };
        let [client, server] = self.key.ends(self.low_first);
        // Collectors have type and code in the second port, and nothing in the first, as NetFlow had them.
        let (client, server) = match self.key.is_icmp() {
            true => (SocketAddr::new(client.ip(), 0), SocketAddr::new(server.ip(), server.port() << 8)),
            false => (client, server),
        };
        Flow {
            client,
            server,
            chosen: None,
            protocol: self.key.protocol,
            time: self.time.map(at),
            octets: self.octets,
            packets: self.packets,
            end: self.end,
            status: None,
            application: rule(self.rule),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes() -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend("::ffff:10.0.1.11".parse::<Ipv6Addr>().unwrap().octets());
        bytes.extend("::ffff:203.0.113.5".parse::<Ipv6Addr>().unwrap().octets());
        bytes.extend([0x9c, 0x40, 1, 0xbb, 6, 3, 0, 7, 1]);
        bytes.extend([0; 7]);
        [5_000_000_000, 7_000_000_000, 8, 9, 1000, 2000].iter().for_each(|own: &u64| bytes.extend(own.to_be_bytes()));
        bytes
    }

    #[test]
    fn a_record_is_read() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let flow = FlowRecord::read(&bytes()).unwrap().flow(10_000_000_000, now, |rule| format!("rule {rule}"));
        let ago = |seconds| now - Duration::from_secs(seconds);
        let expected = Flow {
            client: "10.0.1.11:40000".parse().unwrap(),
            server: "203.0.113.5:443".parse().unwrap(),
            chosen: None,
            protocol: 6,
            time: [ago(5), ago(3)],
            octets: [1000, 2000],
            packets: [8, 9],
            end: End::Done,
            status: None,
            application: "rule 7".into(),
        };
        assert_eq!(flow, expected);
        let mut other = bytes();
        (other[40], other[37]) = (0, 2);
        let flow = FlowRecord::read(&other).unwrap().flow(10_000_000_000, now, |_| String::new());
        assert_eq!((flow.client.port(), flow.server.port(), flow.end), (443, 40000, End::Active));
    }

    #[test]
    fn what_is_no_record_is_none() {
        assert_eq!(FlowRecord::read(&bytes()[..95]), None);
        for reason in [0, 5, 255] {
            let mut other = bytes();
            other[37] = reason;
            assert_eq!(FlowRecord::read(&other), None);
        }
    }

    #[test]
    fn type_and_code_of_icmp_are_in_the_port() {
        let mut bytes = bytes();
        (bytes[36], bytes[34], bytes[35]) = (1, 0, 8);
        let flow = FlowRecord::read(&bytes).unwrap().flow(0, SystemTime::now(), |_| String::new());
        assert_eq!((flow.client.port(), flow.server.port()), (0, 0x0800));
    }
}

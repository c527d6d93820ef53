//! Packets of the stream, and whether what receivers get is what they must get: read by themselves, checksums included.

use lab::{Mac, RawPort};
use std::collections::HashMap;
use std::time::Duration;

use super::network::{BOX, Network, PORT, Receiver, SOURCE};
use crate::text;

/// Bytes of the payload: seven packets of an MPEG transport stream in RTP.
const PAYLOAD: usize = 1328;
pub const HEADERS: usize = 42;
const PATIENCE: Duration = Duration::from_secs(20);

/// A packet of the stream, as the source sends it.
pub fn frame(number: u16) -> Vec<u8> {
    let (macs, ends) = ([[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]], [SOURCE, BOX]);
    let mut payload = number.to_be_bytes().to_vec();
    payload.extend((2..PAYLOAD).map(|at| (at * 7 + at / 256) as u8));
    udp(macs, ends, [PORT, PORT], &payload)
}

/// A datagram of UDP in IPv4 and Ethernet: the receiver's and the sender's MAC, the addresses and ports from and to.
pub fn udp([to, from]: [Mac; 2], addresses: [[u8; 4]; 2], ports: [u16; 2], payload: &[u8]) -> Vec<u8> {
    let mut frame = [&to[..], &from, &[8, 0, 0x45, 0]].concat();
    frame.extend(((payload.len() + 28) as u16).to_be_bytes());
    // "Don't fragment", as streams have it.
    frame.extend([[0, 0], [0x40, 0], [64, 17], [0, 0]].concat());
    frame.extend(addresses.concat());
    frame.extend([ports[0], ports[1], payload.len() as u16 + 8, 0].map(u16::to_be_bytes).concat());
    frame.extend(payload);
    let header = !sum(&[&frame[14..34]]);
    frame[24..26].copy_from_slice(&header.to_be_bytes());
    let check = !sum(&[&frame[26..34], &[0, 17], &frame[38..40], &frame[34..]]);
    frame[40..42].copy_from_slice(&check.to_be_bytes());
    frame
}

/// RFC 1071.
fn sum(parts: &[&[u8]]) -> u16 {
    let words = parts.iter().flat_map(|part| part.chunks(2));
    let words = words.map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low)));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// Sends a burst and reads all copies: each receiver gets all of it once and in order, with its addresses and right
/// checksums.
pub fn check(network: &Network, burst: u16) -> Result<(), String> {
    let source = RawPort::open(&network.source, "eth0").map_err(text)?;
    let ends = network.ends();
    let mut ends: Vec<RawPort> =
        ends.iter().map(|end| RawPort::open(&network.sink, end).map_err(text)).collect::<Result<_, _>>()?;
    let frames: Vec<Vec<u8>> = (0..burst).map(frame).collect();
    frames.iter().try_for_each(|frame| source.send(frame)).map_err(text)?;
    let mut got: HashMap<(u8, u8), Vec<u16>> = HashMap::new();
    for (device, end) in ends.iter_mut().enumerate() {
        let due = network.receivers.iter().filter(|to| usize::from(to.device) == device).count() * frames.len();
        for number in 0..due {
            let came = end.recv_where(PATIENCE, |bytes| bytes.len() > 14 && bytes[12..14] == [8, 0]).map_err(text)?;
            let came = came.ok_or_else(|| format!("in{device}: {number} of {due} packets came"))?;
            let (to, number) = right(&came).map_err(|what| format!("in{device}: {what}: {:02x?}", &came[..50]))?;
            if usize::from(to.device) != device {
                return Err(format!("in{device} has got a packet for {:?}", to.address()));
            }
            got.entry((to.device, to.host)).or_default().push(number);
        }
    }
    let expected: Vec<u16> = (0..burst).collect();
    match network.receivers.iter().find(|to| got.get(&(to.device, to.host)) != Some(&expected)) {
        Some(to) => Err(format!("{:?} has got {:?}", to.address(), got.get(&(to.device, to.host)))),
        None => Ok(()),
    }
}

/// Whose packet it is, and its number, if it is right.
fn right(bytes: &[u8]) -> Result<(Receiver, u16), &'static str> {
    if bytes.len() != HEADERS + PAYLOAD {
        return Err("of another length");
    }
    let to = Receiver { device: bytes[32], host: bytes[33] };
    let number = u16::from_be_bytes([bytes[42], bytes[43]]);
    let sent = frame(number);
    let rules = [
        (bytes[..6] == to.mac() && bytes[6..12] == to.gateway_mac(), "wrong Ethernet addresses"),
        (bytes[26..30] == to.gateway() && bytes[30..34] == to.address(), "wrong IP addresses"),
        // The kernel's sockets have a time to live of their own, and identifications.
        (bytes[14..18] == sent[14..18] && bytes[23] == 17, "another IP header"),
        (sum(&[&bytes[14..34]]) == 0xffff, "a wrong IP checksum"),
        (bytes[34..40] == sent[34..40], "another UDP header"),
        (bytes[40..42] != [0, 0], "no UDP checksum"),
        (sum(&[&bytes[26..34], &[0, 17], &bytes[38..40], &bytes[34..]]) == 0xffff, "a wrong UDP checksum"),
        (bytes[HEADERS..] == sent[HEADERS..], "another payload"),
    ];
    rules.into_iter().find(|(holds, _)| !holds).map_or(Ok((to, number)), |(_, what)| Err(what))
}

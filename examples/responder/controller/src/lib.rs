//! Answers ARP requests and pings, on the slow path: a small controller that uses all that a controller has.
//!
//! Its program is `examples/responder`. It receives requests, notes their senders in a table, injects the answers, and
//! decides by a function which addresses are answered.
#![forbid(unsafe_code)]

use std::net::Ipv4Addr;
use std::time::Duration;

use cli::Linked;
use control::application::{Application, Given};
use dataplane::controller::{Controller, Event, ExternFn, Link, Record};

/// How often it looks around where nothing comes.
const PAUSE: Duration = Duration::from_secs(1);

/// Bytes of an Ethernet header.
const ETHER: usize = 14;
/// Bytes of an IPv4 header without options.
const IPV4: usize = 20;
/// ICMP's type of an echo request, which lies behind both.
const ECHO_REQUEST: u8 = 8;

/// The program's `host_t`.
struct Host {
    address: Ipv4Addr,
    port: u8,
    requests: u32,
}

impl Record for Host {
    const FIELDS: usize = 3;

    fn to_fields(&self, fields: &mut [u128]) {
        (self.address, self.port, self.requests).to_fields(fields);
    }

    fn from_fields(fields: &[u128]) -> Option<Self> {
        let (address, port, requests) = Record::from_fields(fields)?;
        Some(Host { address, port, requests })
    }
}

/// The controller.
#[derive(Debug, Default)]
pub struct Responder;

/// What it is to Millrace.
pub struct ResponderApplication;

/// How a binary is linked with it.
pub const LINKED: Linked = Linked::new(&ResponderApplication);

impl Application for ResponderApplication {
    const NAME: &'static str = "responder";
    type Settings = ();

    fn controller(&self, _: Given<()>) -> Box<dyn Controller> {
        Box::new(Responder)
    }
}

impl Controller for Responder {
    fn externs(&mut self) -> Vec<(String, ExternFn)> {
        // Private addresses only (RFC 1918).
        let may_ask: ExternFn = Box::new(|numbers| u32::from_fields(numbers).is_some_and(is_private).into());
        vec![("responder.may_ask".into(), may_ask)]
    }

    fn run(&mut self, link: &mut Link) -> Result<(), String> {
        let text = |error: dataplane::controller::NameError| error.to_string();
        let answers = link.input("responder.answers").map_err(text)?;
        let (rx_port, tx_port) = (link.field("rx.port").map_err(text)?, link.field("tx.port").map_err(text)?);
        let own = link.tables().table::<Ipv4Addr, [u8; 6]>("responder.addresses").map_err(text)?;
        let mut hosts = link.tables().table::<[u8; 6], Host>("responder.hosts").map_err(text)?;
        loop {
            let packet = match link.receive(PAUSE) {
                Event::Packet(packet) => packet,
                Event::Room | Event::Timer(_) | Event::Idle => continue,
                Event::Stop => return Ok(()),
            };
            let request = packet.bytes();
            let answer = match packet.channel() {
                "responder.arp_requests" => arp_answer(request, |address| own.get(&address)),
                _ => echo_answer(request),
            };
            let Some((address, answer)) = answer else { continue };
            let Ok(mac) = <[u8; 6]>::try_from(&request[6..12]) else { continue };
            let port = packet.metadata(rx_port);
            if hosts.get(&mac).is_none() {
                // The program counts the requests; where the table is full it does not.
                let _ = hosts.set(&mac, &Host { address, port: port as u8, requests: 1 });
            }
            // Where too many are under way the host asks again.
            let _ = link.injector().inject_on(packet.worker(), answers, &answer, &[(tx_port, port)]);
        }
    }
}

fn is_private(address: u32) -> bool {
    Ipv4Addr::from(address).is_private()
}

/// The sender, and the answer (RFC 826), where the address asked for is one of ours.
fn arp_answer(request: &[u8], mac_of: impl Fn(Ipv4Addr) -> Option<[u8; 6]>) -> Option<(Ipv4Addr, Vec<u8>)> {
    let packet: &[u8; ETHER + 28] = request.first_chunk()?;
    let address = |at: usize| Some(Ipv4Addr::from(*packet[at..].first_chunk::<4>()?));
    let (sender, target) = (address(ETHER + 14)?, address(ETHER + 24)?);
    let mac = mac_of(target)?;
    let mut answer = packet.to_vec();
    answer[..6].copy_from_slice(&packet[6..12]);
    answer[6..12].copy_from_slice(&mac);
    answer[ETHER + 7] = 2;
    // The one that answers, then the one that asked.
    answer[ETHER + 8..ETHER + 14].copy_from_slice(&mac);
    answer[ETHER + 14..ETHER + 18].copy_from_slice(&target.octets());
    answer[ETHER + 18..ETHER + 28].copy_from_slice(&packet[ETHER + 8..ETHER + 18]);
    Some((sender, answer))
}

/// The sender, and the echo (RFC 792) of a request whose IPv4 header has no options.
fn echo_answer(request: &[u8]) -> Option<(Ipv4Addr, Vec<u8>)> {
    let header: &[u8; ETHER + IPV4 + 8] = request.first_chunk()?;
    if header[ETHER + IPV4] != ECHO_REQUEST {
        return None;
    }
    let mut answer = request.to_vec();
    let (mac, ip) = (0..12, ETHER + 12..ETHER + 20);
    // Addresses change places; the header's checksum stays right.
    answer[mac].rotate_left(6);
    answer[ip].rotate_left(4);
    answer[ETHER + IPV4] = 0;
    // The type was the upper half of a word that fell by 0x0800, so the checksum rises (RFC 1624 equation 3).
    let checksum = u16::from_be_bytes([header[ETHER + IPV4 + 2], header[ETHER + IPV4 + 3]]);
    let (sum, carry) = checksum.overflowing_add(u16::from(ECHO_REQUEST) << 8);
    answer[ETHER + IPV4 + 2..ETHER + IPV4 + 4].copy_from_slice(&(sum + u16::from(carry)).to_be_bytes());
    Some((Ipv4Addr::from(*header[ETHER + 12..].first_chunk::<4>()?), answer))
}

//! Label switching: packets in the style of the Network Processing Forum's benchmarks, and the shipped trace.
//!
//! | port | what is there | address of the router |
//! |---|---|---|
//! | 1 | a customer | 02:00:00:00:01:01 |
//! | 2 | an LSR that sends labelled packets | 02:00:00:00:01:02 |
//! | 3 | an LSR that gets them | 02:00:00:00:01:03 |

use super::case::{App, Case, Trace};
use super::firewall::INSIDE;
use crate::frames::{ethernet, frame, ipv4, udp};
use crate::numbers::SplitMix64;
use crate::routes;

const CUSTOMER: u64 = 0x0200_0000_0011;
const ROUTER: u64 = 0x0200_0000_0100;
const SENDING: u64 = 0x0200_0000_0201;
const GETTING: u64 = 0x0200_0000_0301;
/// The getting LSR, as the table of neighbours has it: ::ffff:10.0.13.2.
const GATEWAY: u128 = 0xffff_0a00_0d02;

/// The first label that is switched, the NHLFE of the first one, and how many of them there are.
const LABELS: u32 = 100_000;
const NHLFES: u32 = 100;
const OUT: u32 = 16;
/// As the tables number what is done with a label, and models of TTL and traffic class.
const FORWARD: u128 = 1;
const POP: u128 = 2;
const UNIFORM: u128 = 0;
const PIPE: u128 = 1;
const TC_KEEP: u128 = 8;

/// The case of a name.
pub fn case(app: &App, name: &str, pool: u32) -> Result<Option<Case>, String> {
    let case = match name {
        "mpls, shipped trace" => app.shipped(name)?,
        "mpls, swap" => swapped(app, name, 1, pool)?,
        "mpls, swap, 3 labels" => swapped(app, name, 3, pool)?,
        "mpls, pop" => popped(app, name, pool)?,
        "mpls, push, 16 routes" => pushed(app, name, 16, pool)?,
        "mpls, push, 1000000 routes" => pushed(app, name, 1_000_000, pool)?,
        _ => return Ok(None),
    };
    Ok(Some(case))
}

/// NHLFEs towards the getting LSR, and which that is.
fn outward(app: &App, name: &str, packets: Trace) -> Result<Case, String> {
    let mut case = app.case(name, Trace::new(), packets)?;
    for index in 0..OUT {
        let (at, label) = (NHLFES + index, 200_000 + index);
        case.entry("label_push.nhlfes", &[at.into()], None, &[label.into(), UNIFORM, TC_KEEP, 0, 3, GATEWAY]);
    }
    case.entry("adjacency.neighbours", &[3, GATEWAY], None, &[GETTING.into()]);
    Ok(case)
}

/// A labelled packet of the sending LSR: labels from the top to the bottom.
fn labelled(labels: &[u32], to: u32, index: u32) -> (u8, Vec<u8>) {
    let last = labels.len() - 1;
    let entry = |(at, label): (usize, &u32)| (label << 12 | u32::from(at == last) << 8 | 64).to_be_bytes();
    let stack: Vec<u8> = labels.iter().enumerate().flat_map(entry).collect();
    let packet = ipv4(0x0a02_0005, to, 17, &udp(index as u16, 5004, &[]));
    (2, frame(ethernet(ROUTER + 2, SENDING, 0x8847), &[stack, packet].concat()))
}

/// A random one of 4096 labels on top of others is swapped.
fn swapped(app: &App, name: &str, depth: u32, pool: u32) -> Result<Case, String> {
    let mut numbers = SplitMix64::new(21);
    let mut packet = |index| {
        let top = LABELS + numbers.below(4096) as u32;
        let labels: Vec<u32> = (0..depth).map(|at| if at == 0 { top } else { 300_000 + at }).collect();
        labelled(&labels, 0x0a09_0001, index)
    };
    let mut case = outward(app, name, (0..pool).map(&mut packet).collect())?;
    for index in 0..4096 {
        let value = [FORWARD, UNIFORM, PIPE, (NHLFES + index % OUT).into()];
        case.entry("label_lookup.ilm", &[(LABELS + index).into()], None, &value);
    }
    Ok(case)
}

/// The label is popped, and the packet goes to one of 64 hosts of the customer.
fn popped(app: &App, name: &str, pool: u32) -> Result<Case, String> {
    let mut numbers = SplitMix64::new(22);
    let mut packet = |index| labelled(&[LABELS], 0x0a01_0010 + numbers.below(64) as u32, index);
    let mut case = app.case(name, Trace::new(), (0..pool).map(&mut packet).collect())?;
    case.entry("label_lookup.ilm", &[LABELS.into()], None, &[POP, UNIFORM, PIPE, 0]);
    for host in 0..64 {
        let address = 0xffff_0a01_0010 + host;
        case.entry("adjacency.neighbours", &[1, address], None, &[u128::from(CUSTOMER) + host]);
    }
    Ok(case)
}

/// The customer's packets to random hosts of so many prefixes get a label.
fn pushed(app: &App, name: &str, count: u32, pool: u32) -> Result<Case, String> {
    let routes = routes::like_the_internet(count, OUT);
    let mut numbers = SplitMix64::new(23);
    let mut packet = |index| {
        let to = routes[numbers.below(routes.len() as u64) as usize].host(&mut numbers);
        let packet = ipv4(0x0a01_000b, to, 17, &udp(index as u16, 5004, &[]));
        (1, frame(ethernet(ROUTER + 1, CUSTOMER, 0x0800), &packet))
    };
    let mut case = outward(app, name, (0..pool).map(&mut packet).collect())?;
    for route in &routes {
        let nhlfe = NHLFES + route.next_hop - 1;
        case.entry("ipv4_route.fib", &[route.prefix.into()], Some(route.len.into()), &[nhlfe.into()]);
    }
    Ok(case)
}

/// Makes port 1 the one that labelled packets come in at, and port 2 the one that they leave from.
pub fn between_two_ports(case: &mut Case) {
    for (port, mac) in [(1, ROUTER + 2), (2, ROUTER + 3)] {
        case.entry("classify.interfaces", &[port], None, &[0, mac.into(), 0, 0, 1, 0]);
    }
    for (_, entry) in case.entries.iter_mut().filter(|(table, _)| *table == "label_push.nhlfes") {
        entry.value[4] = 2;
    }
    case.entry("adjacency.neighbours", &[2, GATEWAY], None, &[GETTING.into()]);
}

/// What the kernel gets in place of labelled packets: the same without labels, to the getting LSR's network.
pub fn unlabelled(pool: u32) -> Vec<Vec<u8>> {
    let packet = |index: u32| {
        let to = 0x1400_0000 | (index % OUT) << 16 | index;
        let packet = ipv4(0x0a02_0005, to, 17, &udp(index as u16, 5004, &[]));
        frame(ethernet(INSIDE, SENDING, 0x0800), &packet)
    };
    (0..pool).map(packet).collect()
}

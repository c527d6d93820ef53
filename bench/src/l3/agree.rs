//! Whether the C peers and Millrace do the same: same packets in, same bytes, ports, drops and known stations out.

use std::collections::BTreeMap;
use std::sync::Arc;

use baker::ir::{CounterSlots, DropId, Program, TableStore};
use dataplane::step::{StepOutput, Stepper};
use dataplane::{EngineKind, TableAccess, Tables};

use super::peer::{Build, FdbEntry, Kind, Left, Peer};
use super::setup::{NEIGHBOUR, ROUTER, SENDER, STATIONS, Setup, packet, table};
use crate::frames::{checksum, ethernet};
use crate::numbers::SplitMix64;

/// Time between two batches in ns: each second has some.
const STEP: u64 = 400_000_000;

/// Runs packets through Millrace and each peer, first as the batches that are measured, then one at a time beside
/// packets of every other kind. The error says where they differ.
pub fn check(program: &Arc<Program>, setup: &Setup, build: Build, packets: &[Vec<u8>]) -> Result<(), String> {
    let each = |kind: &Kind| {
        compare(program, [setup, setup], build, *kind, packets).map_err(|error| format!("{}: {error}", kind.name()))
    };
    Kind::all().iter().try_for_each(each)
}

/// The same with tables for Millrace and for the peer.
pub(super) fn compare(
    program: &Arc<Program>,
    [setup, peers]: [&Setup; 2],
    build: Build,
    kind: Kind,
    packets: &[Vec<u8>],
) -> Result<(), String> {
    let text = |error: dataplane::step::StepError| error.to_string();
    let mut millrace = Stepper::new(program.clone(), EngineKind::NATIVE).map_err(text)?;
    setup.fill(program, &mut millrace)?;
    let peer = Peer::new(build, kind, peers)?;
    let left = peer.left();
    let unused = TableAccess::Native(Arc::new(Tables::new(program).map_err(|error| error.to_string())?));
    let mut c = Stepper::with_engine(program.clone(), Box::new(peer), unused).map_err(text)?;
    let of_port_1 = |batch: &[Vec<u8>]| -> Vec<_> { batch.iter().map(|packet| (1, packet.clone())).collect() };
    let batches = packets.chunks(codegen::abi::MAX_BATCH).map(of_port_1);
    let others = others(setup).into_iter().map(|one| vec![one]);
    for (batch, now) in batches.chain(others).zip((0..).step_by(STEP as usize)) {
        millrace.set_now(now);
        c.set_now(now);
        same(&batch, &millrace.receive_batch(&batch), &c.receive_batch(&batch))?;
    }
    millrace.check_frames()?;
    c.check_frames()?;
    drop(c);
    let left = left.lock().map_err(|_| "the C peer failed")?;
    same_drops(program, millrace.counters(), &left)?;
    let known: BTreeMap<_, FdbEntry> = millrace
        .dump(table(program, STATIONS)?)
        .into_iter()
        .map(|entry| ((entry.key[0] as u8, entry.key[1] as u64), (entry.value[0] as u8, entry.value[1] as u32)))
        .collect();
    let differs = known.iter().map(|(key, place)| (key, Some(place), left.stations.get(key)));
    let more = left.stations.iter().map(|(key, place)| (key, known.get(key), Some(place)));
    match differs.chain(more).find(|(_, own, peers)| own != peers) {
        None => Ok(()),
        Some((station, own, peers)) => {
            Err(format!("station {station:x?}: Millrace knows {own:?}, the C peer {peers:?}"))
        }
    }
}

fn same_drops(program: &Program, counters: Vec<u64>, left: &Left) -> Result<(), String> {
    let slots = CounterSlots::new(program);
    for &(reason, count) in &left.drops {
        let id = program.drop_reasons.iter().position(|drop| drop.name == reason);
        let id = id.ok_or_else(|| format!("the L3 switch has no drop reason {reason}"))?;
        let own = counters[slots.drop(DropId(id as u32))];
        if own != count {
            return Err(format!("Millrace dropped {own} packets for {reason}, the C peer {count}"));
        }
    }
    Ok(())
}

/// Compares outputs: where to, the port, the bytes.
fn same(packets: &[(u8, Vec<u8>)], millrace: &[StepOutput], c: &[StepOutput]) -> Result<(), String> {
    let seen = |outputs: &[StepOutput]| -> Vec<_> {
        // A packet for the host or a controller has no port to leave by.
        let port = |output: &StepOutput| match output.end {
            baker::ir::interp::End::Tx => output.metadata[Program::TX_PORT.0 as usize],
            baker::ir::interp::End::Host | baker::ir::interp::End::Controller(_) => 0,
        };
        outputs.iter().map(|output| (output.end, port(output), output.bytes.clone())).collect()
    };
    let (millrace, c) = (seen(millrace), seen(c));
    if millrace == c {
        return Ok(());
    }
    let first = millrace.iter().zip(&c).position(|(a, b)| a != b).unwrap_or(millrace.len().min(c.len()));
    let (a, b) = (millrace.get(first), c.get(first));
    Err(format!(
        "Millrace and the C peer differ on a batch of {}:\n  {a:02x?}\n  {b:02x?}\n  {packets:02x?}",
        packets.len()
    ))
}

/// Packets of all kinds, on all ports: good and bad headers, ARP, unknown stations, groups, and random damage.
fn others(setup: &Setup) -> Vec<(u8, Vec<u8>)> {
    let mut numbers = SplitMix64::new(3);
    let mut packets = vec![];
    let to = setup.routes.first().map_or(0, |route| route.prefix);
    let routed = packet(ROUTER + 1, SENDER, to, 1);
    let ip = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = routed.clone();
        change(&mut bytes);
        bytes[24..26].fill(0);
        let check = checksum(&bytes[14..34]);
        bytes[24..26].copy_from_slice(&check);
        (1, bytes)
    };
    packets.extend([
        ip(&|b| b[22] = 1),
        ip(&|b| b[22] = 0),
        ip(&|b| b[14] = 0x55),
        ip(&|b| b[14] = 0x44),
        ip(&|b| b[14] = 0x46),
        ip(&|b| b[17] = 19),
        ip(&|b| b[17] = 200),
        ip(&|b| b[26] = 127),
        ip(&|b| b[26] = 224),
        ip(&|b| b[26] = 0),
        ip(&|b| b[30..34].copy_from_slice(&[10, 0, 1, 1])),
        ip(&|b| b[30..34].copy_from_slice(&[223, 255, 255, 254])),
        ip(&|b| b[12..14].copy_from_slice(&[0x86, 0xdd])),
    ]);
    packets.extend([0, 1, 13, 14, 20, 33].map(|len| (1, routed[..len].to_vec())));
    for sender_ip in [to, 0x0a00_010b] {
        for dst in [0xffff_ffff_ffff, ROUTER + 1, NEIGHBOUR] {
            let mut arp = ethernet(dst, SENDER, 0x0806);
            arp.extend([0, 1, 8, 0, 6, 4, 0, 1]);
            arp.extend(&SENDER.to_be_bytes()[2..]);
            arp.extend(sender_ip.to_be_bytes());
            arp.resize(60, 0);
            packets.extend([(1, arp.clone()), (2, arp.clone()), (1, arp[..40].to_vec())]);
        }
    }
    for dst in [NEIGHBOUR, SENDER, 0xffff_ffff_ffff, 0x0100_5e00_0001, 0x0200_0000_7777, ROUTER + 2] {
        packets.extend([1, 2, 3, 4, 64, 200].map(|port| (port, packet(dst, SENDER + 1, to, 0))));
    }
    for index in 0..2000 {
        let mut bytes = packet([ROUTER + 1, NEIGHBOUR][index as usize & 1], SENDER, numbers.next() as u32, index);
        for _ in 0..numbers.below(3) {
            let at = numbers.below(40) as usize;
            bytes[at] = numbers.next() as u8;
        }
        if numbers.below(8) == 0 {
            bytes.truncate(numbers.below(60) as usize);
        }
        packets.push((1 + numbers.below(4) as u8, bytes));
    }
    packets
}

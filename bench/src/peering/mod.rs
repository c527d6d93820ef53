//! `bench peering`: host-interface peering. The L3 switch with each access mode, by packet length, against the kernel's
//! forwarding; traffic to the host itself; and beside it the model of the published testbed.

mod host;
mod live;
mod memory;
mod model;
mod reload;

use dataplane::{Access, FrameConfig};

use crate::Effort;
use crate::frames::{checksum, udp};
use crate::l3;
use crate::l3::setup::Setup;
use crate::results::Results;

/// Bytes of frames with the frame check sequence.
const LENGTHS: [usize; 10] = [64, 128, 256, 512, 1024, 1500, 2048, 4096, 8192, 9000];
/// Of a smoke run.
const SMOKE: [usize; 2] = [64, 8192];
/// Bytes of the frame check sequence.
const FCS: usize = 4;
/// Longer frames take larger frames of memory and a larger MTU.
const LONGEST_USUAL: usize = 1518;
const LARGE_MTU: u32 = 9000;
/// Packets that are generated.
const POOL: u32 = 1024;
const ROUTES: u32 = 16;

/// Runs all parts, or those that `PART=memory,host` names: memory, live, host, reload, model. `CASE="8192 bytes"`
/// limits the first two to one length.
pub fn run(effort: Effort) -> Result<Results, String> {
    let program = l3::program()?;
    let setup = Setup::new(&program, ROUTES);
    let mut results = Results::default();
    let parts = std::env::var("PART").unwrap_or_default();
    let wanted = |part: &str| parts.is_empty() || parts.split(',').any(|named| named == part);
    if wanted("memory") {
        memory::measure(&program, &setup, effort, &mut results)?;
    }
    if wanted("live") {
        live::measure(&program, &setup, effort, &mut results)?;
    }
    if wanted("host") {
        host::measure(effort, &mut results)?;
    }
    if wanted("reload") {
        reload::measure(effort, &mut results)?;
    }
    if wanted("model") {
        model::measure(&mut results)?;
    }
    Ok(results)
}

/// The lengths to measure.
fn lengths(effort: Effort) -> impl Iterator<Item = usize> {
    let only = std::env::var("CASE").ok();
    let all = if effort.quick { &SMOKE[..] } else { &LENGTHS };
    all.iter().copied().filter(move |length| only.as_ref().is_none_or(|only| *only == case(*length)))
}

fn case(length: usize) -> String {
    format!("{length} bytes")
}

/// Frames of memory for packets of this length.
fn frames(length: usize) -> FrameConfig {
    let usual = FrameConfig::default();
    FrameConfig { frame_size: if length > LONGEST_USUAL { 16384 } else { usual.frame_size }, ..usual }
}

/// Routed packets of this length, with the frame check sequence that is not among their bytes.
fn packets(setup: &Setup, length: usize) -> Vec<Vec<u8>> {
    setup.routed(POOL).into_iter().map(|frame| lengthened(&frame, length - FCS)).collect()
}

/// A UDP packet with more data.
fn lengthened(frame: &[u8], length: usize) -> Vec<u8> {
    const UDP: usize = 34;
    let data = vec![0x5a; length - UDP - 8];
    let port = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    let mut longer = [&frame[..UDP], &udp(port(UDP), port(UDP + 2), &data)].concat();
    longer[16..18].copy_from_slice(&((length - 14) as u16).to_be_bytes());
    longer[24..26].fill(0);
    let check = checksum(&longer[14..UDP]);
    longer[24..26].copy_from_slice(&check);
    longer
}

/// Rates of packets of this length, in million packets per second, as Gbit/s with the frame check sequence.
fn gigabits(rates: &[f64], length: usize) -> Vec<f64> {
    rates.iter().map(|rate| rate * length as f64 * 8.0 / 1e3).collect()
}

/// Says how many times as fast as copying the other modes are, by the medians of their rates.
fn compared(results: &mut Results, case: &str, metric: &str) {
    let of = |access: Access| results.median(case, access.name(), metric);
    if let [Some(copy), Some(in_place), Some(header)] = Access::ALL.map(of) {
        let [in_place, header] = [in_place, header].map(|rate| rate / copy);
        results.note(format!("{case}: {in_place:.2} times copy in place, {header:.2} times with header copy"));
    }
}

/// The same by what a packet costs the worker, which does not depend on how much of the CPU others leave it.
fn compared_costs(results: &mut Results, case: &str) {
    let of = |access: Access| results.median(case, access.name(), "worker_ns_per_packet");
    if let [Some(copy), Some(in_place), Some(header)] = Access::ALL.map(of) {
        let [in_place, header] = [in_place, header].map(|cost| copy / cost);
        results.note(format!(
            "{case}: by the worker's CPU time {in_place:.2} times in place, {header:.2} with header copy"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dataplane::EngineKind;

    /// What is generated is forwarded whole, in every mode and of every length.
    #[test]
    fn packets_of_every_length_are_forwarded() {
        let program = l3::program().unwrap();
        let setup = Setup::new(&program, ROUTES);
        for length in LENGTHS {
            let packets = packets(&setup, length);
            assert!(packets.iter().all(|packet| packet.len() == length - FCS));
            for access in Access::ALL {
                let mut rig = memory::rig(&program, &setup, EngineKind::NATIVE, length, access).unwrap();
                let measured = rig.run(1, &packets, 1);
                assert_eq!((measured.packets, measured.outputs), (POOL.into(), POOL.into()), "{length} {access}");
                assert_eq!(measured.snapshot.drops.iter().map(|(_, count)| count).sum::<u64>(), 0, "{length} {access}");
            }
        }
    }
}

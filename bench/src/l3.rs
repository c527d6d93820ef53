//! The L3 switch in memory, 64-byte packets, one core: compiled against interpreted.

use std::sync::Arc;

use baker::ir::{self, Program, TableEntry, TableId, TableStore};
use codegen::OptLevel;
use dataplane::{EngineKind, bench};

use crate::Effort;
use crate::results::Results;

const SOURCE: &str = include_str!("../../apps/l3switch/l3switch.baker");
/// Packets in the pool that a run cycles through.
const POOL: u32 = 4096;
const ROUTES: u32 = 16;

/// Makes the packet of an index.
type Packet = fn(u32) -> Vec<u8>;

/// Runs the measurement.
pub fn run(effort: Effort) -> Result<Results, String> {
    let compilation = baker::check::check("l3switch.baker", SOURCE, &baker::library::Library);
    let typed = compilation.program.ok_or("the L3 switch does not compile")?;
    let program = Arc::new(ir::lower(&typed));
    let systems = [("millrace", EngineKind::Native(OptLevel::O3), 1), ("interpreter", EngineKind::Interp, 50)];
    let cases: [(&str, Packet); 2] = [("bridged", bridged), ("16 routes", routed)];
    let mut results = Results::default();
    for (case, packet) in cases {
        let packets: Vec<_> = (0..POOL).map(packet).collect();
        let mut values = systems.map(|_| Vec::new());
        for _ in 0..effort.runs {
            for ((_, kind, slower), values) in systems.iter().zip(&mut values) {
                let rounds = (effort.kilopackets * 1000 / POOL / slower).max(1);
                let fill = |tables: &mut _| fill(&program, tables);
                let measured =
                    bench::in_memory(&program, *kind, 1, fill, &packets, rounds).map_err(|e| e.to_string())?;
                if measured.outputs != measured.packets {
                    return Err(format!("{case}: {} of {} packets came out", measured.outputs, measured.packets));
                }
                values.push(measured.ns_per_packet);
            }
        }
        for ((system, ..), values) in systems.iter().zip(values) {
            results.add(case, system, "ns_per_packet", "ns", values);
        }
    }
    Ok(results)
}

/// Port 1 in domain 1, port 2 in domain 2; 16 routed networks behind one neighbour each.
fn fill(program: &Program, tables: &mut impl TableStore) -> Result<(), String> {
    let mut add = |name: &str, key: Vec<u128>, prefix_len, value: Vec<u128>| {
        let index = program.tables.iter().position(|t| t.name == name).ok_or(format!("there is no table {name}"))?;
        let entry = TableEntry { key, prefix_len, value };
        tables.insert(TableId(index as u32), &entry).map_err(|e| format!("{name}: {e}"))
    };
    for port in [1, 2] {
        add("l3_switch.mac_addrs", vec![port], None, vec![0x0200_0000_0100 + port])?;
        add("l3_switch.domains", vec![port], None, vec![port])?;
        add("l2_bridge.members", vec![port], None, vec![1 << port])?;
    }
    add("l3_switch.domains", vec![3], None, vec![1])?;
    add("l2_bridge.stations", vec![1, 0x0200_0000_0011], None, vec![1])?;
    add("l2_bridge.stations", vec![1, 0x0200_0000_0012], None, vec![3])?;
    for route in 0..ROUTES as u128 {
        let gateway = 0x0a00_0200 + 10 + route;
        let mac = 0x0200_0000_0200 + route;
        add("l3_forward.next_hops", vec![route + 1], None, vec![2, gateway, 0x0200_0000_0102])?;
        add("l3_forward.fib", vec![0x1400_0000 | route << 16], Some(16), vec![route + 1])?;
        add("l3_forward.neighbours", vec![gateway], None, vec![mac])?;
        add("l2_bridge.stations", vec![2, mac], None, vec![2])?;
    }
    Ok(())
}

fn bridged(index: u32) -> Vec<u8> {
    packet([2, 0, 0, 0, 0, 0x12], 0x1400_0000, index)
}

fn routed(index: u32) -> Vec<u8> {
    // A multiplicative hash spreads destinations over networks and hosts (Knuth, TAOCP 6.4).
    let spread = index.wrapping_mul(2_654_435_761);
    packet([2, 0, 0, 0, 1, 1], 0x1400_0000 | (spread >> 28) << 16 | (spread & 0xffff), index)
}

/// UDP, 64 bytes with the frame check sequence.
fn packet(dst: [u8; 6], to: u32, index: u32) -> Vec<u8> {
    let mut ip = vec![0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 1, 11];
    ip.extend(to.to_be_bytes());
    let sum: u32 = ip.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    ip[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    let mut frame = dst.to_vec();
    frame.extend([2, 0, 0, 0, 0, 0x11, 8, 0]);
    frame.extend(ip);
    frame.extend((index as u16).to_be_bytes());
    frame.resize(60, 0);
    frame
}

//! The L3 switch's data path: whatever comes in, the interpreter and the machine code do the same, and no frame is
//! lost.

use std::cell::RefCell;

use baker::ir::interp::End;
use baker::ir::{Program, TableEntry, TableId, TableKind, TableStore};
use dataplane::EngineKind;
use dataplane::step::{StepOutput, Stepper};

use super::switch;

/// Packets of one input at most.
const MOST: usize = 16;
/// Longest packet, so that a frame holds it with room to grow.
const LONGEST: usize = 1600;
/// Where the time starts, in ns, and how much passes between two packets: entries that age do so within an input.
const START: u64 = 1_000_000_000_000;
const STEP: u64 = 40_000_000_000;

/// An input of some packets: port, length in two bytes, bytes.
pub fn encode<'p>(packets: impl Iterator<Item = (u8, &'p [u8])>) -> Vec<u8> {
    let mut data = Vec::new();
    for (port, packet) in packets {
        data.push(port);
        data.extend((packet.len() as u16).to_be_bytes());
        data.extend(packet);
    }
    data
}

/// The packets of an input; the last one may be cut.
fn decode(data: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let (mut rest, mut packets) = (data, Vec::new());
    while let [port, high, low, more @ ..] = rest
        && packets.len() < MOST
    {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(more.len());
        let (packet, after) = more.split_at(length);
        packets.push((*port, packet[..length.min(LONGEST)].to_vec()));
        rest = after;
    }
    packets
}

/// Both engines with the configuration in their tables, and the tables as they were then.
struct Engines {
    steppers: [Stepper; 2],
    tables: Vec<(TableId, Vec<TableEntry>)>,
}

impl Engines {
    fn new() -> Engines {
        let (program, config) = switch::small();
        let steppers = [EngineKind::Interp, EngineKind::NATIVE].map(|kind| {
            let mut stepper = Stepper::new(program.clone(), kind).unwrap_or_else(|error| panic!("{error}"));
            config.fill(program, &mut stepper).unwrap_or_else(|error| panic!("{error}"));
            stepper
        });
        // Only these are written by the program.
        let written = (0u32..).zip(&program.tables).filter(|(_, table)| table.kind == TableKind::Hash);
        let tables = written.map(|(index, _)| (TableId(index), steppers[0].dump(TableId(index)))).collect();
        Engines { steppers, tables }
    }

    fn run(&mut self, packets: &[(u8, Vec<u8>)]) {
        let (program, _) = switch::small();
        for (number, (port, packet)) in packets.iter().enumerate() {
            let [expected, found] = self.steppers.each_mut().map(|stepper| {
                stepper.set_now(START + number as u64 * STEP);
                let outputs: Vec<_> = stepper.receive(*port, packet).into_iter().map(visible).collect();
                stepper.check_frames().unwrap_or_else(|fault| panic!("packet {number}: {fault}"));
                (outputs, stepper.counters())
            });
            assert_eq!(expected.0, found.0, "packet {number} on port {port}: what leaves differs");
            assert_eq!(expected.1, found.1, "packet {number} on port {port}: counters differ");
        }
        for (table, configured) in &self.tables {
            let [expected, found] = self.steppers.each_ref().map(|stepper| stepper.dump(*table));
            assert_eq!(expected, found, "table {}", program.tables[table.0 as usize].name);
            // As it was before, so that an input does the same wherever it comes in a run.
            for stepper in &mut self.steppers {
                for entry in &expected {
                    stepper.remove(*table, &entry.key, None).unwrap_or_else(|error| panic!("{error}"));
                }
                for entry in configured {
                    stepper.insert(*table, entry).unwrap_or_else(|error| panic!("{error}"));
                }
            }
        }
    }
}

/// What an end sees: where the packet goes, its bytes, and the port that counts there.
fn visible(output: StepOutput) -> (End, Vec<u8>, u128) {
    let port = match output.end {
        End::Host | End::Controller(_) => Program::RX_PORT,
        End::Tx => Program::TX_PORT,
    };
    (output.end, output.bytes, output.metadata[port.0 as usize])
}

/// Takes some packets.
pub fn run(data: &[u8]) {
    thread_local! {
        static ENGINES: RefCell<Engines> = RefCell::new(Engines::new());
    }
    ENGINES.with_borrow_mut(|engines| engines.run(&decode(data)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_read_back() {
        let packets = [(1u8, vec![1, 2, 3]), (7, vec![]), (255, vec![0; 1500])];
        let mut data = encode(packets.iter().map(|(port, packet)| (*port, &packet[..])));
        assert_eq!(decode(&data), packets);
        data.truncate(4);
        assert_eq!(decode(&data), [(1, vec![1])]);
        assert_eq!(decode(&[1, 2]), []);
    }
}

//! A hold table of the interpreter: simple and obviously right rather than fast.

use super::packet::Packet;
use crate::ir::Table;

/// The packets that a table holds, in the order in which they were put there.
#[derive(Clone, Debug)]
pub(super) struct Held {
    places: u64,
    most: usize,
    packets: Vec<(u64, Packet)>,
}

impl Held {
    /// Of a table that holds packets.
    pub fn new(table: &Table) -> Option<Held> {
        let hold = table.hold?;
        Some(Held { places: table.capacity.into(), most: hold.packets as usize, packets: Vec::new() })
    }

    /// Holds a packet; whether another one had to go because there were too many.
    pub fn put(&mut self, key: u64, packet: Packet) -> bool {
        let place = key % self.places;
        self.packets.retain(|(other, _)| other % self.places != place);
        let is_full = self.packets.len() == self.most;
        if is_full {
            self.packets.remove(0);
        }
        self.packets.push((key, packet));
        is_full
    }

    /// What is held under a number.
    pub fn get(&self, key: u64) -> Option<&Packet> {
        self.packets.iter().find(|(other, _)| *other == key).map(|(_, packet)| packet)
    }
}

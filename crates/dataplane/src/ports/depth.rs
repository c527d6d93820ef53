//! How full the rings between a driver and the kernel are.

use std::ops::Add;

/// Packets that wait in a queue's rings, and places for them. A driver without such a ring has no places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// Received by the kernel, and not by the worker.
    pub rx: u32,
    /// Places of the ring that they are in.
    pub rx_places: u32,
    /// Given to the kernel, which has not looked at them.
    pub tx: u32,
    /// Places of the ring that they are in.
    pub tx_places: u32,
}

impl Add for Depth {
    type Output = Depth;

    /// Of two pairs of rings.
    fn add(self, other: Depth) -> Depth {
        Depth {
            rx: self.rx + other.rx,
            rx_places: self.rx_places + other.rx_places,
            tx: self.tx + other.tx,
            tx_places: self.tx_places + other.tx_places,
        }
    }
}

/// How many places of a ring are taken, where those that are come first.
pub fn taken(places: usize, is_taken: impl Fn(usize) -> bool) -> usize {
    let (mut taken, mut free) = (0, places);
    while taken < free {
        let middle = taken.midpoint(free);
        if is_taken(middle) { taken = middle + 1 } else { free = middle }
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::taken;

    #[test]
    fn places_are_found_whatever_is_taken() {
        for places in [0, 1, 2, 7, 8] {
            for full in 0..=places {
                assert_eq!(taken(places, |place| place < full), full, "of {places}");
            }
        }
    }
}

//! Where there are as many connections as may be, idle ones make room.

use super::Splicer;
use crate::connection::event::Event;
use crate::data_path::DataPath;

/// How many are found at a time, and how long it is at least from one look at all connections to the next, in
/// nanoseconds: it takes as long as there are many.
const FOUND: usize = 256;
const PAUSE: u64 = 100_000_000;

impl<P: DataPath> Splicer<P> {
    /// Ends the connection that has waited longest for its next request. False where there is none.
    pub(super) fn make_room(&mut self) -> bool {
        loop {
            if self.candidates.found.is_empty() {
                self.find_candidates();
            }
            let Some((since, id)) = self.candidates.found.pop() else { return false };
            // A request may have come meanwhile.
            if self.read(id, |connection, cx| connection.idle_since(cx)).flatten() == Some(since) {
                self.handle(id, Event::Evict, &[]);
                return true;
            }
        }
    }

    fn find_candidates(&mut self) {
        let now = self.path.now();
        if now < self.candidates.due {
            return;
        }
        self.candidates.due = now + PAUSE;
        let mut found = Vec::new();
        for id in self.ids() {
            let since = self.read(id, |connection, cx| connection.idle_since(cx)).flatten();
            found.extend(since.map(|since| (since, id)));
        }
        found.sort_unstable();
        found.truncate(FOUND);
        found.reverse();
        self.candidates.found = found;
    }
}

//! Whether the program counts packets and bytes of flows, and makes records of them. Counting costs each packet a few
//! nanoseconds and a write to its flow, so it is done where somebody wants it.

use std::time::Duration;

use dataplane::controller::{NameError, NamedTables, Record, Table};
use dataplane::monotonic_ns;

/// The table that says whether flows are counted.
pub const COUNTED: &str = "flow.counted";
/// So long after a look at flows they are still counted.
const AFTER_LOOK: u64 = 60_000_000_000;

/// What the program is told. Times are in nanoseconds of the monotonic clock.
#[derive(Debug)]
pub struct Counting {
    counted: Table<u32, bool>,
    recorded: Table<u32, bool>,
    active: Table<u32, u32>,
    /// When somebody has looked at flows.
    looked: Option<u64>,
    /// When counting began.
    since: Option<u64>,
}

impl Counting {
    /// Of a program.
    pub fn new(tables: &NamedTables) -> Result<Counting, NameError> {
        Ok(Counting {
            counted: tables.table(COUNTED)?,
            recorded: tables.table("flow.recorded")?,
            active: tables.table("flow.active_timeout")?,
            looked: None,
            since: None,
        })
    }

    /// Somebody looks at flows.
    pub fn look(&mut self) {
        self.looked = Some(monotonic_ns());
    }

    /// When counting began; none: flows are not counted.
    pub fn since(&self) -> Option<u64> {
        self.since
    }

    /// Whether records are made.
    pub fn records(&self) -> bool {
        self.recorded.get(&0) == Some(true)
    }

    /// Has the program do what is wanted. `always`: flows are counted in any case. `recorded`: after which time flows
    /// that go on have a record, where records are wanted.
    pub fn set(&mut self, always: bool, recorded: Option<Duration>) -> Result<(), String> {
        let now = monotonic_ns();
        let is_looked_at = self.looked.is_some_and(|looked| now.saturating_sub(looked) < AFTER_LOOK);
        let counted = always || is_looked_at || recorded.is_some();
        if let Some(active) = recorded {
            put(&mut self.active, active.as_secs() as u32)?;
        }
        put(&mut self.counted, counted)?;
        put(&mut self.recorded, recorded.is_some())?;
        self.since = if counted { self.since.or(Some(now)) } else { None };
        Ok(())
    }
}

/// Sets the only cell of an array, if it has another value.
fn put<V: Record + PartialEq>(table: &mut Table<u32, V>, value: V) -> Result<(), String> {
    if table.get(&0).as_ref() == Some(&value) {
        return Ok(());
    }
    table.set(&0, &value).map_err(|error| error.to_string())
}

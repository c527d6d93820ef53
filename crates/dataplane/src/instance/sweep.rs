//! Frees table entries that are not used any more, beside the workers. A look-up does not find them in any case.

use std::io;
use std::time::Duration;

use baker::ir::Program;

use crate::engine::TableAccess;
use crate::sys::{Repeated, monotonic_ns};

/// Most and least time between two rounds. An entry is freed at most about this long after its idle time.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// A thread that goes over all tables with an idle time again and again. Dropping it ends it.
#[derive(Debug)]
pub struct Sweeper {
    _thread: Repeated,
}

impl Sweeper {
    /// Starts it, where the program has such a table.
    pub fn start(program: &Program, tables: TableAccess) -> io::Result<Option<Sweeper>> {
        let Some(shortest) = program.tables.iter().filter_map(|table| table.idle).min() else { return Ok(None) };
        let pause = Duration::from_nanos(shortest / 4).clamp(PAUSES.0, PAUSES.1);
        let thread = Repeated::start("sweeper", pause, move || {
            tables.expire(monotonic_ns());
        })?;
        Ok(Some(Sweeper { _thread: thread }))
    }
}

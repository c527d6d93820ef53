//! A profile: what a trace says about a program, for the passes to go by.
//!
//! The trace runs through the program as it is, over full tables. How often each block ran and each branch took either
//! edge, how long packets are, and which numbers are found at run time, is written beside the code
//! ([`crate::ir::Counts`], [`crate::ir::Usage`]). Then:
//!
//! | what | by the profile |
//! |---|---|
//! | aggregation | a put that no packet came by gets no copy of its own |
//! | packet caching | headers are loaded ahead as far as costs packets the fewest accesses; a computed place is tested for its most frequent value |
//! | native code | the paths that packets take lie one behind the other |
//!
//! Packets that are not like those of the trace are slower, and nothing else.

use std::fmt::{Display, Formatter};
use std::sync::Arc;

use crate::ir::interp::Machine;
use crate::ir::{DropId, Program};

/// Why a trace is no profile of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProfileError<E> {
    /// Tables could not be set up.
    Fill(E),
    /// All packets were dropped.
    Dropped {
        /// Packets of the trace.
        packets: usize,
        /// Drop reasons with the number of packets, the most frequent first.
        dropped: Vec<(String, u64)>,
    },
}

impl<E: Display> Display for ProfileError<E> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            ProfileError::Fill(error) => error.fmt(f),
            ProfileError::Dropped { packets, dropped } => {
                let reasons: Vec<_> = dropped.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
                write!(f, "no packet gets through the program; of {packets} were dropped: {}", reasons.join(", "))
            }
        }
    }
}

/// The program with what a trace, port numbers and frames, says about it. `fill` sets up tables.
pub fn profiled<E>(
    program: &Arc<Program>,
    trace: &[(u8, Vec<u8>)],
    fill: impl FnOnce(&mut Machine) -> Result<(), E>,
) -> Result<Program, ProfileError<E>> {
    let mut machine = Machine::new(program.clone());
    fill(&mut machine).map_err(ProfileError::Fill)?;
    machine.record();
    let mut through = 0;
    for (port, frame) in trace {
        through += machine.receive(*port, frame).len();
    }
    if through == 0 {
        let count = |id| machine.counters()[machine.slots().drop(DropId(id))];
        let reasons = program.drop_reasons.iter().zip(0..).map(|(reason, id)| (reason.name.clone(), count(id)));
        let mut dropped: Vec<(String, u64)> = reasons.filter(|(_, count)| *count > 0).collect();
        dropped.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        return Err(ProfileError::Dropped { packets: trace.len(), dropped });
    }
    Ok(machine.recorded().map_or_else(|| Program::clone(program), |recording| recording.beside(program)))
}

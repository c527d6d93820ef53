//! Deadlines of table entries: one time per entry, at which a timer runs for it, once.
//!
//! [`crate::ir::Op::SetDeadline`] sets it, and [`crate::ir::Op::TakeDeadline`] in front of the timer's body takes it,
//! so engines only have to find keys whose time has come: one that they name twice, or too early, does nothing. An
//! entry that is removed has no deadline any more. One that a packet replaces keeps it, one that the control plane sets
//! has none.

/// Nanoseconds from the time at which a deadline is set to it, at least: a deadline that is set again whenever it comes
/// leaves time to others, and a simulation with such a one ends.
pub const SOONEST: u64 = 1000;

/// The deadline that an entry has which is told at `now` to have it at `at`; 0 is none.
pub fn deadline(at: u64, now: u64) -> u64 {
    if at == 0 { 0 } else { at.max(now.saturating_add(SOONEST)) }
}

//! Workers: each runs a program to completion over the batches of its ports' queues.
//!
//! Orders for a worker come through its [`Handover`]; packets of controllers and timers run between two batches.
//! Imports run `worker → handover → running → timer, deadline, queues, groups → onward`: the loop over the ports, how
//! it gets another program, a program on one worker, the program's timers, periodic ones and those at deadlines,
//! packets that wait.

mod deadline;
mod groups;
mod handover;
mod onward;
mod queues;
mod running;
mod simulated;
mod timer;
mod worker;

pub(crate) use deadline::DeadlineTimers;
pub(crate) use groups::Groups;
pub(crate) use handover::{Handover, Order};
#[cfg(test)]
pub(crate) use onward::NOBODY;
pub(crate) use running::{Deadlines, Equipment, Ports, Running, Timers, WorkerPort};
pub(crate) use simulated::SimulatedTimers;
pub(crate) use timer::Schedule;
pub use worker::PollMode;
pub(crate) use worker::{FINISH, RUN, STOP, Worker};

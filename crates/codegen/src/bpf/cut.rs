//! Takes PPFs out of a program that stay outside of the kernel: channels that lead to them lead to a controller.
//!
//! ```text
//! l2.forward_cc -> route          l2.forward_cc -> controller worker          where `route` is not in the kernel
//! ```

use baker::ir::{Controller, ControllerId, Program, Target};

/// The name of that controller.
const WORKER: &str = "worker";

/// The program as the kernel runs it: packets for other PPFs are punted. `inside` has a truth value per PPF.
pub fn cut(program: &Program, inside: &[bool]) -> Program {
    let mut program = program.clone();
    let worker = ControllerId(program.controllers.len() as u32);
    program.controllers.push(Controller { name: WORKER.into() });
    for channel in &mut program.channels {
        if let Target::Ppf(ppf) = channel.target
            && !inside.get(ppf.0 as usize).is_some_and(|inside| *inside)
        {
            channel.target = Target::Controller(worker);
        }
        // What controllers inject, workers run.
        channel.from = None;
    }
    program.timers.clear();
    program
}

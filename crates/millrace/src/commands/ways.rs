//! Ways of a capture file's packets through a program, step by step.

use std::sync::Arc;

use baker::ir::Program;
use baker::ir::interp::Machine;
use cli::failure::Failure;
use cli::output::print;
use control::config::Config;
use control::entries::Notation;
use control::packet;
use control::walk::{Namer, lines};
use dataplane::ReplayInput;
use dataplane::ports::CaptureInput;

use super::trace::{self, wrong};

/// Shows the ways of the first packets of a file that come in, by the interpreter. Each finds the tables as the one
/// before has left them.
pub fn show(program: &Arc<Program>, config: &Config, input: &mut ReplayInput<'_>, most: usize) -> Result<(), Failure> {
    let (name, content) = trace::file(input.path)?;
    let mut packets = CaptureInput::of(&name, content).map_err(|error| wrong(&error))?;
    let mut machine = Machine::new(program.clone());
    config.fill(program, &mut machine).map_err(Failure::refused)?;
    let notation = Notation::new(program.clone(), config.port_names());
    let namer = Namer { program, notation: &notation, engine: &|_| None };
    let (mut number, mut shown) = (0, 0);
    while shown < most
        && let Some(captured) = packets.next_packet()
    {
        let captured = captured.map_err(|error| wrong(&error))?;
        number += 1;
        let entry = (input.entries)(&captured).map_err(|what| wrong(&format!("{name}: {what}")))?;
        let Some(port) = entry else { continue };
        shown += 1;
        machine.set_now(captured.time.as_nanos() as u64);
        let walk = machine.walk(Program::RX, captured.frame, &[port.into()]);
        let (port, bytes) = (notation.ports().shown(port), captured.frame.len());
        let headers = packet::text(program, captured.frame);
        print(format_args!(
            "{number}: port {port}, {bytes} bytes\n  {headers}\n{}\n",
            lines(&namer.steps(captured.frame, &walk))
        ));
    }
    Ok(())
}

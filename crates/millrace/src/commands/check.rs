//! `millrace check`: checks a program and says what is wrong with it.

use baker::ir::{BUILTIN_DROP_REASONS, DropId};
use cli::failure::Failure;
use cli::say;

use crate::apps;

/// What to check.
#[derive(clap::Args)]
pub struct Args {
    /// Baker file, directory of an application, or its name
    #[arg(value_name = "APP|FILE")]
    app: String,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let source = apps::find(&args.app)?;
    let compilation = apps::check(&source)?;
    let program = compilation.program.as_ref().expect("a program without errors is complete");
    if !compilation.runnable {
        say!("{}: ok; a library: it has no `program` block", source.name);
        return Ok(());
    }
    let lowered = apps::lower(&source, &compilation)?;
    let ended = &BUILTIN_DROP_REASONS[DropId::ENDED.0 as usize].0;
    say!(
        "{}: ok; {} PPFs, {} channels, {} tables, {} drop reasons",
        source.name,
        program.ppfs.len(),
        program.channels.len(),
        lowered.tables.len(),
        program.reasons.iter().filter(|reason| reason.name != *ended).count()
    );
    Ok(())
}

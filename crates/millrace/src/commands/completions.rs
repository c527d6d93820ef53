//! `millrace completions`: the command line for shells.

use clap::Command;
use clap_complete::{Shell, generate};
use cli::output::print;

/// The shell.
#[derive(clap::Args)]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Runs `millrace completions`.
pub fn completions(args: &Completions, mut parser: Command) {
    let mut script = Vec::new();
    generate(args.shell, &mut parser, "millrace", &mut script);
    print(format_args!("{}", String::from_utf8_lossy(&script)));
}

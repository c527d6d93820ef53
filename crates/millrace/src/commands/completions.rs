//! `millrace completions` and `millrace man`: the command line for shells and as manual pages.

use std::path::PathBuf;

use clap::Command;
use clap_complete::{Shell, generate};
use cli::failure::Failure;
use cli::output::print;
use cli::say;

/// The shell.
#[derive(clap::Args)]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Where manual pages go.
#[derive(clap::Args)]
pub struct Man {
    /// The directory
    directory: PathBuf,
}

/// Runs `millrace completions`.
pub fn completions(args: &Completions, mut parser: Command) {
    let mut script = Vec::new();
    generate(args.shell, &mut parser, "millrace", &mut script);
    print(format_args!("{}", String::from_utf8_lossy(&script)));
}

/// Runs `millrace man`: a page for each command.
pub fn man(args: &Man, parser: Command) -> Result<(), Failure> {
    let failed = |error| Failure::refused(format!("{}: {error}", args.directory.display()));
    std::fs::create_dir_all(&args.directory).map_err(failed)?;
    clap_mangen::generate_to(parser, &args.directory).map_err(failed)?;
    say!("{}: manual pages of all commands", args.directory.display());
    Ok(())
}

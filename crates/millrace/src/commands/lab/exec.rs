//! `millrace lab exec`: a command in a host of a running lab.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use cli::failure::Failure;
use control::messages::{did_you_mean, list};

use super::registry;

/// Where to run what.
#[derive(clap::Args)]
pub struct Args {
    /// Name of the lab; not needed where only one is running
    #[arg(long, value_name = "NAME")]
    lab: Option<String>,
    /// The host
    #[arg(value_name = "HOST")]
    host: String,
    /// The program and its arguments
    #[arg(value_name = "COMMAND", last = true, required = true)]
    command: Vec<OsString>,
}

/// Becomes the command, so that its input, output, signals and exit status are the caller's.
pub fn run(args: &Args) -> Result<(), Failure> {
    let lab = registry::find(args.lab.as_deref())?;
    let Some(path) = lab.hosts.get(&args.host) else {
        let names = || lab.hosts.keys().map(String::as_str);
        let (name, hint) = (&args.host, did_you_mean(&args.host, names()));
        return Err(Failure::wrong(format!("error: there is no host {name:?}{hint}; accepted: {}", list(names()))));
    };
    lab::enter_namespace_of(lab.pid, path).map_err(Failure::refused)?;
    let (program, arguments) = args.command.split_first().ok_or_else(|| Failure::wrong("error: no command"))?;
    let error = Command::new(program).args(arguments).exec();
    Err(Failure::refused(format!("{}: {error}", program.to_string_lossy())))
}

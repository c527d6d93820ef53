//! `millrace reload`: has a running instance read its configuration again.

use control::socket::{Reloaded, Request};

use super::remote::{Remote, failed, print_json};
use crate::failure::Failure;
use crate::output::say;

/// Whom to tell.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    remote: Remote,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let reloaded: Reloaded = args.remote.connect()?.ask(&Request::Reload).map_err(failed)?;
    if args.remote.json {
        print_json(&reloaded);
        return Ok(());
    }
    for warning in &reloaded.warnings {
        say!("warning: {warning}");
    }
    say!("in force: settings of {}", reloaded.controllers.join(", "));
    Ok(())
}

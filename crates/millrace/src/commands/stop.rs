//! `millrace stop`: ends a running instance as SIGTERM does, and waits for that.

use cli::failure::Failure;
use cli::remote::{Remote, failed, print_json};
use cli::say;
use control::socket::{Request, Status};
use serde_json::Value as Json;

/// The instance to end.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    remote: Remote,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let mut client = args.remote.connect()?;
    let status: Status = client.ask(&Request::Status).map_err(failed)?;
    let _: Json = client.ask(&Request::Stop).map_err(failed)?;
    client.wait_for_end().map_err(failed)?;
    if args.remote.json {
        print_json(&status);
    } else {
        say!("{}: stopped", status.instance);
    }
    Ok(())
}

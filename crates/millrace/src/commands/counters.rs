//! `millrace counters` and `ports`: what a running instance has counted since its start.

use cli::failure::Failure;
use cli::output::print;
use cli::remote::{Remote, failed, print_json};
use cli::report;
use control::socket::{Counters, Request};

/// The instance to ask.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    remote: Remote,
}

impl Args {
    fn ask(&self) -> Result<Counters, Failure> {
        self.remote.connect()?.ask(&Request::Counters).map_err(failed)
    }
}

/// Runs `millrace counters`.
pub fn counters(args: &Args) -> Result<(), Failure> {
    let counters = args.ask()?;
    if args.remote.json {
        print_json(&counters);
    } else {
        print(format_args!("{}", report::render(&counters, None)));
    }
    Ok(())
}

/// Runs `millrace ports`.
pub fn ports(args: &Args) -> Result<(), Failure> {
    let ports = args.ask()?.ports;
    if args.remote.json {
        print_json(&ports);
        return Ok(());
    }
    print(format_args!("{}", report::ports(&ports)));
    let queues = report::queues(&ports);
    if !queues.is_empty() {
        print(format_args!("\n{queues}"));
    }
    for (name, port) in &ports {
        if let Some(error) = &port.error {
            print(format_args!("\nport {name}: {error}\n"));
        }
    }
    Ok(())
}

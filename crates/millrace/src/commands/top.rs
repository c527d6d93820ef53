//! `millrace top`: a live view of a running instance.

use std::time::Duration;

use cli::arguments::seconds;
use cli::failure::Failure;
use cli::remote::{Place, failed};
use control::socket::Client;
use top::Screen;

/// The instance to watch.
#[derive(clap::Args)]
pub struct Args {
    /// Look again after so many seconds, from 0.25 to 30; keys change it
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "1")]
    interval: Duration,
    #[command(flatten)]
    place: Place,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let path = args.place.path()?;
    // What is wrong at the start is said as other commands say it.
    Client::connect(&path).map_err(failed)?;
    top::run(Screen::take()?, move || Client::connect(&path), args.interval)
}

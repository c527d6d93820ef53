//! `millrace lab serve`: a small web server, so that a lab needs no other.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use cli::failure::Failure;
use cli::say;
use lab::WebServer;
use signal_hook::consts::{SIGINT, SIGTERM};

use super::program::TICK;

/// What to serve.
#[derive(clap::Args)]
pub struct Args {
    /// What it says that it is
    #[arg(value_name = "NAME")]
    name: String,
    /// Where to listen
    #[arg(value_name = "ADDRESS:PORT", required = true)]
    addresses: Vec<SocketAddr>,
}

/// Serves until it is interrupted.
pub fn run(args: &Args) -> Result<(), Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, stop.clone()).map_err(Failure::refused)?;
    }
    let start = |address: &SocketAddr| WebServer::start(None, *address, &args.name).map_err(Failure::refused);
    let servers = args.addresses.iter().map(start).collect::<Result<Vec<_>, _>>()?;
    say!("{} is serving on {} addresses", args.name, servers.len());
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(TICK);
    }
    let served: u64 = servers.iter().map(WebServer::served).sum();
    say!("{} has answered {served} requests", args.name);
    Ok(())
}

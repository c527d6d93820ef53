//! `millrace routes`: whether the tables of a running instance are as the kernel has it, and where packets go.

use std::net::IpAddr;

use cli::examples::Examples;
use cli::failure::Failure;
use cli::linked::Subcommand;
use cli::remote::{Remote, print_json};
use cli::report::grouped;
use cli::say;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::state::State;

/// What to show.
#[derive(clap::Args)]
pub struct Args {
    /// Show where packets to this address go
    #[arg(value_name = "ADDRESS")]
    address: Option<IpAddr>,
    /// Of several ways, that of this flow
    #[arg(long, value_name = "NUMBER", requires = "address", default_value_t = 0)]
    flow: u32,
    #[command(flatten)]
    remote: Remote,
}

/// Where packets to an address go.
#[derive(Deserialize)]
struct Found {
    to: String,
    reason: Option<String>,
    port: Option<String>,
    source: Option<String>,
    src: Option<String>,
    dst: Option<String>,
    mtu: Option<u32>,
    next_hop: Option<u32>,
}

impl Subcommand for Args {
    const NAME: &'static str = "routes";
    const ABOUT: &'static str = "Show how a running instance follows the kernel's routes, and where packets go";
    const EXAMPLES: &'static [Examples] = &[Examples {
        command: "routes",
        lines: &["millrace routes", "millrace routes 192.0.2.7", "millrace routes 2001:db8::7 --flow 3 --json"],
    }];

    fn run(&self) -> Result<(), Failure> {
        match self.address {
            Some(address) => look_up(&self.remote, address, self.flow),
            None => state(&self.remote),
        }
    }
}

fn look_up(remote: &Remote, address: IpAddr, flow: u32) -> Result<(), Failure> {
    let answer: Json = remote.query("routes", "lookup", &json!({ "address": address, "flow": flow }))?;
    if remote.json {
        print_json(&answer);
        return Ok(());
    }
    let Found { to, reason, port, source, src, dst, mtu, next_hop } =
        serde_json::from_value(answer).map_err(Failure::refused)?;
    let text = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    match to.as_str() {
        "port" => {
            let (mtu, number) = (mtu.unwrap_or(0), next_hop.unwrap_or(0));
            let (src, dst) = (text(src), text(dst));
            say!("{address}: port {}, from {}", text(port), text(source));
            say!("  Ethernet {src} to {dst}, packets of at most {mtu} bytes, next hop {number}");
        }
        "drop" => say!("{address}: dropped, {}", text(reason)),
        to => say!("{address}: {to}"),
    }
    Ok(())
}

fn state(remote: &Remote) -> Result<(), Failure> {
    let state: State = remote.query("routes", "state", &Json::Null)?;
    if remote.json {
        print_json(&state);
        return Ok(());
    }
    say!("{} for {:.1} s", state.state, state.since_ms as f64 / 1000.0);
    let (four, six) = (grouped(state.routes4), grouped(state.routes6));
    say!("routes: {four} of IPv4, {six} of IPv6; {} next hops", grouped(state.next_hops));
    say!("neighbours: {}, asked for {} times", grouped(state.neighbours), grouped(state.asked));
    let (dumps, overruns) = (grouped(state.dumps), grouped(state.overruns));
    say!("full dumps: {dumps}, the last in {} ms; overruns: {overruns}", state.dump_ms);
    if state.by_hand > 0 {
        say!("set by hand in place of the kernel's: {}", grouped(state.by_hand));
    }
    if state.refused > 0 {
        say!("without room in the tables: {}", grouped(state.refused));
    }
    for (port, interface) in &state.ports {
        say!("port {port}: {}", interface.as_deref().unwrap_or("no interface of the kernel leads there"));
    }
    if let Some(error) = &state.error {
        say!("last error: {error}");
    }
    Ok(())
}

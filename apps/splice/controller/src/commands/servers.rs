//! `millrace servers`: the servers of a running splicer, and what operators say about them.

use cli::examples::Examples;
use cli::failure::Failure;
use cli::linked::Subcommand;
use cli::output::print;
use cli::remote::{Remote, print_json};
use cli::report::{grouped, table};
use cli::say;
use control::admin_state::{self, StateChange};
use serde_json::Value as Json;

use super::sessions::time;
use crate::admin::queries::ServerState;

/// What to do.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    remote: Remote,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Give a server no new requests; those that it has it serves to their end
    Drain(One),
    /// Take a server out of use at once: requests that may go to another one do, other connections to it are reset
    Down(One),
    /// Give a server requests again, if its checks succeed
    Ready(One),
}

#[derive(clap::Args)]
struct One {
    /// The server
    #[arg(value_name = "POOL/NAME")]
    server: String,
    #[command(flatten)]
    remote: Remote,
}

impl Subcommand for Args {
    const NAME: &'static str = "servers";
    const ABOUT: &'static str = "Show the servers of a running splicer, drain them, take them down";
    const EXAMPLES: &'static [Examples] = &[
        Examples {
            command: "servers",
            lines: &["millrace servers", "millrace servers --json", "millrace servers drain web/a"],
        },
        Examples { command: "servers drain", lines: &["millrace servers drain web/a"] },
        Examples { command: "servers down", lines: &["millrace servers down web/a"] },
        Examples { command: "servers ready", lines: &["millrace servers ready web/a"] },
    ];

    fn run(&self) -> Result<(), Failure> {
        let Some(action) = &self.action else { return list(&self.remote) };
        let (one, state) = match action {
            Action::Drain(one) => (one, "drain"),
            Action::Down(one) => (one, "down"),
            Action::Ready(one) => (one, "ready"),
        };
        let told = StateChange { server: one.server.clone(), state: state.into() };
        let now: ServerState = one.remote.query("splice", "server", &told)?;
        match one.remote.json {
            true => print_json(&now),
            false => say!("{}/{}: {}, {} connections", now.pool, now.name, state_of(&now), now.active),
        }
        Ok(())
    }
}

fn list(remote: &Remote) -> Result<(), Failure> {
    let all: Vec<ServerState> = remote.query("splice", "servers", &Json::Null)?;
    if remote.json {
        print_json(&all);
        return Ok(());
    }
    let header =
        ["server", "address", "weight", "state", "since", "active", "idle", "connections", "requests", "failed", "why"];
    let row = |own: &ServerState| {
        vec![
            format!("{}/{}", own.pool, own.name),
            own.address.clone(),
            own.weight.to_string(),
            state_of(own),
            time(own.since_ms),
            own.active.to_string(),
            own.idle.to_string(),
            grouped(own.connections),
            grouped(own.requests),
            grouped(own.failed),
            own.why.clone(),
        ]
    };
    let mut out = String::new();
    table(&mut out, &header, all.iter().map(row).collect());
    print(format_args!("{out}"));
    Ok(())
}

fn state_of(own: &ServerState) -> String {
    let up = if own.up { "up" } else { "down" };
    admin_state::shown(up, own.configured, own.weight, &own.admin)
}

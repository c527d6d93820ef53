//! `millrace translate`: what a running proxy does.

use cli::Command;
use cli::examples::Examples;
use cli::failure::Failure;
use cli::linked::Subcommand;
use cli::listing::Listing;
use cli::remote::{Remote, print_json};
use cli::report::grouped;
use cli::say;
use serde_json::Value as Json;

use crate::admin::queries::Kick;
use crate::proxy::state::{SessionState, StreamState};

/// All of them.
pub const COMMANDS: &[Command] = &[Command::of::<Args>()];

/// What to show or do.
#[derive(clap::Args)]
struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Connections of clients
    Sessions(Listing),
    /// Streams, and who views them
    Streams(Listing),
    /// End a connection
    Kick(One),
}

#[derive(clap::Args)]
struct One {
    /// The connection's number, as `sessions` shows it
    #[arg(value_name = "ID")]
    id: u32,
    #[command(flatten)]
    remote: Remote,
}

impl Subcommand for Args {
    const NAME: &'static str = "translate";
    const ABOUT: &'static str = "Show what a running translation of streams to HTTP does, end connections";
    const EXAMPLES: &'static [Examples] = &[
        Examples {
            command: "translate",
            lines: &["millrace translate sessions --watch", "millrace translate streams"],
        },
        Examples {
            command: "translate sessions",
            lines: &["millrace translate sessions", "millrace translate sessions --watch"],
        },
        Examples {
            command: "translate streams",
            lines: &["millrace translate streams", "millrace translate streams --json"],
        },
        Examples { command: "translate kick", lines: &["millrace translate kick 17"] },
    ];

    fn run(&self) -> Result<(), Failure> {
        match &self.action {
            Action::Sessions(own) => sessions(own),
            Action::Streams(own) => streams(own),
            Action::Kick(own) => {
                let kicked: Json = own.remote.query("translate", "kick", &Kick { id: own.id })?;
                match own.remote.json {
                    true => print_json(&kicked),
                    false => say!("connection {} has ended", own.id),
                }
                Ok(())
            }
        }
    }
}

fn time(ms: u64) -> String {
    format!("{}.{} s", ms / 1000, ms % 1000 / 100)
}

fn sessions(own: &Listing) -> Result<(), Failure> {
    let header = [
        "id",
        "client",
        "state",
        "age",
        "stream",
        "packets",
        "again",
        "nulls",
        "skipped",
        "round trip",
        "may send",
        "request",
    ];
    own.show("translate", "sessions", &header, |own: &SessionState| {
        vec![vec![
            own.id.to_string(),
            own.client.clone(),
            own.state.clone(),
            time(own.age_ms),
            own.stream.clone().unwrap_or_else(|| "-".into()),
            grouped(own.packets),
            grouped(own.again.into()),
            grouped(own.nulls.into()),
            grouped(own.skipped.into()),
            format!("{:.1} ms", own.round_trip_ms),
            format!("{:.2} Mbit/s", own.rate as f64 / 1e6),
            own.request.clone(),
        ]]
    })
}

fn streams(own: &Listing) -> Result<(), Failure> {
    let header = ["stream", "viewers", "state", "age", "packets", "lost", "late", "duplicate", "refused"];
    own.show("translate", "streams", &header, |own: &StreamState| {
        vec![vec![
            own.stream.clone(),
            own.viewers.to_string(),
            if own.comes { "comes" } else { "awaited" }.to_owned(),
            time(own.age_ms),
            grouped(own.packets),
            own.lost.to_string(),
            own.late.to_string(),
            own.duplicates.to_string(),
            own.refused.to_string(),
        ]]
    })
}

//! `millrace media`: what a running proxy does.

use cli::Command;
use cli::examples::Examples;
use cli::failure::Failure;
use cli::linked::Subcommand;
use cli::listing::Listing;
use cli::remote::{Remote, print_json};
use cli::report::grouped;
use cli::say;
use serde_json::Value as Json;

use crate::admin::queries::Kill;
use crate::proxy::state::{SessionState, StreamState, TrackShown, ViewerState};

mod cache;
mod examples;
mod export;
mod origins;
mod peers;

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
    /// Sessions of clients
    Sessions(Listing),
    /// Presentations that come from origins, and how
    Streams(Listing),
    /// Origins, their state, and what they failed at
    Origins(origins::Args),
    /// Other proxies that have the same streams, and who has which
    Peers(peers::Args),
    /// Recordings: list, pin, remove, export, check them
    Cache(cache::Args),
    /// End a session
    Kill(One),
}

#[derive(clap::Args)]
struct One {
    /// The session's number, as `sessions` shows it
    #[arg(value_name = "ID")]
    id: u64,
    #[command(flatten)]
    remote: Remote,
}

impl Subcommand for Args {
    const NAME: &'static str = "media";
    const ABOUT: &'static str = "Show what a running media proxy does, end sessions, drain origins";
    const EXAMPLES: &'static [Examples] = examples::EXAMPLES;

    fn run(&self) -> Result<(), Failure> {
        match &self.action {
            Action::Sessions(own) => sessions(own),
            Action::Streams(own) => streams(own),
            Action::Origins(own) => own.run(),
            Action::Peers(own) => own.run(),
            Action::Cache(own) => own.run(),
            Action::Kill(own) => {
                let killed: Json = own.remote.query("media", "kill", &Kill { id: own.id })?;
                match own.remote.json {
                    true => print_json(&killed),
                    false => say!("session {} has ended", own.id),
                }
                Ok(())
            }
        }
    }
}

fn time(ms: u64) -> String {
    format!("{}.{} s", ms / 1000, ms % 1000 / 100)
}

fn shown(value: Option<f64>, unit: &str) -> String {
    value.map_or_else(String::new, |value| format!("{value:.1}{unit}"))
}

fn sessions(own: &Listing) -> Result<(), Failure> {
    let header = ["id", "client", "state", "age", "track", "to", "loss", "jitter", "round trip", "origin"];
    own.show("media", "sessions", &header, |own: &SessionState| {
        let row = |track: &ViewerState| {
            vec![
                own.id.to_string(),
                own.client.clone(),
                if own.playing { "plays" } else { "ready" }.to_owned(),
                time(own.age_ms),
                track.kind.clone(),
                track.to.clone(),
                shown(track.loss_percent, " %"),
                shown(track.jitter_ms, " ms"),
                shown(track.round_trip_ms, " ms"),
                own.origin.clone(),
            ]
        };
        own.tracks.iter().map(row).collect()
    })
}

fn streams(own: &Listing) -> Result<(), Failure> {
    let header =
        ["url", "kind", "sessions", "track", "from", "packets", "bytes", "rate", "lost", "late", "duplicate", "jitter"];
    own.show("media", "streams", &header, |own: &StreamState| {
        let row = |track: &TrackShown| {
            vec![
                own.url.clone(),
                if own.live { "live" } else { "alone" }.to_owned(),
                own.sessions.to_string(),
                track.kind.clone(),
                track.from.clone(),
                grouped(track.packets),
                grouped(track.bytes),
                format!("{:.2} Mbit/s", track.rate as f64 / 1e6),
                track.lost.to_string(),
                track.late.to_string(),
                track.duplicate.to_string(),
                shown(track.jitter_ms, " ms"),
            ]
        };
        own.tracks.iter().map(row).collect()
    })
}

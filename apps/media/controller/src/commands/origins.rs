//! `millrace media origins`: where streams come from, and what operators say about the servers of pools.

use cli::failure::Failure;
use cli::listing::Listing;
use cli::remote::{Remote, print_json};
use cli::report::grouped;
use cli::say;
use control::admin_state::{self, StateChange};

use super::time;
use crate::proxy::origins::{OriginState, ServerShown};

/// What to do.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    plain: Listing,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Give a server no new streams; those that come from it go on
    Drain(One),
    /// Take a server out of use at once: streams that come from it come from others of its pool
    Down(One),
    /// Give a server streams again, if its checks succeed
    #[command(visible_alias = "up")]
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

impl Args {
    /// Does it.
    pub fn run(&self) -> Result<(), Failure> {
        let Some(action) = &self.action else { return show(&self.plain) };
        let (one, state) = match action {
            Action::Drain(one) => (one, "drain"),
            Action::Down(one) => (one, "down"),
            Action::Ready(one) => (one, "ready"),
        };
        let change = StateChange { server: one.server.clone(), state: state.into() };
        let now: OriginState = one.remote.query("media", "origin", &change)?;
        match (one.remote.json, &now.server) {
            (false, Some(own)) => {
                say!(
                    "{}/{}: {}, {} streams, {} sessions",
                    own.pool,
                    own.name,
                    state_of(own),
                    now.streams,
                    now.sessions
                );
            }
            _ => print_json(&now),
        }
        Ok(())
    }
}

fn show(plain: &Listing) -> Result<(), Failure> {
    let header =
        ["origin", "server", "weight", "state", "since", "streams", "sessions", "asked", "failed", "last error", "why"];
    plain.show("media", "origins", &header, |own: &OriginState| {
        let of = |text: fn(&ServerShown) -> String| own.server.as_ref().map_or_else(|| "-".into(), text);
        vec![vec![
            own.origin.clone(),
            of(|own| format!("{}/{}", own.pool, own.name)),
            of(|own| own.weight.to_string()),
            of(state_of),
            of(|own| time(own.since_ms)),
            own.streams.to_string(),
            own.sessions.to_string(),
            grouped(own.asked),
            grouped(own.failed),
            own.last_error.clone(),
            of(|own| own.why.clone()),
        ]]
    })
}

/// What is known of a server, in a few words.
pub(super) fn state_of(own: &ServerShown) -> String {
    let up = match own.up {
        Some(true) => "up",
        Some(false) => "down",
        None => "not checked",
    };
    admin_state::shown(up, own.configured, own.weight, &own.admin)
}

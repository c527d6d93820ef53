//! `millrace media peers`: other proxies that have the same streams, and who has which.

use cli::failure::Failure;
use cli::remote::Remote;
use cli::report::{grouped, table};
use cli::watch::Watch;

use super::origins::state_of;
use super::time;
use crate::admin::queries::OfStream;
use crate::proxy::members::SourceState;
use crate::proxy::origins::OriginState;
use crate::proxy::peers::PeersState;

/// What to show.
#[derive(clap::Args)]
pub struct Args {
    /// Say who is asked for this stream: its name, or host[:port]/path of its URL at the origin
    #[arg(value_name = "STREAM")]
    stream: Option<String>,
    #[command(flatten)]
    watch: Watch,
    #[command(flatten)]
    remote: Remote,
}

impl Args {
    /// Shows it.
    pub fn run(&self) -> Result<(), Failure> {
        self.watch.run(|| {
            let now: PeersState = self.remote.query("media", "peers", &OfStream { stream: self.stream.clone() })?;
            self.watch.show(self.remote.json, &now, |now| show(now, self.stream.as_deref()))
        })
    }
}

fn show(now: &PeersState, stream: Option<&str>) -> String {
    let own = now.name.as_deref().unwrap_or("without a name");
    if let Some(stream) = stream {
        let first = match now.asked.first() {
            Some(first) if first.starts_with("siblings/") => first.as_str(),
            _ => own,
        };
        let asked: Vec<&str> = now.asked.iter().map(String::as_str).chain(["its origin"]).collect();
        return format!("{stream}: {first} has it; this proxy ({own}) asks {}\n", asked.join(", then "));
    }
    let header =
        ["peer", "address", "weight", "state", "since", "streams", "sessions", "asked", "failed", "last error"];
    let row = |own: &OriginState| {
        let server = own.server.as_ref()?;
        Some(vec![
            format!("{}/{}", server.pool, server.name),
            own.origin.clone(),
            server.weight.to_string(),
            state_of(server),
            time(server.since_ms),
            own.streams.to_string(),
            own.sessions.to_string(),
            grouped(own.asked),
            grouped(own.failed),
            own.last_error.clone(),
        ])
    };
    let mut out = format!("this proxy: {own}\n");
    table(&mut out, &header, now.peers.iter().filter_map(row).collect());
    if !now.sources.is_empty() {
        show_sources(&mut out, &now.sources);
    }
    out
}

/// Where members are found that are not listed.
fn show_sources(out: &mut String, sources: &[SourceState]) {
    let header =
        ["pool", "known by", "watched at", "since", "revision", "members", "left out", "registered", "last error"];
    let row = |own: &SourceState| {
        let registered = match own.registered {
            None => "-",
            Some(true) => "yes",
            Some(false) => "no",
        };
        let error = own.refused.as_ref().unwrap_or(&own.last_error);
        vec![
            own.pool.clone(),
            own.source.clone(),
            own.connected.clone().unwrap_or_else(|| "nowhere".into()),
            time(own.since_ms),
            own.revision.clone().unwrap_or_else(|| "-".into()),
            own.members.to_string(),
            own.left_out.len().to_string(),
            registered.into(),
            error.clone(),
        ]
    };
    table(out, &header, sources.iter().map(row).collect());
}

//! `millrace media cache`: recordings.

use std::path::PathBuf;

use cli::failure::Failure;
use cli::remote::{Remote, print_json};
use cli::report::grouped;
use cli::say;
use media_cache::{Cache, Report, Settings};
use serde_json::Value as Json;

use super::{Plain, list, time};
use crate::admin::cache::{Pin, RecordingState, Remove};

/// What to show or do.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Recordings of a running proxy
    Ls(Plain),
    /// Never remove a recording to make room
    Pin(One),
    /// Remove it again when there is no room
    Unpin(One),
    /// Remove a recording
    Rm(One),
    /// Look at all recordings in a directory that no proxy has now, mend what a crash has left, tell what is lost
    Check(Check),
}

#[derive(clap::Args)]
struct One {
    /// The recording's number, as `ls` shows it
    #[arg(value_name = "ID")]
    id: u64,
    #[command(flatten)]
    remote: Remote,
}

#[derive(clap::Args)]
struct Check {
    /// The directory of the cache
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    /// Does it.
    pub fn run(&self) -> Result<(), Failure> {
        match &self.action {
            Action::Ls(own) => ls(own),
            Action::Pin(own) => pin(own, true),
            Action::Unpin(own) => pin(own, false),
            Action::Rm(own) => {
                let removed: Json = own.remote.query("media", "remove", &Remove { id: own.id })?;
                match own.remote.json {
                    true => print_json(&removed),
                    false => say!("recording {} is removed", own.id),
                }
                Ok(())
            }
            Action::Check(own) => check(own),
        }
    }
}

fn ls(own: &Plain) -> Result<(), Failure> {
    let header = ["id", "stream", "track", "coding", "began", "length", "packets", "lost", "bytes", "state"];
    list(own, "cache", &header, |own: &RecordingState| {
        let began = jiff::Timestamp::from_millisecond(own.began_ms as i64);
        let state = own.ended.as_deref().unwrap_or("recording");
        vec![vec![
            own.id.to_string(),
            own.stream.clone(),
            own.track.to_string(),
            own.encoding.clone(),
            began.map_or_else(|_| "-".into(), |own| own.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
            time(own.length_ms),
            grouped(own.packets),
            grouped(own.lost),
            grouped(own.bytes),
            if own.pinned { format!("{state}, pinned") } else { state.to_owned() },
        ]]
    })
}

fn pin(own: &One, pinned: bool) -> Result<(), Failure> {
    let answer: Json = own.remote.query("media", "pin", &Pin { id: own.id, pinned })?;
    match own.remote.json {
        true => print_json(&answer),
        false if pinned => say!("recording {} is not removed to make room", own.id),
        false => say!("recording {} may be removed to make room", own.id),
    }
    Ok(())
}

/// Fails where something is lost.
fn check(Check { directory, json }: &Check) -> Result<(), Failure> {
    if !directory.is_dir() {
        return Err(Failure::refused(format!("{}: there is no such directory", directory.display())));
    }
    // What is looked at is not removed for its age, or for want of room.
    let settings = Settings { quota: u64::MAX, free_space: 0, age_seconds: None, ..Settings::default() };
    let cache = Cache::open(directory, settings).map_err(Failure::refused)?;
    let (opened, report) = (cache.opened().clone(), cache.check().map_err(Failure::refused)?);
    if *json {
        print_json(&serde_json::json!({ "opened": opened, "checked": report }));
    } else {
        shown(&opened, &report);
    }
    match report.lost.is_empty() && opened.lost.is_empty() {
        true => Ok(()),
        false => Err(Failure::refused("some of what was recorded is lost")),
    }
}

fn shown(opened: &Report, report: &Report) {
    for own in [opened, report] {
        own.mended.iter().for_each(|note| say!("mended: {}: {}", note.path.display(), note.what));
        own.lost.iter().for_each(|note| say!("lost: {}: {}", note.path.display(), note.what));
    }
    if opened.rebuilt {
        say!("the catalogue was made anew");
    }
    let Report { recordings, segments, whole, .. } = report;
    say!("{recordings} recordings, {whole} of {segments} segments are whole");
}

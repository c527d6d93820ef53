//! `millrace media cache`: recordings.

use std::path::PathBuf;

use cli::failure::Failure;
use cli::listing::Listing;
use cli::output::print;
use cli::remote::{Remote, print_json};
use cli::report::{grouped, table};
use cli::say;
use media_cache::{Cache, Note, Report, Settings};
use serde_json::Value as Json;

use super::{export, time};
use crate::admin::cache::{PAGE, Page, Pin, RecordingShown, RecordingState, Remove, SegmentState, Show};

/// What to show or do.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Recordings of a running proxy
    Ls(Listing),
    /// All that is known of a recording
    Show(One),
    /// Never remove a recording to make room
    Pin(One),
    /// Remove it again when there is no room
    Unpin(One),
    /// Remove a recording
    Rm(One),
    /// Write a recording to a file: MPEG-TS, MP4, a capture, or RTP for rtptools
    Export(export::Args),
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
            Action::Show(own) => show(own),
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
            Action::Export(own) => own.run(),
            Action::Check(own) => check(own),
        }
    }
}

fn ls(Listing { watch, remote }: &Listing) -> Result<(), Failure> {
    let header = ["id", "stream", "track", "coding", "began", "length", "packets", "lost", "bytes", "state"];
    watch.run(|| {
        let mut all: Vec<RecordingState> = Vec::new();
        loop {
            let behind = all.last().map_or(0, |own| own.id);
            let page: Vec<RecordingState> = remote.query("media", "cache", &Page { behind })?;
            let is_last = page.len() < PAGE;
            all.extend(page);
            if is_last {
                break;
            }
        }
        watch.show(remote.json, &all, |all| {
            let mut out = String::new();
            table(&mut out, &header, all.iter().map(row).collect());
            out
        })
    })
}

/// A time, and to a second where that is not there.
fn moment(milliseconds: u64) -> String {
    let time = jiff::Timestamp::from_millisecond(milliseconds as i64);
    time.map_or_else(|_| "-".into(), |own| own.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

fn state(own: &RecordingState) -> String {
    let state = own.ended.as_deref().unwrap_or("recording");
    if own.pinned { format!("{state}, pinned") } else { state.to_owned() }
}

fn row(own: &RecordingState) -> Vec<String> {
    vec![
        own.id.to_string(),
        own.stream.clone(),
        own.track.to_string(),
        own.encoding.clone(),
        moment(own.began_ms),
        time(own.length_ms),
        grouped(own.packets),
        grouped(own.lost),
        grouped(own.bytes),
        state(own),
    ]
}

fn show(One { id, remote }: &One) -> Result<(), Failure> {
    let mut all: RecordingShown = remote.query("media", "recording", &Show { id: *id, from: 0 })?;
    let mut last = all.segments.len();
    while last == PAGE {
        let from = all.segments.last().map_or(0, |own| own.number + 1);
        let page: RecordingShown = remote.query("media", "recording", &Show { id: *id, from })?;
        last = page.segments.len();
        all.segments.extend(page.segments);
    }
    if remote.json {
        print_json(&all);
        return Ok(());
    }
    let RecordingShown { recording: own, tracks, segments } = &all;
    say!("recording {} of {}, track {} of: {}", own.id, own.stream, own.track, tracks.join(", "));
    say!("from {}, {} long, {}", moment(own.began_ms), time(own.length_ms), state(own));
    let (packets, bytes) = (grouped(own.packets), grouped(own.bytes));
    say!("{packets} packets, {} lost, {bytes} bytes in {} segments", grouped(own.lost), segments.len());
    let header = ["segment", "began", "length", "packets", "lost", "access points", "bytes", "before it"];
    let mut out = String::new();
    table(&mut out, &header, segment_rows(segments));
    print(format_args!("{out}"));
    Ok(())
}

fn segment_rows(segments: &[SegmentState]) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    let mut due = 0;
    for own in segments {
        let before = match own.number.saturating_sub(due) {
            0 => String::new(),
            count => format!("{count} removed"),
        };
        due = own.number + 1;
        rows.push(vec![
            own.number.to_string(),
            moment(own.began_ms),
            time(own.length_ms),
            grouped(own.packets),
            grouped(own.lost),
            grouped(own.access_points),
            grouped(own.bytes),
            before,
        ]);
    }
    rows
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
    // Opening it would make one.
    if !Cache::is_in(directory) {
        return Err(Failure::refused(format!("{}: there is no cache in this directory", directory.display())));
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
    // What can't be mended is found again by the second look.
    let all = |of: fn(&Report) -> &Vec<Note>| {
        let (first, second) = (of(opened), of(report));
        first.iter().chain(second.iter().filter(move |note| !first.contains(note)))
    };
    all(|own| &own.mended).for_each(|note| say!("mended: {}: {}", note.path.display(), note.what));
    all(|own| &own.lost).for_each(|note| say!("lost: {}: {}", note.path.display(), note.what));
    if opened.rebuilt {
        say!("the catalogue was made anew");
    }
    let Report { recordings, segments, whole, .. } = report;
    say!("{recordings} recordings, {whole} of {segments} segments are whole");
}

//! Requests for playlists.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use hyper::{StatusCode, header};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};
use wire::rtsp::{range, url};

use super::body::Part;
use super::line::{Line, Wrong};
use super::playlist::{Form, text};
use super::respond::{Front, Reply, Wish, now, unavailable};
use super::segments::matches;
use crate::cache::start::Start;

pub use crate::cache::start::START;

/// How long a stream that begins is waited for, and between two looks. Players ask again after a refusal, but not all.
const FIRST: Duration = Duration::from_secs(15);
const LOOK: Duration = Duration::from_millis(250);
/// A recording is over when so long nothing has followed it, in microseconds.
const OVER: u64 = 10_000_000;

/// What a look at recordings has found.
enum Found {
    Text(String, Form),
    /// It is at this time, in seconds since 1970.
    At(u64),
    /// Nothing yet.
    Nothing,
    Wrong(Wrong),
}

/// Answers one.
pub(super) async fn answer(front: &Arc<Front>, name: &str, wish: Wish) -> Reply {
    let start = match url::parameter(&wish.url, START).map(Start::parse) {
        Some(None) => {
            let why = "start is one of 0, -10m, 20261124T190000Z\n";
            return Reply::text(StatusCode::BAD_REQUEST, why);
        }
        start => start.flatten(),
    };
    let begun = Instant::now();
    loop {
        let (own, stream, query, comes) = (front.clone(), name.to_owned(), wish.query.clone(), wish.comes);
        let found = spawn_blocking(move || find(&own, &stream, start, comes, &query)).await;
        match found.unwrap_or(Found::Nothing) {
            Found::Text(text, form) => return written(text, form, &wish),
            Found::At(at) => {
                // From here on each request means the same time.
                let start = range::clock_text(Duration::from_secs(at));
                let token = wish.query.strip_prefix('?').map_or_else(String::new, |own| format!("&{own}"));
                let reply = Reply::text(StatusCode::FOUND, "");
                let to = format!("index.m3u8?{START}={start}{token}");
                return reply.with(header::LOCATION, to).with(header::CACHE_CONTROL, "no-store");
            }
            Found::Wrong(Wrong::Coding(coding)) => {
                let why = format!(
                    "it is recorded as packets of {coding}, and HLS is of MPEG-TS; by RTSP it is rtsp://proxy/{name}?start=0\n"
                );
                return Reply::text(StatusCode::UNSUPPORTED_MEDIA_TYPE, why);
            }
            Found::Wrong(Wrong::Cache(why)) => {
                tracing::warn!("recordings can't be read: {why}");
                return unavailable("the recordings can't be read");
            }
            Found::Nothing if start.is_some() && !wish.comes => {
                return Reply::text(StatusCode::NOT_FOUND, "nothing was recorded from then on\n");
            }
            Found::Nothing if begun.elapsed() < FIRST => sleep(LOOK).await,
            Found::Nothing => return unavailable("nothing of it is recorded yet"),
        }
    }
}

fn micros(time: Duration) -> u64 {
    time.as_micros() as u64
}

fn find(front: &Front, name: &str, start: Option<Start>, comes: bool, query: &str) -> Found {
    let Some(cache) = front.cache() else { return Found::Wrong(Wrong::Cache("there is none".into())) };
    let known = front.known(name);
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    if let Err(wrong) = known.refresh(&cache, name) {
        return Found::Wrong(wrong);
    }
    let line = &known.line;
    let now = now();
    let clock = match start {
        None => {
            let from = live(line, micros(front.settings().window), micros(now));
            let entries = line.entries.range(from..);
            return match entries.len() {
                0 => Found::Nothing,
                _ => Found::Text(text(entries, line.target, Form::Live, query), Form::Live),
            };
        }
        Some(Start::At(at)) => micros(at),
        Some(Start::Ago(ago)) => return Found::At(now.saturating_sub(ago).as_secs()),
        Some(Start::Beginning) => {
            let first = line.entries.iter().find(|own| !own.is_gone);
            return first.map_or(Found::Nothing, |own| Found::At(own.clock / 1_000_000));
        }
    };
    let entries = line.entries.range(line.at_clock(clock)..);
    if entries.clone().all(|own| own.is_gone) {
        return Found::Nothing;
    }
    let is_over = !line.grows && !comes && micros(now) > line.end().saturating_add(OVER);
    let form = if is_over { Form::Ended } else { Form::Growing };
    Found::Text(text(entries, line.target, form, query), form)
}

/// The first entry of what is live: no longer than a window, and nothing that was long ago.
fn live(line: &Line, window: u64, now: u64) -> usize {
    let long_ago = now.saturating_sub(window.saturating_add(4_000_000 * line.target));
    let current = line.entries.back().filter(|_| line.grows).map(|own| own.id);
    let fresh = line.entries.iter().rposition(|own| {
        let is_old = own.clock.saturating_add(own.duration) < long_ago && Some(own.id) != current;
        is_old || own.is_gone
    });
    line.window(window).max(fresh.map_or(0, |last| last + 1))
}

fn written(text: String, form: Form, wish: &Wish) -> Reply {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let tag = format!("\"{:016x}\"", hasher.finish());
    let is_known = wish.header(header::IF_NONE_MATCH).is_some_and(|own| matches(own, &tag));
    let mut reply = Reply {
        status: if is_known { StatusCode::NOT_MODIFIED } else { StatusCode::OK },
        headers: Vec::new(),
        parts: Vec::new(),
        source: None,
    };
    let kept = if form == Form::Ended { wish.kept("max-age=10") } else { "no-cache".to_owned() };
    reply = reply.with(header::ETAG, tag).with(header::CACHE_CONTROL, kept);
    if !is_known {
        reply = reply.with(header::CONTENT_TYPE, "application/vnd.apple.mpegurl");
        reply.parts.push(Part::Text(text.into()));
    }
    reply
}

//! Plays recordings for the proxy: in the place of a connection to an origin, an RTSP server of the proxy's own.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use media_cache::Cache;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, sleep_until};
use wire::rtsp::framing::{Framer, Item};
use wire::rtsp::url::{self, Url};

use super::outbox::{Next, Outbox};
use super::shared::Shared;
use crate::cache::recorded::RecordedFilm;
use crate::cache::server::{Due, Server};
use crate::cache::start::{START, Start};

/// Packets that are given to the proxy at a time.
const BATCH: usize = 64;
/// Packets that are due within this time are sent together.
const PACE: Duration = Duration::from_millis(2);
/// How long the first block of a recording is waited for, and between two looks.
const FIRST: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(50);
/// Both ends of a connection that is none.
const HERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Serves one presentation until its connection is closed.
pub async fn run(id: u64, cache: Cache, outbox: Arc<Outbox>, shared: Shared) {
    shared.event(|proxy| proxy.origin_opened(id, HERE, HERE));
    let why = serve(id, cache, &outbox, &shared).await;
    shared.origin_closed(id, &why);
}

/// Since 1970.
fn wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Why it ends.
async fn serve(id: u64, cache: Cache, outbox: &Outbox, shared: &Shared) -> String {
    let began = Instant::now();
    let mut framer = Framer::default();
    let mut server: Option<Box<Server<RecordedFilm>>> = None;
    let mut due: Option<Instant> = None;
    loop {
        let next = tokio::select! {
            next = outbox.next() => Some(next),
            () = sleep_until(due.unwrap_or(began)), if due.is_some() => None,
        };
        match next {
            Some(Next::Close) => return "the proxy has closed it".into(),
            Some(Next::Bytes(bytes)) => {
                framer.push(&bytes);
                while let Ok(Some(item)) = framer.next_item() {
                    // Reports of how packets were received come, too.
                    let Item::Request(request) = item else { continue };
                    if server.is_none() && request.method != "OPTIONS" {
                        match open(cache.clone(), &request.url).await {
                            Ok(own) => server = Some(own),
                            Err(why) => tracing::warn!(recording = %request.url, "{why}"),
                        }
                    }
                    let now = began.elapsed();
                    let (back, response) = match server.take() {
                        Some(mut own) => {
                            let answer = spawn_blocking(move || {
                                let response = own.answer(&request, now);
                                (own, response)
                            });
                            let Ok((own, response)) = answer.await else { return "its task has failed".into() };
                            (Some(own), response)
                        }
                        None => (None, crate::cache::server::without_film(&request)),
                    };
                    server = back;
                    shared.event(|proxy| proxy.origin_item(id, Item::Response(response)));
                }
            }
            None => {}
        }
        let Some(mut own) = server.take() else { continue };
        let (now, wall) = (began.elapsed(), wall());
        let taken = spawn_blocking(move || {
            let mut data = Vec::new();
            let due = own.take(now + PACE, wall, BATCH, &mut data);
            (own, due, data)
        });
        let Ok((own, next, data)) = taken.await else { return "its task has failed".into() };
        server = Some(own);
        if !data.is_empty() {
            shared.event(|proxy| {
                data.into_iter().for_each(|(channel, packet)| proxy.origin_item(id, Item::Data { channel, packet }));
            });
        }
        due = match next {
            Ok(Due::At(time)) => Some(began + time),
            Ok(Due::OnRequest) => None,
            Err(why) => return why,
        };
    }
}

/// The film that a URL means: that of `rtsp://HOST/NAME?start=…`.
async fn open(cache: Cache, text: &str) -> Result<Box<Server<RecordedFilm>>, String> {
    let url = Url::parse(text).ok_or("it is no URL")?;
    let path = url.path.strip_prefix('/').unwrap_or(url.path);
    let (name, _) = path.split_once('?').unwrap_or((path, ""));
    let start = url::parameter(text, START).and_then(Start::parse).unwrap_or(Start::Beginning);
    let name = name.to_owned();
    let begun = Instant::now();
    loop {
        let (cache, name) = (cache.clone(), name.clone());
        let opened = spawn_blocking(move || RecordedFilm::open(&cache, &name, start, wall()));
        if let Some(film) = opened.await.map_err(|error| error.to_string())?? {
            let start = film.start;
            return Ok(Box::new(Server::new(film, start)));
        }
        if begun.elapsed() > FIRST {
            return Err("nothing of it is written yet".into());
        }
        sleep(LOOK).await;
    }
}

//! Plays recordings for the proxy: in the place of a connection to an origin, an RTSP server of the proxy's own.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use media_cache::Cache;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, sleep_until};
use wire::rtsp::framing::{Framer, Item};
use wire::rtsp::message::{Request, Response};
use wire::rtsp::url::{self, Url};

use super::outbox::{Next, Outbox};
use super::shared::Shared;
use crate::cache::copies::{self, Confirmed, CopiedFilm, Found};
use crate::cache::film;
use crate::cache::recorded::RecordedFilm;
use crate::cache::server::{Due, Server, without_film};
use crate::cache::start::{HOST, START, Start};
use crate::proxy::{DESCRIBED, MODIFIED};

/// Packets that are given to the proxy at a time.
const BATCH: usize = 64;
/// Packets that are due within this time are sent together.
const PACE: Duration = Duration::from_millis(2);
/// How long the first block of a recording is waited for, and between two looks.
const FIRST: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(50);
/// Both ends of a connection that is none.
const HERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// What is played.
type Film = Box<dyn film::Film + Send>;

/// What a connection is to.
#[derive(Clone, Debug)]
pub enum Played {
    /// Recorded streams.
    Recordings(Cache),
    /// Copies of origins' films: those that may be served without a question, or any.
    Copies {
        /// Where they are.
        cache: Cache,
        /// Those of which origins have said that they are still true.
        confirmed: Confirmed,
        /// Whether any is meant.
        any: bool,
    },
}

/// Serves one presentation until its connection is closed.
pub async fn run(id: u64, played: Played, outbox: Arc<Outbox>, shared: Shared) {
    shared.event(|proxy| proxy.origin_opened(id, HERE, HERE));
    let why = serve(id, &played, &outbox, &shared).await;
    shared.origin_closed(id, &why);
}

/// Since 1970.
fn wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Why it ends.
async fn serve(id: u64, played: &Played, outbox: &Outbox, shared: &Shared) -> String {
    let began = Instant::now();
    let mut framer = Framer::default();
    let mut server: Option<Box<Server<Film>>> = None;
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
                    let mut refused = None;
                    if server.is_none() && request.method != "OPTIONS" {
                        match played.open(&request).await {
                            Ok(own) => server = Some(own),
                            Err(response) => refused = Some(response),
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
                        None => (None, refused.unwrap_or_else(|| without_film(&request, 404))),
                    };
                    server = back;
                    shared.event(|proxy| proxy.origin_item(id, Item::Response(response)));
                }
            }
            None => {}
        }
        let Some(mut own) = server.take() else { continue };
        let (now, wall) = (began.elapsed(), wall());
        let mut data = Vec::new();
        let mut next = own.take_read(now + PACE, wall, BATCH, &mut data);
        if next == Ok(Due::Unread) {
            let taken = spawn_blocking(move || {
                let due = own.take(now + PACE, wall, BATCH, &mut data);
                (own, due, data)
            });
            let Ok(taken) = taken.await else { return "its task has failed".into() };
            (own, next, data) = taken;
        }
        server = Some(own);
        if !data.is_empty() {
            shared.event(|proxy| {
                data.into_iter().for_each(|(channel, packet)| proxy.origin_item(id, Item::Data { channel, packet }));
            });
        }
        due = match next {
            Ok(Due::At(time)) => Some(began + time),
            Ok(Due::OnRequest | Due::Unread) => None,
            Ok(Due::Elsewhere(rest)) => {
                shared.event(|proxy| proxy.copy_ended(id, rest));
                None
            }
            Err(why) => return why,
        };
    }
}

impl Played {
    /// What a host of URLs stands for; none where it is another one.
    pub fn at(host: &str, cache: &Cache, confirmed: &Confirmed) -> Option<Played> {
        let (cache, confirmed) = (cache.clone(), confirmed.clone());
        match host {
            HOST => Some(Played::Recordings(cache)),
            copies::HOST => Some(Played::Copies { cache, confirmed, any: false }),
            copies::ANY => Some(Played::Copies { cache, confirmed, any: true }),
            _ => None,
        }
    }

    /// The film that a URL means, or the answer to who asks for it.
    async fn open(&self, request: &Request) -> Result<Box<Server<Film>>, Response> {
        let opened = match self {
            Played::Recordings(cache) => recorded(cache.clone(), &request.url).await.map(Some),
            Played::Copies { cache, confirmed, any } => {
                let url = Url::parse(&request.url);
                let key = url.map(|url| copies::key_of(url.path)).unwrap_or_default();
                let (cache, confirmed, any) = (cache.clone(), confirmed.clone(), *any);
                let opened = spawn_blocking(move || CopiedFilm::open(&cache, &key, &confirmed, any, wall())).await;
                match opened.map_err(|error| error.to_string()).flatten() {
                    Ok(Found::Film(film)) => Ok(Some(Box::new(Server::new(film as Film, Duration::ZERO)))),
                    Ok(Found::Nothing) => Ok(None),
                    Ok(Found::Old(validators)) => {
                        let mut response = without_film(request, 302);
                        response.headers.push(DESCRIBED, validators.description);
                        if !validators.modified.is_empty() {
                            response.headers.push(MODIFIED, validators.modified);
                        }
                        return Err(response);
                    }
                    Err(why) => Err(why),
                }
            }
        };
        match opened {
            Ok(Some(own)) => Ok(own),
            // Its origin has it.
            Ok(None) => Err(without_film(request, 302)),
            Err(why) => {
                tracing::warn!(recording = %request.url, "{why}");
                let is_recording = matches!(self, Played::Recordings(_));
                Err(without_film(request, if is_recording { 404 } else { 302 }))
            }
        }
    }
}

/// The film of `rtsp://HOST/NAME?start=…`.
async fn recorded(cache: Cache, text: &str) -> Result<Box<Server<Film>>, String> {
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
            return Ok(Box::new(Server::new(Box::new(film) as Film, start)));
        }
        if begun.elapsed() > FIRST {
            return Err("nothing of it is written yet".into());
        }
        sleep(LOOK).await;
    }
}

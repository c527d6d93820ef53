//! The client of the media proxy's state machine: asks for a stream, and keeps it, as a client of RTSP does.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use media::proxy::ClientId;
use media::sockets::outbox::{Next, Outbox};
use media::sockets::shared::Shared;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::timeout;
use wire::picture::Coding;
use wire::rtsp::framing::{Framer, Item};
use wire::rtsp::message::{Request, Response};
use wire::rtsp::session;
use wire::sdp::Description;

use super::{Id, SourceEvent, receiver};
use crate::http::refusal::{
    BAD_SERVER, NO_SERVER, NO_SOCKET, NOT_A_TRANSPORT_STREAM, NOT_ALLOWED, NOT_THERE, Refusal, SLOW_SERVER,
};

/// Between two signs of life: a third of the shortest timeout that a session has.
const SIGN: Duration = Duration::from_secs(20);

/// What is viewed.
pub(super) struct Viewing {
    pub(super) stream: u32,
    pub(super) id: Id,
    pub(super) url: String,
    /// The session that it has already.
    pub(super) session: Option<String>,
    pub(super) shared: Shared,
    pub(super) events: UnboundedSender<SourceEvent>,
    pub(super) stop: Arc<Notify>,
}

/// Views a stream until it ends, or is to be viewed no longer.
pub(super) async fn run(own: Viewing) {
    let (address, port) = receiver(own.stream, own.id);
    let peer = SocketAddr::new(address.into(), port);
    let local = SocketAddr::new(IpAddr::from([127, 0, 0, 1]), 554);
    let outbox = Arc::new(Outbox::default());
    let refused = |refusal| {
        // Whoever takes it ends with the controller.
        let _ = own.events.send(SourceEvent::Ended { stream: own.stream, id: own.id, refusal });
    };
    let Some(id) = own.shared.client_opened(peer, local, outbox.clone()) else { return refused(NO_SERVER) };
    let mut client = Client {
        id,
        shared: own.shared.clone(),
        outbox,
        framer: Framer::default(),
        items: VecDeque::new(),
        cseq: 0,
        session: None,
    };
    tokio::select! {
        refusal = client.view(&own, port) => refused(refusal),
        () = own.stop.notified() => {}
    }
    if client.session.is_some() {
        client.say("TEARDOWN", &own.url, &[]);
    }
    own.shared.client_closed(id);
}

struct Client {
    id: ClientId,
    shared: Shared,
    outbox: Arc<Outbox>,
    framer: Framer,
    items: VecDeque<Item>,
    cseq: u32,
    session: Option<String>,
}

impl Client {
    /// Has a stream come to a port; returns when it has ended, with the reason.
    async fn view(&mut self, own: &Viewing, port: u16) -> Refusal {
        let url = &own.url;
        if !self.goes_on(url, own.session.clone()).await {
            self.session = None;
            if let Err(refusal) = self.play(url, port).await {
                return refusal;
            }
            if let Some(session) = self.session.clone() {
                // Whoever takes it ends with the controller.
                let _ = own.events.send(SourceEvent::Session { stream: own.stream, id: own.id, session });
            }
        }
        loop {
            // Nothing is said unasked but the end.
            if timeout(SIGN, self.item()).await.is_ok_and(|item| item.is_none()) {
                return NO_SERVER;
            }
            if let Err(refusal) = self.ask("GET_PARAMETER", url, &[]).await {
                return refusal;
            }
        }
    }

    /// Whether a session of a process before is there still.
    async fn goes_on(&mut self, url: &str, session: Option<String>) -> bool {
        self.session = session;
        self.session.is_some() && self.ask("GET_PARAMETER", url, &[]).await.is_ok()
    }

    async fn play(&mut self, url: &str, port: u16) -> Result<(), Refusal> {
        let described = self.ask("DESCRIBE", url, &[("Accept", "application/sdp")]).await?;
        let description = Description::parse(&described.body).map_err(|_| BAD_SERVER)?;
        let is_it =
            |track: &usize| description.is_rtp(*track) && description.coding(*track) == Some(Coding::TransportStream);
        let track = (0..description.media()).find(is_it).ok_or(NOT_A_TRANSPORT_STREAM)?;
        let base = described.headers.get("content-base").unwrap_or(url).to_owned();
        let control = description.media_control(track, &base);
        let transport = format!("RTP/AVP;unicast;client_port={port}-{}", port + 1);
        let setup = self.ask("SETUP", &control, &[("Transport", &transport)]).await?;
        let named = setup.headers.get("session").and_then(session::parse).ok_or(BAD_SERVER)?;
        self.session = Some(named.id.to_string());
        self.ask("PLAY", url, &[]).await?;
        Ok(())
    }

    /// Says something, and does not wait for an answer.
    fn say(&mut self, method: &str, url: &str, fields: &[(&str, &str)]) {
        self.cseq += 1;
        let mut request = Request::new(method, url);
        request.headers.push("CSeq", self.cseq.to_string());
        self.session.iter().for_each(|session| request.headers.push("Session", session.clone()));
        fields.iter().for_each(|(name, value)| request.headers.push(name, *value));
        let id = self.id;
        self.shared.event(|proxy| proxy.client_item(id, Item::Request(request)));
    }

    /// The answer to a request.
    async fn ask(&mut self, method: &str, url: &str, fields: &[(&str, &str)]) -> Result<Response, Refusal> {
        self.say(method, url, fields);
        loop {
            match self.item().await {
                Some(Item::Response(answer)) if answer.cseq() == Some(self.cseq) => {
                    return if answer.status == 200 { Ok(answer) } else { Err(refusal_of(answer.status, url)) };
                }
                Some(_) => {}
                None => return Err(NO_SERVER),
            }
        }
    }

    /// What comes next; none at the end.
    async fn item(&mut self) -> Option<Item> {
        loop {
            if let Some(item) = self.items.pop_front() {
                return Some(item);
            }
            match self.outbox.next().await {
                Next::Close => return None,
                Next::Bytes(bytes) => self.framer.push(&bytes),
            }
            // What it reads was written by this process.
            while let Ok(Some(item)) = self.framer.next_item() {
                self.items.push_back(item);
            }
        }
    }
}

/// What viewers are told about an answer of the state machine.
fn refusal_of(status: u16, url: &str) -> Refusal {
    match status {
        401 | 403 => NOT_ALLOWED,
        404 => NOT_THERE,
        // Places have no servers.
        503 if url.contains("/~") => NO_SOCKET,
        453 | 503 => NO_SERVER,
        504 => SLOW_SERVER,
        _ => BAD_SERVER,
    }
}

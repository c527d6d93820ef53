//! What becomes of the requests of a connection, for metrics and the access log: see `exchange`.

use wire::seq::before;

use super::client::Client;
use super::context::Context;
use super::effect::{Effect, Metric};
use super::exchange::{Count, Ending, Exchange, Finished, Head};
use super::upstream::Upstream;

impl Client {
    /// A request's head is whole, which begins at a sequence number and is for a host. `began` is when its first byte
    /// came.
    pub fn begin_exchange(&mut self, head: &[u8], (start, host): (u32, &str), began: Option<u64>, cx: &Context) {
        let mut exchange = Exchange::new(began.unwrap_or(cx.now), cx.now, start, self.next);
        exchange.head = cx.logs.then(|| Box::new(Head { host: host.to_owned(), ..Head::of(head) }));
        self.account.exchange = Some(exchange);
        self.account.exchanges += 1;
    }

    /// A server gets the request: on a new connection, or on one that was there.
    pub fn exchange_with(&mut self, server: usize, connects: bool, cx: &mut Context) {
        cx.count(Metric::Request { server, connects });
        let Some(exchange) = &mut self.account.exchange else { return };
        (exchange.server, exchange.connecting, exchange.connect) = (Some(server), cx.now, None);
    }

    /// The server has accepted the connection.
    pub fn exchange_connected(&mut self, cx: &mut Context) {
        let Some(exchange) = &mut self.account.exchange else { return };
        let time = cx.now.saturating_sub(exchange.connecting);
        exchange.connect = Some(time);
        exchange.server.into_iter().for_each(|server| cx.count(Metric::Connected { server, time }));
    }

    /// The server could not have it, and another one may get it.
    pub fn exchange_retried(&mut self, server: usize, cx: &mut Context) {
        cx.count(Metric::Failed { server });
        self.account.exchange.iter_mut().for_each(|exchange| exchange.retries += 1);
    }

    /// What both sides have acknowledged of the exchange is counted, as far as `client` and `server` say, if they know
    /// it.
    fn count(&mut self, client: Option<u32>, server: Option<u32>, upstream: Option<&Upstream>) {
        let Some(exchange) = &mut self.account.exchange else { return };
        let earlier = |one: u32, other: u32| if before(one, other) { one } else { other };
        if let Some(acked) = client {
            let end = upstream.filter(|u| u.conn.responses.is_done()).map(Upstream::response_end);
            exchange.down.reach(end.map_or(acked, |end| earlier(acked, end)));
        }
        if let Some(acked) = server {
            let end = if self.requests.is_done() { self.requests.limit() } else { acked };
            exchange.up.reach(earlier(acked, end));
        }
    }

    /// Counts what has been acknowledged by now, as the data path knows it. `upstream` is the connection to the server
    /// that has the request.
    pub fn count_exchange(&mut self, mut upstream: Option<&mut Upstream>, cx: &mut Context) {
        self.hear(cx);
        upstream.iter_mut().for_each(|u| u.hear(cx));
        self.count(Some(self.acked), upstream.as_ref().map(|u| u.acked), upstream.as_deref());
    }

    /// The response has passed: nothing of the exchange is unknown any more.
    pub fn complete_exchange(&mut self, u: &mut Upstream, cx: &mut Context) {
        self.complete_exchange_at(cx.now, u, cx);
    }

    /// The same, at a time.
    pub fn complete_exchange_at(&mut self, time: u64, u: &mut Upstream, cx: &mut Context) {
        if !self.requests.is_done() {
            // The server did not wait for all of it.
            self.count_exchange(Some(u), cx);
        }
        let asked = self.requests.is_done().then(|| self.requests.limit());
        self.count(Some(u.response_end()), asked, Some(u));
        self.end_exchange(Ending::Complete, time, cx);
    }

    /// Looks whether the exchange has ended meanwhile. `ended` is that of the client's and of the server's entry,
    /// `seen` the second of the last segment.
    pub fn look_at_exchange(&mut self, u: &mut Upstream, ended: [u8; 2], seen: u32, cx: &mut Context) {
        if self.account.exchange.is_none() {
            return;
        }
        self.count_exchange(Some(u), cx);
        // The look may be late, and the last segment's time is known to the second.
        let time = cx.now.min(u64::from(seen) * 1_000_000_000);
        let exchange = self.account.exchange.as_ref();
        if u.conn.responses.is_done() && exchange.is_some_and(|own| own.down.at == u.response_end()) {
            return self.end_exchange(Ending::Complete, time, cx);
        }
        let endless = u.conn.responses.is_endless();
        let ending = match ended {
            // What comes behind the FINs of both sides cuts nothing off: such is the answer of a client that has
            // forgotten the connection to a FIN that was sent once more.
            [client, server] if endless && client & server & 1 != 0 => Ending::Complete,
            [client, _] if client & 2 != 0 => Ending::Client,
            [_, server] if server & 2 != 0 => Ending::Server,
            [client, server] if client & server & 1 == 0 => return,
            _ if endless => Ending::Complete,
            _ => Ending::Server,
        };
        if endless
            && ending == Ending::Complete
            && let Some(exchange) = &mut self.account.exchange
        {
            // The FIN takes a number, too.
            exchange.down.bytes = exchange.down.bytes.saturating_sub(1);
        }
        self.end_exchange(ending, time, cx);
    }

    /// An exchange that has not ended yet does so now.
    pub fn break_exchange(&mut self, ending: Ending, upstream: Option<&mut Upstream>, cx: &mut Context) {
        if self.account.exchange.is_some() {
            self.count_exchange(upstream, cx);
            self.end_exchange(ending, cx.now, cx);
        }
    }

    /// Millrace answers with this status, so many bytes with a body of so many.
    pub fn answer_exchange(
        &mut self,
        status: u16,
        (bytes, body): (usize, usize),
        began: Option<u64>,
        cx: &mut Context,
    ) {
        if self.account.exchange.is_none() {
            let head = self.requests.bytes.ready().to_vec();
            self.begin_exchange(&head, (self.requests.limit(), ""), began, cx);
        }
        if let Some(exchange) = &mut self.account.exchange {
            (exchange.status, exchange.heads) = (Some(status), (bytes - body) as u64);
            exchange.down = Count { at: self.next, bytes: bytes as u64 };
        }
        self.end_exchange(Ending::Answered, cx.now, cx);
    }

    fn end_exchange(&mut self, ending: Ending, time: u64, cx: &mut Context) {
        let Some(exchange) = self.account.exchange.take() else { return };
        self.account.up += exchange.up.bytes;
        self.account.down += exchange.down.bytes;
        let duration = time.max(exchange.asked).saturating_sub(exchange.began);
        let late = cx.now.saturating_sub(exchange.began);
        cx.push(Effect::Finish(Finished { exchange, ending, duration, late }));
    }
}

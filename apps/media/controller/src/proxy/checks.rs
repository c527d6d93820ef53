//! Health checks of the origins of pools: a connection of its own for each, on which OPTIONS or DESCRIBE is asked.

use wire::rtsp::framing::Item;
use wire::rtsp::message::Request;

use super::world::{Effect, World};
use super::{OriginId, Proxy};
use crate::pools::ServerId;

impl<W: World> Proxy<W> {
    /// Begins checks that are due, and ends those that take too long.
    pub(super) fn check_tick(&mut self) {
        let due: Vec<ServerId> = self.pools.iter().filter(|(_, own)| own.due <= self.now).map(|(id, _)| id).collect();
        for id in due {
            let running = self.checks.iter().find(|(_, server)| **server == id).map(|(connection, _)| *connection);
            match running {
                Some(connection) => {
                    let timeout = self.pools.get(id).map_or(0, |own| own.pool.check.timeout.as_millis());
                    self.end_check(connection, Err(&format!("no answer within {timeout} ms")));
                }
                None => self.begin_check(id),
            }
        }
    }

    fn begin_check(&mut self, id: ServerId) {
        let connection = self.new_id();
        let now = self.now;
        let Some(own) = self.pools.get_mut(id) else { return };
        own.due = now + own.pool.check.timeout;
        if !own.configured {
            return;
        }
        own.checks += 1;
        let (host, port) = (own.server.host.clone(), own.server.port.unwrap_or(wire::rtsp::url::PORT));
        self.checks.insert(connection, id);
        self.effect(Effect::Connect { id: connection, host, port });
    }

    /// The connection of a check is there; false: it is none of a check.
    pub(super) fn check_opened(&mut self, connection: OriginId) -> bool {
        let Some(own) = self.checks.get(&connection).and_then(|id| self.pools.get(*id)) else { return false };
        let (method, path) = match &own.pool.check.path {
            Some(path) => ("DESCRIBE", path.as_str()),
            None => ("OPTIONS", "/"),
        };
        let mut request = Request::new(method, &format!("rtsp://{}{path}", own.address()));
        request.headers.push("CSeq", "1");
        request.headers.push("User-Agent", "Millrace");
        if method == "DESCRIBE" {
            request.headers.push("Accept", "application/sdp");
        }
        self.effect(Effect::ToOrigin(connection, request.to_bytes()));
        true
    }

    /// A connection has ended, which may be one of a check.
    pub(super) fn check_closed(&mut self, connection: OriginId, why: &str) {
        self.end_check(connection, Err(why));
    }

    /// Something came from an origin, which may answer a check.
    pub(super) fn check_item(&mut self, connection: OriginId, item: &Item) {
        let Item::Response(response) = item else { return };
        let Some(own) = self.checks.get(&connection).and_then(|id| self.pools.get(*id)) else { return };
        let status = response.status;
        match own.pool.check.status.map_or(status < 500, |expected| status == expected) {
            // What comes before the answer.
            _ if status < 200 => {}
            true => self.end_check(connection, Ok(())),
            false => self.end_check(connection, Err(&format!("status {status}"))),
        }
    }

    /// A check is over: the server works, or why not.
    fn end_check(&mut self, connection: OriginId, found: Result<(), &str>) {
        let Some(id) = self.checks.remove(&connection) else { return };
        self.effect(Effect::CloseOrigin(connection));
        let now = self.now;
        let Some(own) = self.pools.get_mut(id) else { return };
        own.due = now + own.pool.check.interval;
        own.checks_failed += u64::from(found.is_err());
        self.pools.checked(id, found, now);
    }

    /// No check is under way any more, and none begins.
    pub(super) fn end_checks(&mut self) {
        for connection in std::mem::take(&mut self.checks).into_keys() {
            self.effect(Effect::CloseOrigin(connection));
        }
        self.pools.stop_checks();
    }
}

//! Who may have what: by the client's address, by a token in the URL, or by a user's password.

use std::time::Duration;

use wire::rtsp::auth::challenges;
use wire::rtsp::message::{Request, Response};
use wire::rtsp::url;

use super::proof::{Proof, proof};
use super::target::{TOKEN, Target, same_presentation};
use super::world::World;
use super::{ClientId, Proxy};
use crate::settings::access::Access;

/// What users are users of. It names no host.
const REALM: &str = "Millrace";
/// How long a nonce may be used.
const NONCE: Duration = Duration::from_secs(300);

/// What a client's proofs of a password are for. It is its connection's alone, so nobody can use a proof twice who does
/// not have the connection.
#[derive(Debug)]
pub(super) struct Nonce {
    text: String,
    since: Duration,
    /// How often it was used, as the client counts.
    count: u32,
}

/// What is said of a request.
enum Verdict {
    Admitted,
    /// It proves nothing.
    Unknown,
    /// It proves a password for a nonce that is none any more.
    Stale,
    Wrong,
}

impl<W: World> Proxy<W> {
    /// Whether a client may view what it asks for; where it may not, it is told.
    pub(super) fn admits(&mut self, id: ClientId, request: &Request, target: &Target) -> bool {
        self.admits_to(id, request, target, &target.viewers)
    }

    /// Whether a client is one of those that have access; where it is not, it is told.
    pub(super) fn admits_to(&mut self, id: ClientId, request: &Request, target: &Target, access: &Access) -> bool {
        let Some(client) = self.clients.get(&id) else { return false };
        // A request that has waited for an origin is served once more.
        if client.admitted {
            return true;
        }
        let address = client.peer.ip();
        if !access.takes(address) {
            self.refuse(id, request, 403);
            return false;
        }
        let verdict = if access.is_open() {
            Verdict::Admitted
        } else if self.guesses.of(address, self.now) >= self.settings.limits.guesses {
            self.counts.locked += 1;
            self.refuse(id, request, 403);
            return false;
        } else {
            self.verdict(id, request, target, access)
        };
        match verdict {
            Verdict::Admitted => {
                self.clients.get_mut(&id).into_iter().for_each(|client| client.admitted = true);
                return true;
            }
            Verdict::Wrong => {
                self.counts.wrong += 1;
                self.guesses.add(address, self.now);
                tracing::warn!(client = %address, url = %url::shown(&target.base), "wrong password or token");
                self.challenge(id, request, target, access, false);
            }
            Verdict::Unknown => self.challenge(id, request, target, access, false),
            Verdict::Stale => self.challenge(id, request, target, access, true),
        }
        false
    }

    fn verdict(&mut self, id: ClientId, request: &Request, target: &Target, access: &Access) -> Verdict {
        // What stands in an origin's own URL is the origin's.
        let token = url::parameter(&target.base, TOKEN).filter(|_| !access.tokens.is_empty() && !target.forwarded);
        if token.is_some_and(|token| access.knows(token)) {
            return Verdict::Admitted;
        }
        let Some(field) = request.headers.get(if target.forwarded { "proxy-authorization" } else { "authorization" })
        else {
            return if token.is_some() { Verdict::Wrong } else { Verdict::Unknown };
        };
        let is_for = |url: &str| same_presentation(url, &request.url);
        let digest = match proof(field, &request.method, REALM, access, &self.settings, is_for) {
            Proof::Wrong => return Verdict::Wrong,
            Proof::Password => return Verdict::Admitted,
            Proof::Digest(digest) => digest,
        };
        let now = self.now;
        let nonce = self.clients.get_mut(&id).and_then(|client| client.nonce.as_mut());
        let Some(nonce) = nonce.filter(|own| own.text == digest.nonce && now.saturating_sub(own.since) < NONCE) else {
            return Verdict::Stale;
        };
        match &digest.counted {
            Some((count, _)) if *count <= nonce.count => return Verdict::Stale,
            Some((count, _)) => nonce.count = *count,
            None => {}
        }
        Verdict::Admitted
    }

    /// Asks a client for a password: for one of the proxy's, where it may have to prove another one at an origin.
    fn challenge(&mut self, id: ClientId, request: &Request, target: &Target, access: &Access, stale: bool) {
        // Where tokens alone are taken there is nothing to ask for.
        if access.users.is_empty() {
            return self.refuse(id, request, 403);
        }
        let (text, now) = (format!("{:016x}{:016x}", self.world.random(), self.world.random()), self.now);
        let (status, field) = if target.forwarded { (407, "Proxy-Authenticate") } else { (401, "WWW-Authenticate") };
        let mut response = Response::new(status, request.cseq());
        for challenge in challenges(&self.settings.schemes, REALM, &text, stale) {
            response.headers.push(field, challenge);
        }
        if let Some(client) = self.clients.get_mut(&id) {
            client.nonce = Some(Box::new(Nonce { text, since: now, count: 0 }));
        }
        self.respond(id, response);
    }
}

//! Who may have what: by the client's address, by a token, or by a user's password, proven as RTSP and HTTP have it.

use std::net::IpAddr;

use media::proxy::proof::{Proof, proof};
use media::settings::access::Access;
use wire::rtsp::auth::challenges;

use super::Proxy;
use super::world::World;
use crate::http::answer::REALM;
use crate::http::refusal::{GUESSED, NO_PASSWORD, NO_TOKEN, NOT_YOURS, Refusal, STALE, WRONG_PASSWORD, WRONG_TOKEN};
use crate::http::request::Request;
use crate::http::target::token;

impl<W: World> Proxy<W> {
    /// Whether a client may have what it asks for.
    pub(super) fn admit(&mut self, client: IpAddr, request: &Request, access: &Access) -> Result<(), Refusal> {
        if !access.takes(client) {
            return Err(NOT_YOURS);
        }
        if access.is_open() {
            return Ok(());
        }
        if self.guesses.of(client, self.now) >= self.settings.limits.guesses {
            self.counts.locked += 1;
            return Err(GUESSED);
        }
        let token = token(request).filter(|_| !access.tokens.is_empty());
        if token.as_deref().is_some_and(|token| access.knows(token)) {
            return Ok(());
        }
        let refusal = match (&request.authorization, token) {
            (Some(field), _) if !access.users.is_empty() => {
                let is_for = |url: &str| request.is_for(url);
                match proof(field, &request.method, REALM, access, &self.settings.sources, is_for) {
                    Proof::Password => return Ok(()),
                    Proof::Digest(said) => {
                        let count = said.counted.as_ref().map(|(count, _)| *count);
                        let is_fresh = self.nonces.takes(&said.nonce, count, client, self.now);
                        return if is_fresh { Ok(()) } else { Err(STALE) };
                    }
                    Proof::Wrong => WRONG_PASSWORD,
                }
            }
            (_, Some(_)) => WRONG_TOKEN,
            (_, None) if access.users.is_empty() => return Err(NO_TOKEN),
            (_, None) => return Err(NO_PASSWORD),
        };
        self.counts.wrong += 1;
        self.guesses.add(client, self.now);
        tracing::warn!(%client, "wrong password or token");
        Err(refusal)
    }

    /// How a client may prove a password, where a refusal asks for one.
    pub(super) fn challenges(&mut self, number: u32, refusal: Refusal) -> Vec<String> {
        let Some(own) = self.connections.get(&number).filter(|_| refusal.status == 401) else { return Vec::new() };
        let nonce = self.nonces.make(own.client, self.now);
        challenges(&self.settings.sources.schemes, REALM, &nonce, refusal == STALE)
    }
}

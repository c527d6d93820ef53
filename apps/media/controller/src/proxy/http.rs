//! Viewers by HTTP: who may view what, by the same rules as by RTSP, and streams that are recorded for them.

use std::net::IpAddr;
use std::time::Duration;

use wire::rtsp::auth::{Authorization, Scheme};

use super::Proxy;
use super::world::World;
use crate::settings::Named;
use crate::settings::access::Access;
use crate::settings::cache::Record;

/// What a client asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// The stream's name in the configuration.
    pub name: String,
    /// The token of the URL,
    pub token: Option<String>,
    /// and `Authorization`.
    pub authorization: Option<String>,
    /// The request's method.
    pub method: String,
    /// For how long the stream is to be recorded from now on.
    pub demand: Option<Duration>,
}

/// What a client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may have it.
    Admitted {
        /// Anybody may who has its address.
        is_open: bool,
        /// Whether the stream comes now, so that more is recorded.
        comes: bool,
    },
    /// It must prove a password (401).
    Unknown,
    /// It may not (403).
    Refused,
    /// There is no such stream, or it is not recorded (404).
    Nothing,
}

/// What was counted of viewers by HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// Connections that there are,
    pub connections: u64,
    /// and that were accepted,
    pub accepted: u64,
    /// or closed at once, beyond the limits.
    pub beyond: u64,
    /// Connections that were closed as their clients took nothing.
    pub slow: u64,
    /// Requests,
    pub requests: u64,
    /// and those that were answered with a status of 400 or more.
    pub refused: u64,
    /// Bytes of segments and playlists that were sent.
    pub bytes: u64,
    /// Blocks of segments that were read from the disk,
    pub reads: u64,
    /// and that somebody else had read.
    pub shared: u64,
}

/// What is said of a proof.
enum Proof {
    Good,
    None,
    Wrong,
}

impl<W: World> Proxy<W> {
    /// Whether a client may view a stream's recordings by HTTP. One that may has the stream recorded, where it asks for
    /// that.
    pub fn admit_http(&mut self, address: IpAddr, asked: &Asked) -> Verdict {
        let settings = self.settings.clone();
        let Some(named) = settings.stream(&asked.name).filter(|own| own.record.is_on()) else {
            return Verdict::Nothing;
        };
        let access = named.viewers.as_ref().unwrap_or(&settings.viewers);
        if !access.takes(address) {
            return Verdict::Refused;
        }
        if !access.is_open() {
            if self.guesses.of(address, self.now) >= settings.limits.guesses {
                self.counts.locked += 1;
                return Verdict::Refused;
            }
            // By HTTP there is Basic alone: without it, tokens are all that is taken.
            let asks = !access.users.is_empty() && settings.schemes.contains(&Scheme::Basic);
            let not = if asks { Verdict::Unknown } else { Verdict::Refused };
            match self.proof(access, asked) {
                Proof::Good => {}
                Proof::None => return not,
                Proof::Wrong => {
                    self.counts.wrong += 1;
                    self.guesses.add(address, self.now);
                    tracing::warn!(client = %address, stream = asked.name, "wrong password or token by HTTP");
                    return not;
                }
            }
        }
        if let Some(time) = asked.demand.filter(|_| !self.comes_always(named) && named.publish.is_none()) {
            let is_new = self.demanded.insert(named.name.clone(), self.now + time).is_none();
            if is_new {
                self.always_tick();
            }
        }
        let comes = self.upstreams.values().any(|own| own.recorded_as.as_ref() == Some(&named.name));
        Verdict::Admitted { is_open: access.is_open(), comes }
    }

    /// Whether a stream is recorded here whether somebody views it or not.
    fn comes_always(&self, named: &Named) -> bool {
        named.record == Record::Always && !self.is_elsewhere(&named.name)
    }

    fn proof(&self, access: &Access, asked: &Asked) -> Proof {
        let token = asked.token.as_ref().filter(|_| !access.tokens.is_empty());
        if token.is_some_and(|token| access.knows(token)) {
            return Proof::Good;
        }
        let Some(field) = &asked.authorization else {
            return if token.is_some() { Proof::Wrong } else { Proof::None };
        };
        let said = Authorization::parse(field)
            .filter(|said| said.scheme() == Scheme::Basic && self.settings.schemes.contains(&Scheme::Basic));
        let Some(said) = said else { return Proof::Wrong };
        // Who does not exist takes as long as who does.
        let known = access.users.iter().any(|user| user == said.user());
        let password = self.settings.password(said.user()).filter(|_| known);
        let proves = said.proves(password.unwrap_or(""), &asked.method);
        if proves && password.is_some() { Proof::Good } else { Proof::Wrong }
    }
}

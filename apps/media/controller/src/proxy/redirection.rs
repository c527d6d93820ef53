//! Origins that send their clients elsewhere: by an answer, or by REDIRECT, before there is a session or in its middle.

use wire::rtsp::url::Url;

use super::recovery::Recovery;
use super::request::Job;
use super::world::{Effect, World};
use super::{Proxy, UpstreamId};

/// Redirections in a row at most.
const MOST_REDIRECTS: u32 = 4;

impl<W: World> Proxy<W> {
    /// Another place is named (RFC 2326 section 11.3).
    pub(super) fn redirected(&mut self, id: UpstreamId, location: &str) {
        let url = match self.place_of_redirection(id, location) {
            Ok(url) => url,
            Err(why) => return self.fail_upstream(id, 502, &why),
        };
        // What a peer sends elsewhere is no peer's.
        self.upstreams.get_mut(&id).into_iter().for_each(|own| own.peer = None);
        self.ask_instead(id, url);
    }

    /// Asks for a presentation of which nothing was set up yet at another place.
    pub(super) fn ask_instead(&mut self, id: UpstreamId, url: String) {
        let (connection, before) = (self.new_id(), {
            let Some(own) = self.upstreams.get_mut(&id) else { return };
            own.url.clone_from(&url);
            own.base = url;
            own.auth = None;
            own.asked = None;
            own.queue.clear();
            own.queue.extend([Job::Options, Job::Describe]);
            own.connection
        });
        self.connections.remove(&before);
        self.effect(Effect::CloseOrigin(before));
        self.connect(id, connection);
    }

    /// The URL that a redirection leads to.
    ///
    /// # Errors
    /// Why it is not followed.
    fn place_of_redirection(&mut self, id: UpstreamId, location: &str) -> Result<String, String> {
        let Some(own) = self.upstreams.get_mut(&id) else { return Err("it has ended".into()) };
        let url = Url::parse(location).ok_or("a redirection leads nowhere")?;
        own.redirects += 1;
        if own.redirects > MOST_REDIRECTS {
            return Err("too many redirections".into());
        }
        let same = Url::parse(&own.url).is_some_and(|own| own.host == url.host);
        if !same && !self.settings.permits(url.host, url.port()) {
            return Err(format!("a redirection leads to {}, which is not allowed", url.host));
        }
        Ok(url.without_user())
    }

    /// The origin sends a session elsewhere (REDIRECT, RFC 2326 section 10.10): it goes on there, where that may be.
    pub(super) fn moved(&mut self, id: UpstreamId, location: &str) {
        let now = self.now;
        let Some(own) = self.upstreams.get_mut(&id) else { return };
        if own.recovery.as_ref().is_none_or(|own| own.is_stable(now)) {
            own.redirects = 0;
        }
        // What a client proves at one origin is not for another one.
        let found = match own.is_proved() {
            true => Err("a client has proved itself there alone".into()),
            false => self.place_of_redirection(id, location),
        };
        let url = match found {
            Ok(url) => url,
            Err(why) => return self.fail_upstream(id, 502, &format!("it has ended the session (REDIRECT): {why}")),
        };
        let may_ask = self.may_ask();
        let Some(own) = self.upstreams.get(&id) else { return };
        let (redirects, plays, tracks) = (own.redirects, own.is_to_play(), own.wanted_tracks());
        self.lose_origin(id);
        if let Some(own) = self.upstreams.get_mut(&id) {
            own.redirects = redirects;
            own.recovery = Some(Recovery::moved(now, url.clone(), plays, tracks));
        }
        if may_ask {
            self.ask_at(id, None, url);
        }
    }
}

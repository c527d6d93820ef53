//! Streams of the configuration that are recorded whether somebody views them or not (`record = "always"`): each is
//! asked for at the start, and again when it was lost and its sessions would have ended.

use std::collections::BTreeSet;
use std::time::Duration;

use super::target::Target;
use super::world::World;
use super::{Proxy, UpstreamId, pause};
use crate::settings::Named;
use crate::settings::cache::Record;

/// Until a stream that can't be had is asked for again, after the first time; each further time it is twice as long,
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// One that has an end is not asked for again so soon.
const REFUSED: Duration = Duration::from_secs(600);
/// Streams that are asked for at once, so that servers with many of them are not flooded.
const MOST_AT_ONCE: usize = 16;

/// A stream that is recorded always.
#[derive(Debug, Default)]
pub(super) struct Always {
    /// The presentation that it is, or was last.
    upstream: Option<UpstreamId>,
    /// When it may be asked for again.
    at: Duration,
    /// How often it was asked for in vain.
    tries: u32,
}

impl<W: World> Proxy<W> {
    /// Sees to it that these streams, and no others, come without viewers.
    pub(super) fn always_tick(&mut self) {
        let settings = self.settings.clone();
        let now = self.now;
        self.demanded.retain(|_, until| *until > now);
        let demanded = self.demanded.clone();
        // Who of the siblings has a stream records it, and nobody else.
        let is_elsewhere = |own: &&Named| own.record == Record::Always && self.is_elsewhere(&own.name);
        let elsewhere: BTreeSet<&str> = settings.streams.iter().filter(is_elsewhere).map(|own| &*own.name).collect();
        // What is published comes when its publisher sends it.
        let wanted = |own: &&Named| {
            let is_always = own.record == Record::Always && !elsewhere.contains(&*own.name);
            (is_always || own.record.is_on() && demanded.contains_key(&own.name)) && own.publish.is_none()
        };
        let mut asked = 0;
        for own in settings.streams.iter().filter(wanted).filter(|_| settings.cache.is_some()) {
            if asked < MOST_AT_ONCE {
                asked += usize::from(self.record_always(own));
            }
        }
        if self.always.is_empty() {
            return;
        }
        self.always.retain(|name, _| settings.stream(name).as_ref().is_some_and(wanted));
        let there: BTreeSet<UpstreamId> = self.always.values().filter_map(|own| own.upstream).collect();
        self.upstreams.iter_mut().for_each(|(id, own)| own.always &= there.contains(id));
    }

    /// Has a stream come, unless it does; whether it was asked for.
    fn record_always(&mut self, named: &Named) -> bool {
        let state = self.always.entry(named.name.clone()).or_default();
        let there = state.upstream.and_then(|id| self.upstreams.get(&id)).filter(|own| own.always);
        if let Some(own) = there {
            if own.playing {
                state.tries = 0;
            }
            return false;
        }
        if self.now < state.at {
            return false;
        }
        state.at = self.now + pause::after(state.tries, FIRST_PAUSE, LONGEST_PAUSE);
        state.tries += 1;
        state.upstream = None;
        let viewers = named.viewers.clone().unwrap_or_else(|| self.settings.viewers.clone());
        // Where none can be had, it is asked for once more.
        let mut target = Target { film: None, ..Target::named(named, viewers, &self.settings) };
        target.presentation.peers = self.peered(&target);
        let Ok(id) = self.upstream_for(&target) else { return true };
        if let Some(own) = self.upstreams.get_mut(&id) {
            own.always = true;
            own.recorded_as = Some(named.name.clone());
        }
        self.always.get_mut(&named.name).into_iter().for_each(|own| own.upstream = Some(id));
        self.play_always(id);
        true
    }

    /// A presentation that is recorded always is played, once it is described.
    pub(super) fn play_always(&mut self, id: UpstreamId) {
        let Some(own) = self.upstreams.get_mut(&id).filter(|own| own.always && own.description.is_some()) else {
            return;
        };
        if !own.live {
            tracing::warn!(origin = %own.url, "it has an end, so it is not recorded");
            own.always = false;
            let again = self.now + REFUSED;
            let states = self.always.values_mut().filter(|own| own.upstream == Some(id));
            return states.for_each(|own| own.at = again);
        }
        let (plays, tracks) = (own.playing || own.is_asked_to_play(), own.tracks.len());
        if plays {
            (0..tracks).for_each(|track| self.update_flow(id, track));
        } else {
            self.play_all(id);
        }
    }
}

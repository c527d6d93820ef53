//! Packets for a connection that come before the answer to the PLAY which they follow from: the origin sends both at
//! once, on ways of their own. Clients pass over packets in front of the answer, so these wait for it.

use super::world::{Effect, World};
use super::{Proxy, SessionId};

/// Packets that wait at most; others are dropped.
const MOST: usize = 512;

impl<W: World> Proxy<W> {
    /// A session has asked its origin to play for the first time.
    pub(super) fn await_answer(&mut self, id: SessionId) {
        if let Some(own) = self.sessions.get_mut(&id).filter(|own| !own.has_played) {
            own.early.get_or_insert_default();
        }
    }

    /// Sends a session a packet on its connection, as soon as it may come.
    pub(super) fn send_carried(&mut self, id: SessionId, packet: Effect) {
        match self.sessions.get_mut(&id).and_then(|own| own.early.as_mut()) {
            None => self.effects.push_back(packet),
            Some(early) if early.len() < MOST => early.push(packet),
            Some(_) => self.counts.slow += 1,
        }
    }

    /// The answer is on its way, or there is none: what waits follows it.
    pub(super) fn send_early(&mut self, id: SessionId) {
        let early = self.sessions.get_mut(&id).and_then(|own| own.early.take());
        self.effects.extend(early.into_iter().flatten());
    }
}

//! The way to a viewer over UDP, which must be known before its packets come: where the kernel has not resolved a
//! neighbour, or has forgotten it, the program drops them. So PLAY waits for it, for a while.

use std::net::IpAddr;

use wire::rtcp;
use wire::rtsp::message::Request;

use super::reports::NAME;
use super::session::Delivery;
use super::world::{Effect, From, World};
use super::{ClientId, Proxy, SessionId};

impl<W: World> Proxy<W> {
    /// Has a request to play wait where the way to its viewer is not known; whether it waits.
    pub(super) fn waits_for_way(&mut self, id: ClientId, request: &Request, session: SessionId) -> bool {
        let Some(own) = self.sessions.get(&session).filter(|own| !own.playing) else { return false };
        let (address, local) = (own.client, own.local);
        let over_udp = own.viewers.values().find_map(|viewer| match viewer.delivery {
            Delivery::Udp { rtcp, .. } => Some((rtcp, viewer.rewrite.ssrc)),
            Delivery::Interleaved { .. } => None,
        });
        let Some((to, ssrc)) = over_udp else { return false };
        if self.world.has_way(address) {
            return false;
        }
        let is_sought = self.sought.contains_key(&address);
        self.sought.entry(address).or_default().push((id, request.clone()));
        if !is_sought {
            self.counts.sought += 1;
            // A sender that has not sent yet reports as a receiver (RFC 3550 section 6.4). To send it the kernel finds
            // its neighbour, or asks whether that is still there.
            let report = rtcp::receiver_report(ssrc, NAME, None);
            self.effect(Effect::Datagram(From::Reports(local), to, report));
            self.effect(Effect::Seek(address));
        }
        true
    }

    /// The way to a viewer is known, or was looked for long enough: who waits for it plays.
    pub fn way_sought(&mut self, address: IpAddr) {
        for (client, request) in self.sought.remove(&address).into_iter().flatten() {
            if let Some(session) = self.aggregate(client, &request) {
                self.play_now(client, request, session);
            }
        }
    }
}

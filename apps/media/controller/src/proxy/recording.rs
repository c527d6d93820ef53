//! Which streams are recorded: live ones of the configuration that say so, as long as they come. The controller gets a
//! copy of each packet, as for viewers on connections.

use super::track::TrackState;
use super::world::World;
use super::{Proxy, UpstreamId};
use crate::cache::recordings::Recorded;

impl<W: World> Proxy<W> {
    /// Begins to record a track that is there, where it is to be recorded.
    pub(super) fn update_recording(&mut self, id: UpstreamId, track: usize) {
        let Some(own) = self.upstreams.get_mut(&id).filter(|own| own.live) else { return };
        // Who has it records it, unless somebody here views it by HTTP.
        if own.is_of_sibling() && !own.always {
            return;
        }
        let (Some(name), Some(description)) = (&own.recorded_as, &own.description) else { return };
        let Some(of) = own.tracks.get_mut(track).filter(|of| of.state == TrackState::Ready) else { return };
        if !of.audience.is_recorded {
            of.audience.is_recorded =
                self.world.begin_recording(of.number, &Recorded { name, description, track, film: None });
        }
    }

    /// A packet of a track has come to the controller.
    pub(super) fn record_packet(&mut self, id: UpstreamId, track: usize, packet: &[u8]) {
        let of = self.upstreams.get(&id).and_then(|own| own.tracks.get(track));
        if let Some(of) = of.filter(|of| of.audience.is_recorded) {
            self.world.record(of.number, packet);
        }
    }
}

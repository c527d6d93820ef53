//! Which streams are recorded: live ones of the configuration that say so, as long as they come. The controller gets a
//! copy of each packet, as for viewers on connections. A recording that can't go on, as the disk is full or too slow,
//! begins anew after a while; until then the controller gets no copies for it.

use std::time::Duration;

use super::track::{Track, TrackState};
use super::world::World;
use super::{Proxy, UpstreamId, pause};
use crate::cache::recordings::Recorded;

/// Until a recording that could not go on begins anew; each further time it is twice as long,
const FIRST_PAUSE: Duration = Duration::from_secs(10);
/// up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);
/// What has gone on for so long is no further time.
const STABLE: Duration = Duration::from_secs(60);

/// How recordings of a track have gone.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Breaks {
    /// When the last one began.
    since: Duration,
    /// How many in a row could not go on.
    count: u32,
    /// When the next one begins, where the last one could not.
    until: Option<Duration>,
}

impl Breaks {
    /// One could not go on.
    fn note(&mut self, now: Duration) {
        self.count = if now.saturating_sub(self.since) > STABLE { 0 } else { self.count };
        self.until = Some(now + pause::after(self.count, FIRST_PAUSE, LONGEST_PAUSE));
        self.count += 1;
    }
}

impl<W: World> Proxy<W> {
    /// Begins to record a track that is there, where it is to be recorded.
    pub(super) fn update_recording(&mut self, id: UpstreamId, track: usize) {
        let now = self.now;
        let Some(own) = self.upstreams.get_mut(&id).filter(|own| own.live) else { return };
        // Who has it records it, unless somebody here views it by HTTP.
        if own.is_of_sibling() && !own.always {
            return;
        }
        let (Some(name), Some(description)) = (&own.recorded_as, &own.description) else { return };
        let Some(of) = own.tracks.get_mut(track).filter(|of| of.state == TrackState::Ready) else { return };
        if !of.audience.is_recorded && of.audience.breaks.until.is_none_or(|until| until <= now) {
            (of.audience.breaks.since, of.audience.breaks.until) = (now, None);
            of.audience.is_recorded =
                self.world.begin_recording(of.number, &Recorded { name, description, track, film: None });
        }
    }

    /// Takes note of recordings that could not go on.
    pub(super) fn recordings_tick(&mut self) {
        for number in self.world.take_broken_recordings() {
            let Some((id, track)) = self.tracks.get(&number).copied() else { continue };
            let of = self.upstreams.get_mut(&id).and_then(|own| own.tracks.get_mut(track));
            let Some(audience) = of.map(|of| &mut of.audience).filter(|own| own.is_recorded) else { continue };
            audience.is_recorded = false;
            audience.breaks.note(self.now);
            self.update_flow(id, track);
        }
    }

    /// Begins recordings of a presentation anew that could not go on a while ago.
    pub(super) fn record_again(&mut self, id: UpstreamId) {
        let Some(own) = self.upstreams.get(&id).filter(|own| own.live) else { return };
        let is_due = |of: &Track| !of.audience.is_recorded && of.audience.breaks.until.is_some_and(|at| at <= self.now);
        let due: Vec<usize> = own.tracks.iter().enumerate().filter(|(_, of)| is_due(of)).map(|(at, _)| at).collect();
        due.into_iter().for_each(|track| self.update_flow(id, track));
    }

    /// A packet of a track has come to the controller.
    pub(super) fn record_packet(&mut self, id: UpstreamId, track: usize, packet: &[u8]) {
        let of = self.upstreams.get(&id).and_then(|own| own.tracks.get(track));
        if let Some(of) = of.filter(|of| of.audience.is_recorded) {
            self.world.record(of.number, packet);
        }
    }
}

//! The proxy's world: ports, counts, random numbers.

use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::time::{ClockId, clock_gettime};
use routes::Lookup;

use super::data_path::DataPath;
use super::datagrams::Datagrams;
use super::shared::WeakShared;
use crate::cache::recordings::{Counts, Recorded, Recordings};
use crate::proxy::world::{Listening, World};
use crate::settings::Settings;
use crate::tables::{Progress, Receiver};

/// See the module.
#[derive(Debug)]
pub struct Live {
    random: File,
    pub(super) settings: Arc<Settings>,
    pub(super) datagrams: Datagrams,
    /// The program that runs.
    pub(super) path: Option<Box<dyn DataPath>>,
    /// Its ways to hosts, where it has any.
    pub(super) lookup: Option<Lookup>,
    /// What is recorded, where there is a cache.
    pub(super) recordings: Option<Recordings>,
    /// For tasks; there as soon as anything happens.
    pub(super) shared: WeakShared,
}

impl Live {
    /// One without ports.
    pub fn new(settings: Arc<Settings>) -> Result<Live, String> {
        let random = File::open("/dev/urandom").map_err(|error| format!("/dev/urandom: {error}"))?;
        Ok(Live {
            random,
            settings,
            datagrams: Datagrams::default(),
            path: None,
            lookup: None,
            recordings: None,
            shared: WeakShared::default(),
        })
    }
}

impl World for Live {
    fn random(&mut self) -> u64 {
        let mut bytes = [0; 8];
        // Once it is open it gives without end (random(4)). Where it did not, sessions would have names that can be
        // guessed, so there are none.
        if let Err(error) = self.random.read_exact(&mut bytes) {
            panic!("/dev/urandom: {error}");
        }
        u64::from_ne_bytes(bytes)
    }

    fn bind_pair(&mut self, address: IpAddr) -> Option<u16> {
        let shared = self.shared.upgrade()?;
        self.datagrams.bind_pair(address, &self.settings.ports, &shared)
    }

    fn bind_pair_again(&mut self, address: IpAddr, port: u16) -> bool {
        let Some(shared) = self.shared.upgrade() else { return false };
        self.datagrams.bind_pair_again(address, port, &shared)
    }

    fn bind_media(&mut self, address: IpAddr) -> bool {
        if self.path.as_ref().is_some_and(|path| path.has_receivers()) {
            return true;
        }
        let Some(shared) = self.shared.upgrade() else { return false };
        self.datagrams.bind_media(address, self.settings.media_port, &shared)
    }

    fn listen(&mut self, at: &Listening) -> Result<(), String> {
        let shared = self.shared.upgrade().ok_or("the proxy ends")?;
        self.datagrams.listen(at, &shared).map_err(|error| format!("port {} of {}: {error}", at.port, at.address))
    }

    fn leave(&mut self, address: IpAddr, port: u16) {
        self.datagrams.release_pair(address, port);
    }

    fn has_way(&mut self, to: IpAddr) -> bool {
        self.lookup.as_ref().is_none_or(|own| own.is_known(to))
    }

    fn progress(&mut self, track: u32) -> Progress {
        self.path.as_mut().map(|path| path.progress(track)).unwrap_or_default()
    }

    fn set_progress(&mut self, track: u32, progress: &Progress) {
        self.path.iter_mut().for_each(|path| path.set_progress(track, progress));
    }

    fn reset_progress(&mut self, track: u32) {
        self.path.iter_mut().for_each(|path| path.reset_progress(track));
    }

    fn join(&mut self, track: u32, receiver: &Receiver) -> Option<u32> {
        let joined = self.path.as_mut()?.join(track, receiver);
        joined.inspect_err(|error| tracing::warn!("{} gets nothing: {error}", receiver.to)).ok()
    }

    fn set_member(&mut self, track: u32, member: u32, receiver: &Receiver) {
        if let Some(Err(error)) = self.path.as_mut().map(|path| path.set_member(track, member, receiver)) {
            tracing::warn!("{} gets what it no longer knows: {error}", receiver.to);
        }
    }

    fn takes_bare(&self) -> bool {
        self.path.as_ref().is_some_and(|path| path.takes_bare())
    }

    fn begin_recording(&mut self, track: u32, what: &Recorded<'_>) -> bool {
        self.recordings.as_mut().map(|own| own.begin(track, what)).is_some()
    }

    fn keeps_films(&self) -> bool {
        self.recordings.is_some()
    }

    fn expect_recording(&mut self, track: u32) {
        self.recordings.iter_mut().for_each(|own| own.expect(track));
    }

    fn confirm_film(&mut self, key: &str, expires: u64) {
        self.recordings.iter().for_each(|own| own.confirmed.note(key, expires));
    }

    fn forget_film(&mut self, key: &str) {
        self.recordings.iter().for_each(|own| own.forget(key));
    }

    fn wall(&mut self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    fn record(&mut self, track: u32, packet: &[u8]) {
        let clock = Duration::from_nanos(self.clock());
        self.recordings.iter_mut().for_each(|own| own.put(track, packet, clock));
    }

    fn end_recording(&mut self, track: u32) {
        let clock = Duration::from_nanos(self.clock());
        self.recordings.iter_mut().for_each(|own| own.end(track, clock));
    }

    fn take_broken_recordings(&mut self) -> Vec<u32> {
        self.recordings.as_mut().map_or_else(Vec::new, Recordings::take_broken)
    }

    fn recordings(&self) -> Option<(Counts, media_cache::Status)> {
        self.recordings.as_ref().map(|own| (own.counts(), own.cache().status()))
    }

    fn clock(&mut self) -> u64 {
        clock_gettime(ClockId::CLOCK_MONOTONIC)
            .map_or(0, |time| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
    }
}

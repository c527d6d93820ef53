//! The proxy's world: ports, counts, random numbers.

use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use std::sync::Arc;

use dataplane::controller::{Group, Table};
use nix::time::{ClockId, clock_gettime};
use routes::Lookup;

use super::datagrams::Datagrams;
use super::shared::WeakShared;
use crate::proxy::world::{Listening, World};
use crate::settings::Settings;
use crate::tables::{Progress, Receiver};

/// See the module.
#[derive(Debug)]
pub struct Live {
    random: File,
    pub(super) settings: Arc<Settings>,
    pub(super) datagrams: Datagrams,
    /// Of the program that runs.
    pub(super) progress: Option<Table<u32, Progress>>,
    pub(super) receivers: Option<Group<Receiver>>,
    pub(super) lookup: Option<Lookup>,
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
            progress: None,
            receivers: None,
            lookup: None,
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
        self.progress.as_ref().and_then(|table| table.get(&track)).unwrap_or_default()
    }

    fn set_progress(&mut self, track: u32, progress: &Progress) {
        // The table has a place for each track.
        self.progress.as_mut().into_iter().for_each(|table| _ = table.set(&track, progress));
    }

    fn reset_progress(&mut self, track: u32) {
        if let Some(table) = &mut self.progress {
            table.remove(&track);
        }
    }

    fn join(&mut self, track: u32, receiver: &Receiver) -> Option<u32> {
        let joined = self.receivers.as_ref()?.join(track, receiver);
        joined.inspect_err(|error| tracing::warn!("{} gets nothing: {error}", receiver.to)).ok()
    }

    fn set_member(&mut self, track: u32, member: u32, receiver: &Receiver) {
        if let Some(Err(error)) = self.receivers.as_ref().map(|group| group.set(track, member, receiver)) {
            tracing::warn!("{} gets what it no longer knows: {error}", receiver.to);
        }
    }

    fn clock(&mut self) -> u64 {
        clock_gettime(ClockId::CLOCK_MONOTONIC)
            .map_or(0, |time| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
    }
}

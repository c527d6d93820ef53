//! One worker's side of the rings to all controllers.

use std::sync::Arc;

use baker::ir::{ChannelId, DropId, Program, Target};

use super::rings::{Carried, Rings};

/// What a worker has of the controllers.
#[derive(Debug)]
pub(crate) struct Exchange {
    worker: usize,
    /// By controller: those by which this worker's packets go there.
    punts: Vec<Arc<Rings>>,
    /// All of all controllers: each may inject here.
    rings: Vec<Arc<Rings>>,
    /// Those that got packets since they were last woken.
    to_wake: Vec<bool>,
    /// Controller of each channel that leads to one.
    of_channel: Vec<Option<u32>>,
    /// The rings whose injected packets come next.
    next: usize,
}

impl Exchange {
    /// Of a worker, with the rings of each controller: one, or one for each worker.
    pub fn new(program: &Program, worker: usize, controllers: &[Vec<Arc<Rings>>]) -> Self {
        let controller = |channel: &baker::ir::Channel| match channel.target {
            Target::Controller(id) => Some(id.0),
            _ => None,
        };
        let of_channel = program.channels.iter().map(controller).collect();
        let own = |all: &Vec<Arc<Rings>>| all[if all.len() == 1 { 0 } else { worker }].clone();
        let punts: Vec<_> = controllers.iter().map(own).collect();
        let rings = controllers.iter().flatten().cloned().collect();
        Exchange { worker, to_wake: vec![false; punts.len()], punts, rings, of_channel, next: 0 }
    }

    /// Hands a packet to the controller that its channel leads to, or says why it is dropped.
    pub fn punt(&mut self, frame: u32, channel: ChannelId) -> Result<(), DropId> {
        let controller = self.of_channel.get(channel.0 as usize).copied().flatten();
        let controller = controller.ok_or(DropId::CONTROLLER_GONE)? as usize;
        self.punts[controller].punt(self.worker, Carried { frame, channel })?;
        self.to_wake[controller] = true;
        Ok(())
    }

    /// Wakes the controllers that got packets.
    pub fn wake(&mut self) {
        for (rings, to_wake) in self.punts.iter().zip(&mut self.to_wake) {
            if std::mem::take(to_wake) {
                rings.wake();
            }
        }
    }

    /// The next packet that a controller injects; the worker then owns its frame.
    pub fn take_injected(&mut self) -> Option<Carried> {
        for _ in 0..self.rings.len() {
            let index = self.next;
            self.next = (self.next + 1) % self.rings.len();
            if let Some(carried) = self.rings[index].take_injected(self.worker) {
                return Some(carried);
            }
        }
        None
    }

    /// Whether a packet waits to be run.
    pub fn has_injected(&self) -> bool {
        self.rings.iter().any(|rings| rings.has_injected(self.worker))
    }

    /// Whether nothing is under way between controllers and any worker.
    pub fn is_quiet(&self) -> bool {
        self.rings.iter().all(|rings| rings.is_quiet())
    }
}

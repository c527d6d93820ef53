//! Holders of the frames of an instance, for reports: where a sum does not come out, a frame is lost.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The frames of an instance, by holder. A frame that several hold counts once, for the first of them in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameHolders {
    /// All of them.
    pub total: u32,
    /// In the pool, for any worker.
    pub pool: u32,
    /// Free, of the workers.
    pub workers: u32,
    /// At the kernel, to receive into or to be sent.
    pub ports: u32,
    /// Of packets in hold tables.
    pub holds: u32,
    /// Of packets in queues.
    pub queues: u32,
    /// Of packets that wait for the members of groups.
    pub groups: u32,
    /// At controllers: packets on their way to them and from them, those that they hold, and free ones at hand.
    pub controllers: u32,
    /// All others: of packets that are under way between these. 0 where no packet passes, or frames are lost.
    pub passing: u32,
}

/// A kind of holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    Worker,
    Port,
    Hold,
    Queue,
    Group,
    Controller,
}

/// What holds frames.
pub(crate) trait Holds: Debug + Send + Sync {
    /// How many it holds that `seen` does not say others hold. Those that others may hold, too, are noted there.
    fn frames(&self, seen: &mut [bool]) -> u32;
}

/// All that holds frames.
#[derive(Debug, Default)]
pub(crate) struct Holders(Mutex<Vec<(Holder, Weak<dyn Holds>)>>);

impl Holders {
    /// Counts what something holds, as long as that is there.
    pub fn register(&self, holder: Holder, holds: &Arc<impl Holds + 'static>) {
        let holds: Weak<dyn Holds> = Arc::downgrade(&(holds.clone() as Arc<dyn Holds>));
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(_, holds)| holds.strong_count() > 0);
        all.push((holder, holds));
    }

    /// How many of so many frames each holder has now, of which so many are in the pool. What moves meanwhile may be
    /// missed, or counted twice.
    pub fn count(&self, total: u32, pool: u32) -> FrameHolders {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = FrameHolders { total, pool, ..FrameHolders::default() };
        let mut seen = vec![false; total as usize];
        for (holder, holds) in all.iter().filter_map(|(holder, holds)| Some((holder, holds.upgrade()?))) {
            let frames = holds.frames(&mut seen);
            *match holder {
                Holder::Worker => &mut found.workers,
                Holder::Port => &mut found.ports,
                Holder::Hold => &mut found.holds,
                Holder::Queue => &mut found.queues,
                Holder::Group => &mut found.groups,
                Holder::Controller => &mut found.controllers,
            } += frames;
        }
        let waiting = found.holds + found.queues + found.groups;
        let known = found.pool + found.workers + found.ports + waiting + found.controllers;
        found.passing = found.total.saturating_sub(known);
        found
    }
}

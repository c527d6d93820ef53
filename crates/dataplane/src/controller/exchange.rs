//! One worker's side of the rings to all controllers.

use std::sync::Arc;

use baker::ir::{Batch, ChannelId, DropId, Program, Target};

use super::rings::{Carried, Rings};
use crate::sys::monotonic_ns;

/// Packets that a controller was not woken for yet.
#[derive(Clone, Copy, Debug)]
struct Late {
    /// When it is, in nanoseconds ([`monotonic_ns`]).
    due: u64,
    /// How long each of them waits at least.
    within: u64,
}

/// What a worker has of the controllers.
#[derive(Debug)]
pub(crate) struct Exchange {
    worker: usize,
    /// By controller: those by which this worker's packets go there.
    punts: Vec<Arc<Rings>>,
    /// All of all controllers: each may inject here.
    rings: Vec<Arc<Rings>>,
    /// Those that are to be woken.
    to_wake: Vec<bool>,
    /// By controller: when it is woken at the latest for packets that it was not woken for.
    late: Vec<Option<Late>>,
    /// Controller of each channel that leads to one, and when that is woken if not for each packet.
    of_channel: Vec<Option<(u32, Option<Batch>)>>,
    /// The rings whose injected packets come next.
    next: usize,
}

impl Exchange {
    /// Of a worker, with the rings of each controller: one, or one for each worker.
    pub fn new(program: &Program, worker: usize, controllers: &[Vec<Arc<Rings>>]) -> Self {
        let controller = |channel: &baker::ir::Channel| match channel.target {
            Target::Controller(id) => Some((id.0, channel.batch)),
            _ => None,
        };
        let of_channel = program.channels.iter().map(controller).collect();
        let own = |all: &Vec<Arc<Rings>>| all[if all.len() == 1 { 0 } else { worker }].clone();
        let punts: Vec<_> = controllers.iter().map(own).collect();
        let rings = controllers.iter().flatten().cloned().collect();
        let (to_wake, late) = (vec![false; punts.len()], vec![None; punts.len()]);
        Exchange { worker, to_wake, late, punts, rings, of_channel, next: 0 }
    }

    /// Hands a packet to the controller that its channel leads to, or says why it is dropped. [`Exchange::wake`] and
    /// [`Exchange::work`] must follow.
    pub fn punt(&mut self, frame: u32, channel: ChannelId) -> Result<(), DropId> {
        self.punt_at(frame, channel, monotonic_ns)
    }

    fn punt_at(&mut self, frame: u32, channel: ChannelId, now: impl FnOnce() -> u64) -> Result<(), DropId> {
        let controller = self.of_channel.get(channel.0 as usize).copied().flatten();
        let (controller, batch) = controller.ok_or(DropId::CONTROLLER_GONE)?;
        let controller = controller as usize;
        let rings = &self.punts[controller];
        let punted = rings.punt(self.worker, Carried { frame, channel });
        match batch.filter(|batch| punted.is_ok() && !rings.is_called_for(self.worker, batch.packets)) {
            // Also where there was no place for it: who waits with all that there can be is woken.
            None => self.to_wake[controller] = true,
            Some(Batch { within, .. }) => {
                let late = &mut self.late[controller];
                if late.is_none_or(|late| within < late.within) {
                    let due = now().saturating_add(within);
                    *late = Some(Late { due: late.map_or(due, |late| late.due.min(due)), within });
                }
            }
        }
        punted
    }

    /// Wakes the controllers that got packets, but for those that can wait, and those that are lent.
    pub fn wake(&mut self) {
        for ((rings, late), to_wake) in self.punts.iter().zip(&mut self.late).zip(&mut self.to_wake) {
            if *to_wake && !rings.loan().is_there() {
                (*late, *to_wake) = (None, false);
                rings.wake();
            }
        }
    }

    /// Whether a controller got packets and was not woken.
    pub fn has_work(&self) -> bool {
        self.to_wake.contains(&true)
    }

    /// Has the controllers that got packets and are lent work on them, and wakes those that are not lent any more or
    /// have more to do than is to be done here.
    pub fn work(&mut self) {
        for ((rings, late), to_wake) in self.punts.iter().zip(&mut self.late).zip(&mut self.to_wake) {
            if !*to_wake {
                continue;
            }
            (*late, *to_wake) = (None, false);
            if !rings.work(self.worker) {
                rings.wake();
            }
        }
    }

    /// When a controller is to be woken at the latest, in nanoseconds.
    pub fn next_due(&self) -> Option<u64> {
        self.late.iter().filter_map(|late| Some(late.as_ref()?.due)).min()
    }

    /// Wakes the controllers whose time has come, where packets still lie there; whether there was one.
    pub fn wake_due(&mut self, now: u64) -> bool {
        let mut any = false;
        for (rings, late) in self.punts.iter().zip(&mut self.late) {
            if late.is_some_and(|late| late.due <= now) {
                *late = None;
                any = true;
                if rings.has_punted_of(self.worker) {
                    rings.wake();
                }
            }
        }
        any
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

/// Nobody else would wake them.
impl Drop for Exchange {
    fn drop(&mut self) {
        self.punts.iter().zip(&self.to_wake).filter(|(_, to_wake)| **to_wake).for_each(|(rings, _)| rings.wake());
        self.wake_due(u64::MAX);
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::time::Instant;

    use baker::ir::{Channel, ControllerId, ProtocolId};

    use super::*;
    use crate::controller::rings::Pinning;
    use crate::controller::signal::Sleeper;
    use crate::packets::{FrameConfig, FramePool};
    use crate::sys::{Doorbell, poll};
    use crate::testing::forward_program;

    const MS: u64 = 1_000_000;

    /// Two channels to one controller: each packet wakes it, or four do, or one that has waited for 5 ms.
    struct Rig {
        exchange: Exchange,
        rings: Arc<Rings>,
        sleeper: Sleeper,
        pool: Arc<FramePool>,
        now: u64,
    }

    const AT_ONCE: ChannelId = ChannelId(1);
    const BATCHED: ChannelId = ChannelId(2);
    const SOONER: ChannelId = ChannelId(3);

    impl Rig {
        fn new(frames: u32) -> Rig {
            let batch = |within| Some(Batch { packets: 4, within });
            let channel = |name: &str, batch| Channel {
                name: name.into(),
                from: None,
                protocol: ProtocolId(0),
                target: Target::Controller(ControllerId(0)),
                batch,
            };
            let mut program = (*forward_program()).clone();
            program.controllers = vec![baker::ir::Controller { name: "c".into() }];
            program.channels.truncate(1);
            program.channels.extend([channel("m.a", None), channel("m.b", batch(5 * MS)), channel("m.c", batch(MS))]);
            let program = Arc::new(program);
            let pool = Arc::new(FramePool::new(&program, FrameConfig::default()).unwrap());
            let doorbells = [Arc::new(Doorbell::new().unwrap())];
            let rings = Rings::new(program.clone(), pool.clone(), frames, &doorbells, Pinning::default()).unwrap();
            let rings = Arc::new(rings);
            let exchange = Exchange::new(&program, 0, &[vec![rings.clone()]]);
            Rig { exchange, sleeper: Sleeper::new(rings.signal().clone()), rings, pool, now: 7 * MS }
        }

        fn punt(&mut self, channel: ChannelId) -> Result<(), DropId> {
            let mut frame = [0];
            assert_eq!(self.pool.take(&mut frame), 1);
            let now = self.now;
            let result = self.exchange.punt_at(frame[0], channel, || now);
            self.exchange.wake();
            result
        }

        /// The kernel's word for it, as an event loop has it.
        fn is_woken(&self) -> bool {
            let fd = self.sleeper.fd();
            let mut wait = [libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 }];
            poll(&mut wait, std::time::Duration::ZERO);
            wait[0].revents & libc::POLLIN != 0
        }

        /// The controller takes what is there, and waits.
        fn takes(&mut self) -> usize {
            self.sleeper.disarm();
            let taken = std::iter::from_fn(|| self.rings.take_punted(0));
            let taken = taken.map(|carried| self.rings.release(0, carried.frame)).count();
            self.sleeper.arm();
            assert!(!self.rings.is_ready());
            taken
        }
    }

    #[test]
    fn a_batch_wakes_once_and_a_packet_waits_no_longer_than_it_may() {
        let mut rig = Rig::new(64);
        rig.takes();
        for _ in 0..3 {
            for _ in 0..3 {
                rig.punt(BATCHED).unwrap();
                assert!(!rig.is_woken());
            }
            assert_eq!(rig.exchange.next_due(), Some(rig.now + 5 * MS));
            rig.now += MS;
            rig.punt(BATCHED).unwrap();
            assert!(rig.is_woken() && rig.exchange.next_due().is_none());
            assert_eq!(rig.takes(), 4);
        }
        // The first one's time counts, and that of a channel in a greater hurry.
        rig.punt(BATCHED).unwrap();
        rig.now += 2 * MS;
        rig.punt(BATCHED).unwrap();
        let due = rig.now + 3 * MS;
        assert_eq!(rig.exchange.next_due(), Some(due));
        assert!(!rig.exchange.wake_due(due - 1) && !rig.is_woken());
        rig.punt(SOONER).unwrap();
        assert_eq!(rig.exchange.next_due(), Some(rig.now + MS));
        assert!(rig.exchange.wake_due(rig.now + MS) && rig.is_woken());
        assert_eq!((rig.takes(), rig.exchange.next_due()), (3, None));
        // What has come by itself needs nobody to wake for.
        rig.punt(BATCHED).unwrap();
        assert_eq!(rig.takes(), 1);
        assert!(rig.exchange.wake_due(u64::MAX) && !rig.is_woken());
        // One without a batch takes the others along.
        rig.punt(BATCHED).unwrap();
        rig.punt(AT_ONCE).unwrap();
        assert!(rig.is_woken() && rig.exchange.next_due().is_none());
        assert_eq!(rig.takes(), 2);
    }

    #[test]
    fn small_rings_wake_sooner_and_so_does_the_end() {
        // Three of them may be on their way.
        let mut rig = Rig::new(6);
        rig.takes();
        rig.punt(BATCHED).unwrap();
        assert!(rig.is_woken(), "half of them");
        rig.sleeper.disarm();
        (0..2).for_each(|_| rig.punt(BATCHED).unwrap());
        rig.sleeper.arm();
        assert_eq!(rig.punt(BATCHED), Err(DropId::CONTROLLER_BUSY));
        assert!(rig.is_woken(), "there is no place for more");
        let mut rig = Rig::new(64);
        rig.takes();
        rig.punt(BATCHED).unwrap();
        let (rings, began) = (rig.rings.clone(), Instant::now());
        let sleeper = rig.sleeper;
        drop(rig.exchange);
        sleeper.wait(Some(began + std::time::Duration::from_secs(20)));
        assert!(rings.has_punted() && began.elapsed().as_secs() < 20);
    }
}

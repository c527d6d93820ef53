//! Counters by name, for all but the workers that write them: what workers, the kernel's part of the program,
//! interfaces and controllers have counted is summed up at each query.
//!
//! Imports run from here to `program` and `port`, and from there to `snapshot`. Workers do not know that they are
//! observed.

mod port;
mod program;
mod snapshot;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use baker::ir::{DropId, Program};

use crate::capture::Capture;
use crate::controller::{ControllerSnapshot, Roster};
use crate::counters::{CounterBlock, WorkerCounters};
use crate::packets::{FrameHolders, FramePool};
use crate::sampling::Samples;
use crate::xdp::{Copies, FastPath, Front, Progress};

pub(crate) use port::ObservedPort;
use program::Before;
pub(crate) use program::Observed;
pub use snapshot::{LookUpSnapshot, PortSnapshot, Snapshot, TimeSnapshot, TimerSnapshot, WorkerSnapshot};

/// Reads an instance's counters from any thread, while it runs and after. It follows the instance from program to
/// program.
#[derive(Clone, Debug)]
pub struct Observer {
    ports: Arc<Vec<ObservedPort>>,
    workers: Arc<Vec<Arc<WorkerCounters>>>,
    fast_path: Option<Arc<FastPath>>,
    frames: Option<Arc<FramePool>>,
    controllers: Roster,
    capture: Arc<Capture>,
    samples: Arc<Samples>,
    now: Arc<Mutex<Arc<Observed>>>,
}

impl Observer {
    pub(crate) fn new(
        observed: Observed,
        (ports, workers): (Vec<ObservedPort>, Vec<Arc<WorkerCounters>>),
        fast_path: Option<Arc<FastPath>>,
        frames: Option<Arc<FramePool>>,
    ) -> Self {
        let (controllers, now) = (Roster::default(), Arc::new(Mutex::new(Arc::new(observed))));
        let (ports, workers) = (Arc::new(ports), Arc::new(workers));
        let (capture, samples) = Default::default();
        Observer { ports, workers, fast_path, frames, controllers, capture, samples, now }
    }

    /// Of a worker without ports.
    pub(crate) fn of_block(program: &Arc<Program>, block: Arc<CounterBlock>) -> Self {
        let observed = Observed {
            program: program.clone(),
            blocks: vec![block],
            kernel: None,
            externs: None,
            before: Mutex::default(),
        };
        Observer::new(observed, Default::default(), None, None)
    }

    /// A program takes over from the one that is there, which may still have packets to finish.
    pub(crate) fn take_over(&self, observed: Observed) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        *observed.before.lock().unwrap_or_else(PoisonError::into_inner) = Before::Finishing(now.clone());
        *now = Arc::new(observed);
    }

    /// It has no more.
    pub(crate) fn finished(&self) {
        self.now().finished();
    }

    /// What counts for the program that runs.
    pub(crate) fn now(&self) -> Arc<Observed> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The latest error of each port that has one, by name.
    pub fn port_errors(&self) -> Vec<(String, String)> {
        self.ports.iter().filter_map(|port| Some((port.name.clone(), port.error()?))).collect()
    }

    /// Each port's name, why packets that came in there could not be finished, and how many were longer than a frame.
    pub fn misshapen(&self) -> impl Iterator<Item = (&str, Vec<&'static str>, u64)> {
        self.ports.iter().map(|port| {
            let reasons = port.unfinished().into_iter().map(|(why, _)| why).collect();
            let oversize = port.counters.iter().map(|worker| worker.oversize.load(Ordering::Relaxed)).sum();
            (&*port.name, reasons, oversize)
        })
    }

    /// Where copies go of packets that come in.
    pub fn capture(&self) -> &Arc<Capture> {
        &self.capture
    }

    /// How far the program is in the kernel; `None` where no packets come to a part of it there.
    pub fn progress(&self) -> Option<Progress> {
        self.fast_path.as_ref().filter(|path| path.has_ports()).map(|path| path.progress())
    }

    /// Where samples go of packets that come in.
    pub fn samples(&self) -> &Arc<Samples> {
        &self.samples
    }

    /// Has packets copied that come in where the program's part in the kernel is, for as long as the result is there:
    /// workers do not see them all, and copy none of them. `None` where none of it runs in the kernel.
    pub fn copies_in_kernel(&self, copies: Copies) -> std::io::Result<Option<Front>> {
        let path = self.fast_path.as_ref().filter(|path| path.has_ports());
        path.map(|path| Front::put(path, copies)).transpose()
    }

    /// Where controllers are known that are started.
    pub(crate) fn roster(&self) -> Roster {
        self.controllers.clone()
    }

    /// The controllers that there are.
    pub fn controllers(&self) -> Vec<ControllerSnapshot> {
        self.controllers.snapshot()
    }

    /// Holders of the instance's frames.
    pub fn frames(&self) -> FrameHolders {
        self.frames.as_ref().map_or(FrameHolders::default(), |pool| pool.held())
    }

    /// How long packets were in PPFs since that is measured; empty where it is not.
    pub fn times(&self) -> Vec<TimeSnapshot> {
        self.now().times()
    }

    /// Look-ups in tables since that is measured, arrays left out; empty where it is not.
    pub fn look_ups(&self) -> Vec<LookUpSnapshot> {
        self.now().look_ups()
    }

    /// The counters now. What is no more counted is left out.
    pub fn snapshot(&self) -> Snapshot {
        let kernel = self.fast_path.as_ref().map(|path| path.part());
        let failed = |port: u8| kernel.as_ref().map_or(0, |part| part.failed(port));
        let mut snapshot = self.now().snapshot();
        let (ports, unsent): (Vec<_>, Vec<u64>) =
            self.ports.iter().map(|port| port.snapshot(failed(port.number))).unzip();
        let unsent: u64 = unsent.iter().sum();
        if let Some((_, drops)) = snapshot.drops.get_mut(DropId::TX_FAILED.0 as usize) {
            *drops = drops.wrapping_add(unsent);
        }
        snapshot.controllers = self.controllers();
        snapshot.ports = ports;
        snapshot.workers = self.workers.iter().map(|worker| WorkerSnapshot::of(worker)).collect();
        snapshot
    }
}

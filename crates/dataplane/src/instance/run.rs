//! A running instance.

use std::sync::Arc;
use std::time::Duration;

use baker::ir::{CounterSlots, DropId, Program};

use super::mtus::Mtus;
use super::site::Site;
use super::sweep::Sweeper;
use super::worker_pool::WorkerPool;
use crate::controller::Controllers;
use crate::counters::CounterBlock;
use crate::engine::TableAccess;
use crate::externs::ExternTable;
use crate::observer::{Observer, Snapshot};
use crate::workers::{FINISH, STOP};

/// A running instance. Dropping it stops it.
#[derive(Debug)]
pub struct Instance {
    // Ended in this order.
    pub(super) controllers: Controllers,
    pub(super) worker_pool: WorkerPool,
    pub(super) site: Site,
    /// What runs on workers.
    pub(super) program: Arc<Program>,
    pub(super) externs: Option<Arc<ExternTable>>,
    /// Counts what is dropped when both have ended.
    pub(super) end_counters: Arc<CounterBlock>,
    pub(super) tables: TableAccess,
    pub(super) observer: Observer,
    pub(super) sweeper: Option<Sweeper>,
    pub(super) mtus: Option<Mtus>,
}

/// What an instance did.
#[derive(Clone, Debug)]
pub struct Report {
    /// Its counters at the end.
    pub snapshot: Snapshot,
    /// What went wrong at its ports, one line each.
    pub errors: Vec<String>,
    /// Number of frames.
    pub frames: u32,
    /// Frames that are back in the pool: all of them, or there is a fault in an engine.
    pub free_frames: u32,
}

impl Instance {
    /// The tables, to be read and changed while packets are processed.
    pub fn tables(&self) -> TableAccess {
        self.tables.clone()
    }

    /// What runs on workers.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// The controllers that run, by name.
    pub fn controllers(&self) -> impl Iterator<Item = &str> {
        self.controllers.names()
    }

    /// The counters now.
    pub fn snapshot(&self) -> Snapshot {
        self.observer.snapshot()
    }

    /// Reads the counters from other threads.
    pub fn observer(&self) -> Observer {
        self.observer.clone()
    }

    /// Whether all workers still run; one ends by itself only after [`Instance::wait`] or a fault.
    pub fn is_running(&self) -> bool {
        self.worker_pool.is_running()
    }

    /// For how long the worker that was seen least recently has not been seen. That is a fraction of a second, or
    /// something is wrong.
    pub fn unseen(&self) -> Duration {
        self.site.handovers.iter().map(|handover| handover.unseen()).max().unwrap_or_default()
    }

    /// Processes what the ports hold already, stops, and waits for that.
    pub fn stop(mut self) -> Report {
        self.end(STOP)
    }

    /// Waits until every port has finished, as capture files and generators do, and stops. A network interface never
    /// finishes.
    pub fn wait(mut self) -> Report {
        self.end(FINISH)
    }

    fn end(&mut self, how: u8) -> Report {
        // Controllers end before the workers that run what they inject, and before the program leaves the kernel: so
        // what they still say is said, and answered, as before. But they are needed until the ports have finished.
        let finished = if how == FINISH {
            self.site.fast_path.iter().for_each(|path| path.stop());
            self.worker_pool.end(FINISH)
        } else {
            Vec::new()
        };
        self.controllers.stop();
        // What it has handed over by then workers finish.
        if how == STOP {
            let keeps = self.controllers.keeps_kernel();
            self.site.fast_path.iter().for_each(|path| if keeps { path.leave() } else { path.stop() });
        }
        let mut errors = self.worker_pool.end(STOP);
        errors.extend(finished);
        let (dropped, failed) = self.controllers.finish();
        let slots = CounterSlots::new(&self.program);
        self.end_counters.add(slots.drop(DropId::CONTROLLER_GONE), dropped);
        errors.extend(failed);
        // What is held is not asked for any more.
        self.tables.native().iter().for_each(|tables| tables.clear_holds());
        let pool = &self.site.pool;
        Report { snapshot: self.snapshot(), errors, frames: pool.count(), free_frames: pool.free_frames() }
    }
}

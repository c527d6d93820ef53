//! The worker pool of an instance: each pinned to a CPU of its own, all started and ended together.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use super::error::StartError;
use super::options::MAX_WORKERS;
use crate::sys;
use crate::workers::{RUN, STOP, Worker};

/// The CPU of each worker: those given, or the first that this process may use. A single worker for which none is given
/// runs where the kernel has it.
pub fn cpus(workers: usize, given: &[usize]) -> Result<Vec<Option<usize>>, StartError> {
    if workers == 0 || workers > MAX_WORKERS {
        return Err(StartError::Workers(workers));
    }
    if let Some((_, twice)) = given.iter().enumerate().find(|(index, cpu)| given[..*index].contains(cpu)) {
        return Err(StartError::CpuTwice(*twice));
    }
    if !given.is_empty() && given.len() != workers {
        return Err(StartError::Cpus { workers, cpus: given.len() });
    }
    if !given.is_empty() {
        return Ok(given.iter().copied().map(Some).collect());
    }
    if workers == 1 {
        return Ok(vec![None]);
    }
    let allowed = sys::allowed_cpus()?;
    if allowed.len() < workers {
        return Err(StartError::FewCpus { workers, cpus: allowed.len() });
    }
    Ok(allowed.into_iter().take(workers).map(Some).collect())
}

/// Running workers. They run until [`WorkerPool::end`].
#[derive(Debug)]
pub struct WorkerPool {
    control: Arc<AtomicU8>,
    threads: Vec<JoinHandle<Vec<String>>>,
}

impl WorkerPool {
    /// Starts the workers, each on its CPU. None processes a packet before all are in their places.
    pub fn start(workers: Vec<(Worker, Option<usize>)>) -> Result<WorkerPool, StartError> {
        let control = Arc::new(AtomicU8::new(RUN));
        let mut worker_pool = WorkerPool { control, threads: Vec::new() };
        let mut places = Vec::new();
        for (index, (worker, cpu)) in workers.into_iter().enumerate() {
            let (placed, result) = mpsc::channel();
            let (go, may_go) = mpsc::channel::<()>();
            let control = worker_pool.control.clone();
            let thread = thread::Builder::new().name(format!("worker-{index}")).spawn(move || {
                // The other side waits for exactly this message.
                let _ = placed.send(cpu.map_or(Ok(()), sys::pin_to_cpu));
                // Where one has no place none goes.
                if may_go.recv().is_ok() { worker.run(&control) } else { Vec::new() }
            })?;
            worker_pool.threads.push(thread);
            places.push((cpu, result, go));
        }
        for (cpu, result, _) in &places {
            let placed = result.recv().unwrap_or_else(|_| Err(io::Error::other("the worker's thread ended")));
            placed.map_err(|error| StartError::Cpu(cpu.unwrap_or(0), error))?;
        }
        for (.., go) in &places {
            // A thread that is gone is found when the pool is stopped.
            let _ = go.send(());
        }
        Ok(worker_pool)
    }

    /// Whether all workers still run. None ends by itself but for a fault.
    pub fn is_running(&self) -> bool {
        !self.threads.is_empty() && !self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Tells the workers to end and waits for that; what went wrong, one line each.
    pub fn end(&mut self, how: u8) -> Vec<String> {
        self.control.store(how, Ordering::Relaxed);
        let mut errors = Vec::new();
        for thread in self.threads.drain(..) {
            match thread.join() {
                Ok(found) => errors.extend(found),
                Err(panic) => {
                    // Its ports never finish any more.
                    self.control.store(STOP, Ordering::Relaxed);
                    errors.push(format!("internal error: a worker failed: {}", sys::panic_text(&*panic)));
                }
            }
        }
        // What happens to a port all its workers tell.
        let mut told = std::collections::HashSet::new();
        errors.retain(|error| told.insert(error.clone()));
        errors
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        self.end(STOP);
    }
}

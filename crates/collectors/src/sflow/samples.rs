//! Samples as they come: from workers, and from where the program's part in the kernel is.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dataplane::Observer;
use dataplane::sampling::{Sample, Samples};
use dataplane::xdp::{Copies, Front};

/// Between two attempts to be in front of the kernel's part.
const RETRY: Duration = Duration::from_secs(10);

/// Where they come from. They end with it.
pub struct Source {
    observer: Observer,
    workers: Arc<Samples>,
    copies: Copies,
    kernel: Option<Front>,
    /// When the kernel was asked last.
    asked: Option<Instant>,
    /// What fronts that are gone have lost.
    lost: u64,
    /// Why the kernel gives none.
    pub error: Option<String>,
}

impl Source {
    /// One of so many packets, and so many bytes of each.
    pub fn new(observer: &Observer, copies: Copies) -> Source {
        let workers = observer.samples().clone();
        workers.set(copies.one_in);
        let (observer, lost) = (observer.clone(), workers.lost());
        Source { observer, workers, copies, kernel: None, asked: None, lost: 0u64.wrapping_sub(lost), error: None }
    }

    /// Gives what has come, in no order.
    pub fn take(&mut self, mut take: impl FnMut(Sample)) {
        while let Some(sample) = self.workers.take() {
            take(sample);
        }
        self.see_to_kernel();
        if let Some(front) = &self.kernel {
            front.take(|own| {
                take(Sample::new(own.port, own.length, own.bytes));
                true
            });
        }
    }

    /// Samples for which there was no room.
    pub fn lost(&self) -> u64 {
        let kernel = self.kernel.as_ref().map_or(0, Front::lost);
        self.lost.wrapping_add(kernel).wrapping_add(self.workers.lost())
    }

    /// What runs in the kernel may have nothing in front yet, or no more.
    fn see_to_kernel(&mut self) {
        if self.kernel.as_ref().is_some_and(Front::is_there) || self.asked.is_some_and(|at| at.elapsed() < RETRY) {
            return;
        }
        self.asked = Some(Instant::now());
        if let Some(gone) = self.kernel.take() {
            self.lost = self.lost.wrapping_add(gone.lost());
        }
        match self.observer.copies_in_kernel(self.copies) {
            Ok(front) => (self.kernel, self.error) = (front, None),
            Err(error) => {
                let told = error.to_string();
                if self.error.as_ref() != Some(&told) {
                    tracing::warn!("packets that the kernel finishes are not sampled: {told}");
                }
                self.error = Some(told);
            }
        }
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.workers.set(0);
    }
}

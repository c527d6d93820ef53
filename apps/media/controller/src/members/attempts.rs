//! Attempts to reach those who know members, and the pauses between them.

use std::time::Duration;

use tokio::time::Instant;

use crate::proxy::pause;

/// The first pause, and the longest one.
pub(super) const PAUSES: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(15)];
/// What has gone well for so long is no attempt in vain.
const STEADY: Duration = Duration::from_secs(10);

/// How attempts have gone.
#[derive(Debug)]
pub(super) struct Attempts {
    begun: Instant,
    in_vain: u32,
}

impl Attempts {
    /// The first one begins.
    pub(super) fn new() -> Attempts {
        Attempts { begun: Instant::now(), in_vain: 0 }
    }

    /// Another one begins.
    pub(super) fn begin(&mut self) {
        self.begun = Instant::now();
    }

    /// It has ended; whether it had gone well for long, so that none was in vain.
    pub(super) fn end(&mut self) -> bool {
        let is_steady = self.begun.elapsed() >= STEADY;
        if is_steady {
            self.in_vain = 0;
        }
        is_steady
    }

    /// It was in vain: the pause until the next one, `longest` at most. All of so many endpoints are tried before the
    /// pause grows.
    pub(super) fn pause(&mut self, endpoints: usize, longest: Duration) -> Duration {
        let pause = pause::after(self.in_vain / endpoints as u32, PAUSES[0], longest);
        self.in_vain += 1;
        pause
    }
}

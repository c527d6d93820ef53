//! Programs in the kernel among the readers of tables: they announce nothing, so what they may still hold is waited for by the
//! kernel's own read-copy update. One of its grace periods passes before a map inside of a map is replaced
//! (`maybe_wait_bpf_programs` of the kernel, "bpf: Wait for running BPF programs when updating map-in-map").

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::sys::{self, MapType};
use crate::tables::Tables;

/// Between two looks for something to wait for.
const PAUSE: Duration = Duration::from_millis(5);

/// A way to wait until every program in the kernel that ran when the wait began has ended.
#[derive(Debug)]
struct Barrier {
    inner: OwnedFd,
    outer: OwnedFd,
}

impl Barrier {
    fn new() -> io::Result<Self> {
        let inner = sys::map_create(MapType::Array, 4, 1, 0, "grace")?;
        let outer = sys::map_of_maps(&inner, "grace")?;
        Ok(Barrier { inner, outer })
    }

    fn wait(&self) -> io::Result<()> {
        sys::map_update(&self.outer, 0, sys::number(&self.inner) as u32)
    }
}

/// A thread that announces what the kernel has let go of, for as long as this is there. No program may begin to run when it is
/// dropped.
#[derive(Debug)]
pub struct Grace {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Grace {
    /// To be started before a program in the kernel reads the tables.
    pub fn start(tables: Arc<Tables>) -> io::Result<Grace> {
        let barrier = Barrier::new()?;
        let too_many = || io::Error::other("the tables have as many workers as they can have");
        let kernel = tables.epochs().register().ok_or_else(too_many)?;
        kernel.announce(kernel.now());
        let (stop, stopped) = channel::<()>();
        let thread = std::thread::Builder::new().name("grace".into()).spawn(move || {
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(PAUSE) {
                let now = kernel.now();
                // What cannot be waited for is not announced, and so not reused.
                if kernel.is_behind(now) && barrier.wait().is_ok() {
                    kernel.announce(now);
                    tables.reclaim();
                }
            }
            // What ran when the end was told ends before this place does.
            let _ = barrier.wait();
        })?;
        Ok(Grace { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Grace {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // It has nothing to say.
            let _ = thread.join();
        }
    }
}

//! Programs in the kernel among the readers of tables: they announce nothing, so what they may still hold is waited for
//! by the kernel's own read-copy update. One of its grace periods passes before a map inside of a map is replaced
//! (`maybe_wait_bpf_programs` of the kernel, "bpf: Wait for running BPF programs when updating map-in-map").

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use super::sys::{self, MapType};
use crate::sys::Repeated;
use crate::tables::{Registration, Tables};

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

/// What the kernel's programs are among the readers of tables.
struct Reader {
    place: Registration,
    barrier: Barrier,
    tables: Arc<Tables>,
}

impl Reader {
    /// Announces what the kernel has let go of since the last time.
    fn catch_up(&self) {
        let now = self.place.now();
        // What cannot be waited for is not announced, and so not reused.
        if self.place.is_behind(now) && self.barrier.wait().is_ok() {
            self.place.announce(now);
            self.tables.reclaim();
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // What ran when the end was told ends before this place does.
        let _ = self.barrier.wait();
    }
}

/// A thread that announces what the kernel has let go of, for as long as this is there. No program may begin to run
/// when it is dropped.
#[derive(Debug)]
pub struct Grace {
    _thread: Repeated,
}

impl Grace {
    /// To be started before a program in the kernel reads the tables.
    pub fn start(tables: Arc<Tables>) -> io::Result<Grace> {
        let barrier = Barrier::new()?;
        let too_many = || io::Error::other("the tables have as many workers as they can have");
        let place = tables.epochs().register().ok_or_else(too_many)?;
        place.announce(place.now());
        let reader = Reader { place, barrier, tables };
        Ok(Grace { _thread: Repeated::start("grace", PAUSE, move || reader.catch_up())? })
    }
}

//! The threads of an open cache. They end with its last user.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread::JoinHandle;

use crate::inner::Inner;
use crate::keeper::Event;
use crate::writer::{Counts, Queue};

/// A cache with its threads.
pub struct Core {
    /// What threads and users share.
    pub inner: Arc<Inner>,
    /// The way to the writer.
    pub queue: Queue,
    /// What the writer has done.
    pub counts: Arc<Counts>,
    /// How the writer writes.
    pub system: String,
    /// Recordings begun.
    pub recordings: AtomicU64,
    pub(crate) writer: Option<JoinHandle<()>>,
    pub(crate) keeper: Option<JoinHandle<()>>,
    /// The directory, locked.
    pub(crate) _lock: File,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").field("root", &self.inner.layout.root).finish_non_exhaustive()
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // All recorders have ended theirs. First what is in memory is written, then the catalogue knows of it.
        self.queue.stop();
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
        self.inner.tell(Event::Stop);
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
    }
}

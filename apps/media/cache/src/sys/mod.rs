//! What is asked of the system by the writer: few calls, behind a trait so that tests can fail each of them.

mod plain;
mod ring;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::eventfd::EventFd;

use crate::blocks::{Block, Place};

pub use plain::Plain;
pub use ring::Ring;

/// Something that is done while the writer does other things.
#[derive(Debug)]
pub enum Operation {
    /// Writes the first bytes of a block.
    Block {
        /// The file.
        file: Arc<File>,
        /// Where in the file.
        offset: u64,
        /// What to write.
        block: Block,
        /// How much of it.
        length: usize,
        /// Whether it is on the disk when it is done.
        durable: bool,
    },
    /// Writes bytes.
    Bytes {
        /// The file.
        file: Arc<File>,
        /// Where in the file.
        offset: u64,
        /// What to write.
        bytes: Vec<u8>,
        /// Whether it is on the disk when it is done.
        durable: bool,
    },
    /// Waits until a file, or what a directory has, is on the disk.
    Sync {
        /// The file or directory.
        file: Arc<File>,
    },
}

/// An operation has ended: all of it is done, or it has failed.
#[derive(Debug)]
pub struct Completion {
    /// What the operation was submitted with.
    pub token: u64,
    /// How it went.
    pub result: io::Result<()>,
}

/// The system as the writer sees it.
pub trait System: Send {
    /// How it writes, for people.
    fn name(&self) -> String;

    /// Makes a directory, with those above it.
    fn make_directory(&mut self, path: &Path) -> io::Result<()> {
        std::fs::create_dir_all(path)
    }

    /// Makes a small file with these contents, whole or not at all.
    fn write_whole(&mut self, path: &Path, contents: &[u8]) -> io::Result<()> {
        let beside = path.with_extension("new");
        std::fs::write(&beside, contents)?;
        File::open(&beside)?.sync_all()?;
        std::fs::rename(&beside, path)
    }

    /// Makes a file; whether it is written past the page cache, where that is wanted.
    fn create(&mut self, path: &Path, direct: bool) -> io::Result<(File, bool)> {
        create(path, direct)
    }

    /// Begins an operation.
    fn submit(&mut self, token: u64, operation: Operation);

    /// Waits until an operation has ended, or somebody writes to `wake`, or the time is over; adds what has ended.
    fn wait(&mut self, wake: &EventFd, timeout: Duration, done: &mut Vec<Completion>) -> io::Result<()>;

    /// Cuts a file.
    fn truncate(&mut self, file: &File, length: u64) -> io::Result<()> {
        file.set_len(length)
    }
}

/// Makes a file, open for writing.
fn create(path: &Path, direct: bool) -> io::Result<(File, bool)> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o640);
    if direct {
        match options.clone().custom_flags(libc::O_DIRECT).open(path) {
            // The file system has no such thing.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            opened => return opened.map(|file| (file, true)),
        }
    }
    options.open(path).map(|file| (file, false))
}

/// The best that the kernel lets us have, and why it is not io_uring.
pub fn best(places: &[Place], io_uring: bool) -> Box<dyn System> {
    if !io_uring {
        return Box::new(Plain::default());
    }
    match Ring::new(places) {
        Ok(ring) => Box::new(ring),
        Err(error) => {
            tracing::warn!(%error, "the cache is written without io_uring, which the kernel refuses");
            Box::new(Plain::default())
        }
    }
}

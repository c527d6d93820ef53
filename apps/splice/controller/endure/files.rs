//! More open files than one process may have: the limit is one of each table of files, and a thread may have a table of
//! its own.

use std::fs;
use std::os::fd::RawFd;

use nix::sched::{CloneFlags, unshare};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::close;

/// Has this thread, and those that it starts, use a table of files of their own, with the standard ones and `kept` of
/// those that were open.
pub fn own_table(kept: Option<RawFd>) {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
    unshare(CloneFlags::CLONE_FILES).unwrap();
    // It begins as a copy, in which other tests' connections would stay open that they have closed.
    let open = fs::read_dir("/proc/thread-self/fd").unwrap().map(|file| file.unwrap().file_name());
    let open: Vec<RawFd> = open.map(|name| name.to_str().unwrap().parse().unwrap()).collect();
    // That of the list itself is closed already.
    open.into_iter().filter(|fd| *fd > 2 && Some(*fd) != kept).for_each(|fd| _ = close(fd));
}

/// How many files a thread may open in a table of its own: a quarter is for what is open already, and for uneven
/// shares.
pub fn room() -> usize {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    usize::try_from(most).unwrap() / 4 * 3
}

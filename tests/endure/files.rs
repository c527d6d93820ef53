//! More open files than one process may have: the limit is one of each table of files, and a thread may have a table of its own.

use nix::sched::{CloneFlags, unshare};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Has this thread use a copy of the table of files: what others open from now on it does not see, nor they what it opens.
pub fn own_table() {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
    unshare(CloneFlags::CLONE_FILES).unwrap();
}

/// How many files a thread may open in a table of its own: a quarter is for what is open already, and for uneven shares.
pub fn room() -> usize {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    usize::try_from(most).unwrap() / 4 * 3
}

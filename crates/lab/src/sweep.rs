//! Kills what is left in namespaces, wherever it came from.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::thread;
use std::time::Duration;

use crate::sys;

/// Rounds over all processes: a process may start another while they are looked through.
const ROUNDS: usize = 100;
const PAUSE: Duration = Duration::from_millis(5);

/// Kills all processes whose network namespace is one of these (see [`crate::Namespace::inode`]), except this one,
/// until there are none; how many there were.
///
/// For after the end of a lab: the kernel kills only what the lab itself started, and not what that started in turn.
pub fn sweep(namespaces: &[u64]) -> usize {
    let mut killed = 0;
    for _ in 0..ROUNDS {
        let found = round(namespaces);
        if found == 0 {
            break;
        }
        killed += found;
        thread::sleep(PAUSE);
    }
    killed
}

fn round(namespaces: &[u64]) -> usize {
    let Ok(entries) = fs::read_dir("/proc") else { return 0 };
    let processes = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let own = std::process::id().cast_signed();
    let inside = |process: i32| {
        // The first look may be at a process that has ended since; the second is at the one that the descriptor means.
        let is_there =
            || fs::metadata(format!("/proc/{process}/ns/net")).is_ok_and(|ns| namespaces.contains(&ns.ino()));
        if process == own || !is_there() {
            return false;
        }
        let Ok(fd) = sys::pidfd(process) else { return false };
        is_there() && sys::kill_pidfd(fd.as_fd()).is_ok()
    };
    processes.filter(|&process| inside(process)).count()
}

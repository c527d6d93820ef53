//! Labs without root: a user namespace in which this process may do as it likes with networks.

use std::fs;

use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid};

use crate::error::{Error, Result};

/// CAP_NET_ADMIN and CAP_SYS_ADMIN, as bits of `CapEff` (linux/capability.h).
const NEEDED: u64 = 1 << 12 | 1 << 21;

/// Whether this process may create namespaces and configure networks in them: it is root, or root of its own user
/// namespace (as under `unshare --user --map-root-user`).
pub fn has_privileges() -> Result<bool> {
    let status = fs::read_to_string("/proc/thread-self/status")
        .map_err(|e| Error::system("cannot read /proc/thread-self/status", e))?;
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .ok_or_else(|| Error::Invalid("/proc/thread-self/status holds no CapEff".to_owned()))?;
    Ok(effective & NEEDED == NEEDED)
}

/// Moves this process into a new user namespace, as its root, and into a new network namespace of that.
///
/// Call it first in `main`: the kernel refuses (EINVAL) once the process has a second thread. Afterwards labs work,
/// raw sockets too, but loading BPF programs does not, and the machine's own network is out of reach.
pub fn enter_user_namespace() -> Result<()> {
    let (user, group) = (geteuid(), getegid());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET)
        .map_err(|e| Error::Namespace { kind: "user", source: e.into() })?;
    // user_namespaces(7): setgroups must be denied before an unprivileged process may write its group map.
    for (file, text) in [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("0 {user} 1")),
        ("/proc/self/gid_map", format!("0 {group} 1")),
    ] {
        fs::write(file, text).map_err(|e| Error::system(format!("cannot write {file}"), e))?;
    }
    Ok(())
}

//! Labs without root: a user namespace in which this process may do as it likes with networks.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::sched::{CloneFlags, setns, unshare};
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

/// Moves this process into the network namespace at `path`, which a lab in process `lab` holds
/// ([`crate::Namespace::path`]); before that into that process's user namespace, if it has one of its own.
///
/// Call it first in `main`, as [`enter_user_namespace`].
pub fn enter_namespace_of(lab: u32, path: &Path) -> Result<()> {
    let open = |path: &Path| {
        let opened = File::open(path).and_then(|file| file.metadata().map(|metadata| (metadata.ino(), file)));
        opened.map_err(|e| Error::system(format!("cannot open {}", path.display()), e))
    };
    let enter = |file: &File, kind: CloneFlags, what: &str| {
        setns(file, kind).map_err(|e| Error::system(format!("cannot enter the lab's {what} namespace"), e))
    };
    let (own, _) = open(Path::new("/proc/self/ns/user"))?;
    let (user, file) = open(Path::new(&format!("/proc/{lab}/ns/user")))?;
    // Opened before: from inside the user namespace this process's files are not to be seen by all.
    let (_, network) = open(path)?;
    if user != own {
        enter(&file, CloneFlags::CLONE_NEWUSER, "user")?;
    }
    enter(&network, CloneFlags::CLONE_NEWNET, "network")
}

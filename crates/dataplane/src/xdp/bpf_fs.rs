//! The machine's BPF file system, where what is named outlasts the process that has named it.
//!
//! It is mounted at `/sys/fs/bpf`, by a service manager or else by the first process that needs it. In a mount
//! namespace of its own a process sees that mount where it was there before the namespace (a service with
//! `ProtectSystem=`), or it does not (`ip netns exec` mounts `/sys` anew). What is mounted there then would end with
//! the namespace. So the host's is taken, which is that of the first process's mount namespace, by way of
//! `/proc/1/root`; that takes as many rights as the first process has. A service with a user of its own has Millrace's
//! part of it alone, mounted in its place.

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::sys;

const OWN: &str = "/sys/fs/bpf";
/// Millrace's part of it.
pub const OURS: &str = "millrace";
/// The root directory of the host, and its mount namespace.
pub const HOST_ROOT: &str = "/proc/1/root";
const HOST_NAMESPACE: &str = "/proc/1/ns/mnt";

/// Where it is reached.
#[derive(Debug)]
pub struct BpfFs {
    pub path: PathBuf,
    /// It had to be mounted where, as far as can be seen, only this mount namespace has it.
    pub may_be_private: bool,
}

/// Finds it, and mounts it where there is none.
pub fn find() -> io::Result<BpfFs> {
    let own = Path::new(OWN);
    if !is_one(own) && is_one(&own.join(OURS)) {
        return Ok(BpfFs { path: own.to_owned(), may_be_private: false });
    }
    match is_hosts_namespace() {
        Some(true) => mount(own).map(|()| BpfFs { path: own.to_owned(), may_be_private: false }),
        Some(false) => of_host().or_else(|_| of_namespace()),
        None => of_namespace(),
    }
}

/// Where there is one that this process can look into.
pub fn seen() -> impl Iterator<Item = PathBuf> {
    [PathBuf::from(OWN), host()].into_iter().filter(|path| is_one(path) || is_one(&path.join(OURS)))
}

/// Whether a path is in one, as far as this process may look.
fn is_one(path: &Path) -> bool {
    c_path(path).and_then(|path| sys::is_bpf_fs(&path)).unwrap_or(false)
}

/// That of the host, as it is called from elsewhere.
fn host() -> PathBuf {
    Path::new(HOST_ROOT).join(OWN.trim_start_matches('/'))
}

/// Whether this process is in the mount namespace of the first one; `None` where it may not look.
fn is_hosts_namespace() -> Option<bool> {
    let number = |path| fs::metadata(path).map(|found| (found.dev(), found.ino())).ok();
    Some(number("/proc/self/ns/mnt")? == number(HOST_NAMESPACE)?)
}

/// That of the host, from another mount namespace.
fn of_host() -> io::Result<BpfFs> {
    let host = host();
    if !sys::is_bpf_fs(&c_path(&host)?)? {
        let namespace = File::open(HOST_NAMESPACE)?;
        // Only a thread that shares no directories with others may enter.
        let mount = move || sys::enter_mounts(&namespace).and_then(|()| mount(Path::new(OWN)));
        let thread = std::thread::Builder::new().name("mount".into()).spawn(mount)?;
        thread.join().map_err(|_| io::Error::other("a thread of Millrace has failed"))??;
    }
    let device = |path: &Path| fs::metadata(path).map(|found| found.dev()).ok();
    let is_same = device(Path::new(OWN)) == device(&host);
    Ok(BpfFs { path: if is_same { OWN.into() } else { host }, may_be_private: false })
}

/// That of this mount namespace, whosever that is.
fn of_namespace() -> io::Result<BpfFs> {
    let own = Path::new(OWN);
    let is_there = sys::is_bpf_fs(&c_path(own)?)?;
    mount(own)?;
    Ok(BpfFs { path: own.to_owned(), may_be_private: !is_there })
}

/// Mounts one where there is none. Only its owner may look into it.
fn mount(at: &Path) -> io::Result<()> {
    // Of two processes that find none one would mount above what the other has named already.
    let below = File::open(at)?;
    below.lock()?;
    let at = c_path(at)?;
    if sys::is_bpf_fs(&at)? { Ok(()) } else { sys::mount_bpf_fs(&at) }
}

/// A path as system calls take it.
pub fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)
}

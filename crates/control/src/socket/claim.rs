//! One instance per socket.
//!
//! The process that holds the lock on `PATH.lock` owns the socket at PATH. The kernel gives the lock back when the
//! owner dies, in whatever way; so a socket without a locked lock is a dead instance's and is taken over, with no
//! moment at which two could both believe that.

use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket};
use nix::unistd::{Gid, Group, chown};

use super::directory::{SocketDirectory, SocketNameError};

/// Connections that the kernel keeps for us to accept.
const BACKLOG: i32 = 16;
/// Instances of one program that get a name by themselves.
const MAX_NUMBER: u32 = 1000;
/// Attempts where another instance, ending, removes what we just made.
const ATTEMPTS: u32 = 100;

/// Why a socket can't be had.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// A live instance has it.
    #[error("{}: another instance is running here; give this one its own --instance NAME or --socket PATH", .0.display())]
    Taken(PathBuf),
    /// Something else has it.
    #[error("{}: there is something else here already; choose another path", .0.display())]
    Occupied(PathBuf),
    /// No such group.
    #[error("there is no group {0:?} on this system (see `getent group`)")]
    Group(String),
    /// The system refused.
    #[error("{}: no control socket can be made here: {error}; choose another --socket PATH, or none with --no-socket", path.display())]
    System {
        /// Where.
        path: PathBuf,
        /// What it said.
        error: io::Error,
    },
    /// No place for sockets.
    #[error(transparent)]
    Name(#[from] SocketNameError),
}

/// A listening socket that is ours alone. Dropping it removes it.
#[derive(Debug)]
pub struct Claim {
    path: PathBuf,
    instance: String,
    listener: UnixListener,
    // Held for as long as the socket is ours.
    lock: File,
    directory: Option<SocketDirectory>,
}

impl Claim {
    /// The socket at a path. With a group, its members may use it as well as its owner.
    pub fn at(path: &Path, instance: &str, group: Option<&str>) -> Result<Claim, ClaimError> {
        Self::take(path, instance, group, None)
    }

    /// The socket of a named instance in the user's place for sockets.
    pub fn named(directory: &SocketDirectory, instance: &str, group: Option<&str>) -> Result<Claim, ClaimError> {
        let path = directory.socket(instance)?;
        Self::take(&path, instance, group, Some(directory))
    }

    /// As [`Claim::named`]; where that name is taken, `NAME-2`, `NAME-3` and so on.
    pub fn numbered(directory: &SocketDirectory, name: &str, group: Option<&str>) -> Result<Claim, ClaimError> {
        let mut result = Self::named(directory, name, group);
        for number in 2..MAX_NUMBER {
            if !matches!(result, Err(ClaimError::Taken(_))) {
                break;
            }
            result = Self::named(directory, &format!("{name}-{number}"), group);
        }
        result
    }

    /// The instance's name.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// Where the socket is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn listener(&self) -> &UnixListener {
        &self.listener
    }

    fn take(
        path: &Path,
        instance: &str,
        group: Option<&str>,
        directory: Option<&SocketDirectory>,
    ) -> Result<Claim, ClaimError> {
        let system = |error: io::Error| ClaimError::System { path: path.to_owned(), error };
        let gid = group.map(group_id).transpose()?;
        let lock = lock(path, directory)?;
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(system(error)),
            Ok(found) if !found.file_type().is_socket() => return Err(ClaimError::Occupied(path.to_owned())),
            // The lock is ours, so what listens here, if anything does, is not Millrace.
            Ok(_) if UnixStream::connect(path).is_ok() => return Err(ClaimError::Occupied(path.to_owned())),
            Ok(_) => fs::remove_file(path).map_err(system)?,
        }
        let listener = listener(path, gid).map_err(system)?;
        Ok(Claim {
            path: path.to_owned(),
            instance: instance.to_owned(),
            listener,
            lock,
            directory: directory.cloned(),
        })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // A drop can't report errors, and what stays is taken over by the next instance.
        let _ = fs::remove_file(&self.path);
        let _ = fs::remove_file(lock_path(&self.path));
        let _ = self.lock.unlock();
        if let Some(directory) = &self.directory {
            directory.tidy();
        }
    }
}

fn lock_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}

/// Takes the lock of a socket.
fn lock(path: &Path, directory: Option<&SocketDirectory>) -> Result<File, ClaimError> {
    let system = |error: io::Error| ClaimError::System { path: path.to_owned(), error };
    let name = lock_path(path);
    for _ in 0..ATTEMPTS {
        if let Some(directory) = directory {
            directory.create()?;
        }
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&name);
        let file = match file {
            Ok(file) => file,
            // An instance that ended removed the directory just now.
            Err(error) if error.kind() == ErrorKind::NotFound && directory.is_some() => continue,
            Err(error) => return Err(system(error)),
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(ClaimError::Taken(path.to_owned())),
            Err(TryLockError::Error(error)) => return Err(system(error)),
        }
        // The lock may be on a file that its former owner removed meanwhile; then it keeps no process out.
        let ours = file.metadata().map_err(system)?;
        if fs::metadata(&name).is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino())) {
            return Ok(file);
        }
    }
    Err(ClaimError::Taken(path.to_owned()))
}

fn listener(path: &Path, group: Option<Gid>) -> io::Result<UnixListener> {
    let address = UnixAddr::new(path)?;
    let fd = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    bind(fd.as_raw_fd(), &address)?;
    // No client can connect before `listen`, so there is no moment with wider permissions.
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    if let Some(group) = group {
        chown(path, None, Some(group))?;
        fs::set_permissions(path, Permissions::from_mode(0o660))?;
    }
    listen(&fd, Backlog::new(BACKLOG)?)?;
    Ok(fd.into())
}

fn group_id(name: &str) -> Result<Gid, ClaimError> {
    let found = Group::from_name(name).ok().flatten().map(|group| group.gid);
    found.or_else(|| name.parse().ok().map(Gid::from_raw)).ok_or_else(|| ClaimError::Group(name.to_owned()))
}

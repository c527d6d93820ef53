//! Where the socket of an instance lies: `NAME.sock` in a directory of the user's.
//!
//! The directory is `$MILLRACE_RUNTIME_DIR` if that is set; else `/run/millrace` for the owner of `/run` (root, but not
//! root of a user namespace alone) and for its own (the user of the systemd unit); else `$XDG_RUNTIME_DIR/millrace`;
//! else `/tmp/millrace-UID`.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use dataplane::is_trusted;
use nix::unistd::geteuid;

use crate::messages::list;

/// That of the system's instances.
const SYSTEM: &str = "/run/millrace";
/// What the name of a socket ends with.
const ENDING: &str = ".sock";

/// Why no socket can be named.
#[derive(Debug, thiserror::Error)]
pub enum SocketNameError {
    /// Not a name of an instance.
    #[error("instance {0:?}: a name has 1 to 64 letters, digits, `_`, `-` and `.`, and begins with a letter or digit")]
    Name(String),
    /// The directory for sockets can't be used.
    #[error("{}: {problem}; give --socket PATH, or set MILLRACE_RUNTIME_DIR", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Nothing runs.
    #[error("no instance is running (sockets are looked for in {}); start one with `millrace run`", .0.display())]
    None(PathBuf),
    /// More than one runs and none was named.
    #[error("several instances are running: {0}; choose one with --instance NAME")]
    Several(String),
}

/// The directory where a user's instances have their sockets.
#[derive(Clone, Debug)]
pub struct SocketDirectory(PathBuf);

impl SocketDirectory {
    /// The directory of this user, which need not exist yet.
    pub fn of_user() -> SocketDirectory {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        if let Some(directory) = set("MILLRACE_RUNTIME_DIR") {
            return SocketDirectory(directory);
        }
        let user = geteuid();
        let is_own = |path: &str| fs::metadata(path).is_ok_and(|found| found.uid() == user.as_raw());
        if is_own("/run") || is_own(SYSTEM) {
            return SocketDirectory(SYSTEM.into());
        }
        let own = set("XDG_RUNTIME_DIR").map(|directory| directory.join("millrace"));
        SocketDirectory(own.unwrap_or_else(|| format!("/tmp/millrace-{user}").into()))
    }

    /// The socket of an instance.
    pub fn socket(&self, instance: &str) -> Result<PathBuf, SocketNameError> {
        self.file(instance, ENDING)
    }

    /// The file of this name and ending, which begins with a dot.
    pub fn file(&self, instance: &str, ending: &str) -> Result<PathBuf, SocketNameError> {
        let letter = |c: char| c.is_ascii_alphanumeric();
        let valid = |c: char| letter(c) || matches!(c, '_' | '-' | '.');
        if instance.len() > 64 || !instance.starts_with(letter) || !instance.chars().all(valid) {
            return Err(SocketNameError::Name(instance.into()));
        }
        Ok(self.0.join(format!("{instance}{ending}")))
    }

    /// Makes the directory where it is missing, and sees to it that it is no other user's: one that can write there can
    /// put a socket of theirs in the place of ours.
    pub fn create(&self) -> Result<(), SocketNameError> {
        // Others may look for sockets here; the sockets' permissions say which ones they may use.
        let made = DirBuilder::new().recursive(true).mode(0o755).create(&self.0);
        made.map_err(|error| self.error(error))?;
        self.check()
    }

    /// Removes the directory if nothing is left in it.
    pub(super) fn tidy(&self) {
        // Another instance may be there, or be just about to be.
        let _ = fs::remove_dir(&self.0);
    }

    fn check(&self) -> Result<(), SocketNameError> {
        let found = fs::metadata(&self.0).map_err(|error| self.error(error))?;
        let problem = match found.uid() {
            _ if !found.is_dir() => "is not a directory",
            owner if !is_trusted(owner) => "belongs to another user",
            _ if found.mode() & 0o022 != 0 => "others may write there",
            _ => return Ok(()),
        };
        Err(self.error(problem))
    }

    fn error(&self, problem: impl ToString) -> SocketNameError {
        SocketNameError::Directory { path: self.0.clone(), problem: problem.to_string() }
    }

    /// Names of the instances that run, sorted.
    pub fn running(&self) -> Result<Vec<String>, SocketNameError> {
        let entries = match fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.error(error)),
        };
        self.check()?;
        let name = |entry: io::Result<fs::DirEntry>| {
            let name = entry.ok()?.file_name().into_string().ok()?.strip_suffix(ENDING)?.to_owned();
            let path = self.socket(&name).ok()?;
            // What may not be asked runs all the same.
            let there = |error: io::Error| error.kind() == ErrorKind::PermissionDenied;
            UnixStream::connect(path).map_or_else(there, |_| true).then_some(name)
        };
        let mut names: Vec<String> = entries.filter_map(name).collect();
        names.sort();
        Ok(names)
    }

    /// The socket of the one instance that runs.
    pub fn only(&self) -> Result<PathBuf, SocketNameError> {
        match &self.running()?[..] {
            [] => Err(SocketNameError::None(self.0.clone())),
            [one] => self.socket(one),
            several => Err(SocketNameError::Several(list(several.iter().map(String::as_str)))),
        }
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

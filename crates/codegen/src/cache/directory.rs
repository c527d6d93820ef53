//! Files of compiled programs.
//!
//! ```text
//! magic and format │ key, 32 bytes │ the content's length │ content │ SHA-256 of all that
//! ```
//!
//! Machine code from a directory that others can write to would be theirs to choose. So the directory, and each file,
//! must be this user's and closed to the writes of others; links are not followed. A file is written beside its place
//! and renamed, so readers find all of it or nothing. Nothing is synced: what a crash of the machine leaves half
//! written its hash tells, and then it is compiled again.

use std::fs::{self, DirBuilder, File, FileTimes, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};

use super::key::Key;

/// What files begin with; another format has another one.
const MAGIC: &[u8; 16] = b"millrace code 1\n";
/// Bytes in front of the content.
const HEAD: usize = MAGIC.len() + 32 + 8;
/// Bytes behind it.
const TAIL: usize = 32;
/// Bytes of the largest file that is read.
const LARGEST: u64 = 64 << 20;
/// Bits of a mode that let others write.
const WRITABLE: u32 = 0o022;
/// How files are named that are being written.
const TEMPORARY: &str = ".new-";
/// After that time nobody writes such a file any more.
const ABANDONED: Duration = Duration::from_secs(600);

/// A directory.
#[derive(Clone, Debug)]
pub(super) struct Directory {
    path: PathBuf,
    /// Bytes that its files may have together.
    most: u64,
}

/// Why a file is not used, or not written.
#[derive(Debug, thiserror::Error)]
pub(super) enum DirectoryError {
    #[error("{0} belongs to user {1}, not to user {2}")]
    Owner(String, u32, u32),
    #[error("others may write to {0} (mode {1:o})")]
    Mode(String, u32),
    #[error("{0} is no {1}")]
    Kind(String, &'static str),
    #[error("{0} is damaged: {1}")]
    Damaged(String, &'static str),
    #[error("{0}: {1}")]
    System(String, io::Error),
}

/// The user by whose rights this process acts.
fn user() -> u32 {
    // SAFETY: the call reads a number, and cannot fail.
    unsafe { libc::geteuid() }
}

/// Whether something is there and is this user's.
pub(super) fn is_own(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|about| about.uid() == user())
}

/// Whether what this is said of is this user's alone to write.
fn safe(shown: &Path, about: &Metadata) -> Result<(), DirectoryError> {
    let (shown, user) = (shown.display().to_string(), user());
    match () {
        () if about.uid() != user => Err(DirectoryError::Owner(shown, about.uid(), user)),
        () if about.mode() & WRITABLE != 0 => Err(DirectoryError::Mode(shown, about.mode() & 0o7777)),
        () => Ok(()),
    }
}

impl Directory {
    pub fn new(path: &Path, most: u64) -> Self {
        Directory { path: path.to_owned(), most }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    fn error(&self, path: &Path) -> impl Fn(io::Error) -> DirectoryError {
        let shown = path.display().to_string();
        move |error| DirectoryError::System(shown.clone(), error)
    }

    /// Whether it is one that code may be taken from.
    fn look(&self) -> Result<(), DirectoryError> {
        let about = fs::symlink_metadata(&self.path).map_err(self.error(&self.path))?;
        if !about.is_dir() {
            return Err(DirectoryError::Kind(self.path.display().to_string(), "directory"));
        }
        safe(&self.path, &about)
    }

    /// Whether code may be taken from there, and put there.
    pub fn is_usable(&self) -> bool {
        self.look().is_ok()
    }

    /// The content under a key; `None` where there is none.
    pub fn read(&self, key: &Key) -> Result<Option<Vec<u8>>, DirectoryError> {
        match self.look() {
            Err(DirectoryError::System(_, error)) if error.kind() == ErrorKind::NotFound => return Ok(None),
            looked => looked?,
        }
        let path = self.path.join(key.name());
        let failed = self.error(&path);
        // Not to wait for what writes into a pipe of that name.
        let open = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(&path);
        let file = match open {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            open => open.map_err(&failed)?,
        };
        let about = file.metadata().map_err(&failed)?;
        // A second name may be one that others have made.
        if !about.is_file() || about.nlink() > 1 {
            return Err(DirectoryError::Kind(path.display().to_string(), "file of its own"));
        }
        safe(&path, &about)?;
        let mut bytes = Vec::new();
        (&file).take(LARGEST + 1).read_to_end(&mut bytes).map_err(&failed)?;
        let content = content(&bytes, key).map_err(|why| DirectoryError::Damaged(path.display().to_string(), why))?;
        // It was of use just now. Where that can't be noted it goes somewhat earlier.
        let _ = file.set_times(FileTimes::new().set_modified(SystemTime::now()));
        Ok(Some(content.to_vec()))
    }

    /// Puts a content under a key, in the place of what is there. The oldest ones go where there would be too much.
    pub fn write(&self, key: &Key, content: &[u8]) -> Result<(), DirectoryError> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        DirBuilder::new().recursive(true).mode(0o700).create(&self.path).map_err(self.error(&self.path))?;
        self.look()?;
        let name = format!("{TEMPORARY}{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let (new, path) = (self.path.join(name), self.path.join(key.name()));
        let mut bytes = [MAGIC, &key.0[..], &(content.len() as u64).to_le_bytes(), content].concat();
        let hash = Sha256::digest(&bytes);
        bytes.extend(hash);
        let written = create(&new).and_then(|mut file| file.write_all(&bytes)).and_then(|()| fs::rename(&new, &path));
        if let Err(error) = written {
            let _ = fs::remove_file(&new);
            return Err(self.error(&path)(error));
        }
        self.bound(&path).map_err(self.error(&self.path))
    }

    /// Takes a file away that is of no use.
    pub fn remove(&self, key: &Key) {
        let _ = fs::remove_file(self.path.join(key.name()));
    }

    /// Removes the oldest files until the rest is not too much, but this one; and those that nobody finishes writing.
    fn bound(&self, kept: &Path) -> io::Result<()> {
        let mut files = Vec::new();
        let now = SystemTime::now();
        for entry in fs::read_dir(&self.path)?.flatten() {
            // Another process may just have removed it.
            let Ok(about) = entry.metadata() else { continue };
            let Ok(time) = about.modified() else { continue };
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.starts_with(TEMPORARY) {
                if now.duration_since(time).is_ok_and(|age| age > ABANDONED) {
                    let _ = fs::remove_file(entry.path());
                }
            } else if name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                files.push((time, about.len(), entry.path()));
            }
        }
        let mut size: u64 = files.iter().map(|(_, size, _)| size).sum();
        files.sort();
        for (_, bytes, path) in files.into_iter().filter(|(.., path)| path != kept) {
            if size <= self.most {
                break;
            }
            let _ = fs::remove_file(path);
            size -= bytes;
        }
        Ok(())
    }
}

/// A new file of this user alone.
fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW).open(path)
}

/// The content of a file for a key, or what is wrong with it.
fn content<'b>(bytes: &'b [u8], key: &Key) -> Result<&'b [u8], &'static str> {
    let (head, rest) = bytes.split_at_checked(HEAD).ok_or("it is cut off")?;
    if head[..MAGIC.len()] != *MAGIC {
        return Err("it has another format");
    }
    if head[MAGIC.len()..HEAD - 8] != key.0 {
        return Err("it is of another program");
    }
    let content = rest.len().checked_sub(TAIL).ok_or("it is cut off")?;
    if head[HEAD - 8..] != (content as u64).to_le_bytes() {
        return Err("it has another length");
    }
    let (all, hash) = bytes.split_at(HEAD + content);
    if Sha256::digest(all)[..] != *hash {
        return Err("its hash is another one");
    }
    Ok(&rest[..content])
}

#[cfg(test)]
#[path = "directory_tests.rs"]
mod tests;

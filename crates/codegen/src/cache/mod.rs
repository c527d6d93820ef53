//! Compiled programs, kept on disk: machine code and BPF code by the hash of all that they follow from.
//!
//! | part of the key | why |
//! |---|---|
//! | the compiler's sources and its libraries' versions (`build.rs`), LLVM's version and file | other code of the same program |
//! | the program as the optimiser gets it, profile and source locations included | all that is compiled |
//! | levels, options, processor and features | how |
//! | BPF code: where tables lie in the memory, and which kernel takes it | constants of the code; which form is taken |
//!
//! What a process has of its own is no part of kept code: addresses of the runtime's functions are linked to when
//! machine code is loaded ([`crate::link`]), and BPF code gets the memory's address and the keys of hash functions just
//! before it is offered ([`crate::kernel::Object::numbers`]). So code that is kept is what would be compiled.
//!
//! A process has one cache or none. Nothing here fails: what can't be read or written is compiled, with a note.

mod codec;
mod directory;
mod key;
mod library;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub(crate) use codec::{Reader, Writer};
use directory::Directory;
pub(crate) use key::Key;

/// The variable with the directory of compiled programs; [`OFF`]: none.
pub const VARIABLE: &str = "MILLRACE_CACHE";
/// No directory.
pub const OFF: &str = "off";

/// Bytes that are kept: some hundred large programs.
const MOST: u64 = 256 << 20;
/// Notes that are kept until they are taken.
const NOTES: usize = 16;

/// What was compiled, and what was taken from disk, since the process began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Parts of programs that were compiled: one is a program's machine code, or its code for the kernel.
    pub compiled: u64,
    /// Parts that were taken from disk.
    pub taken: u64,
    /// How long both took, added up.
    pub time: Duration,
}

/// This process's cache.
struct Cache {
    directory: Option<Directory>,
    activity: Activity,
    notes: Vec<String>,
}

/// The one that the variable says, until something else is said.
static CACHE: Mutex<Option<Cache>> = Mutex::new(None);

fn cache<T>(with: impl FnOnce(&mut Cache) -> T) -> T {
    let mut cache: MutexGuard<_> = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    with(cache.get_or_insert_with(|| Cache::new(by_variable().unwrap_or_default().as_deref())))
}

/// What the variable says: a directory or none; `None` where it says nothing.
pub fn by_variable() -> Option<Option<PathBuf>> {
    let said = std::env::var_os(VARIABLE).filter(|said| !said.is_empty())?;
    Some((said != OFF).then(|| said.into()))
}

/// From now on compiled programs are kept in this directory, which is made where it is missing; or nowhere.
pub fn keep_in(directory: Option<&Path>) {
    cache(|cache| cache.directory = directory.map(|path| Directory::new(path, MOST)));
}

/// Where compiled programs are kept.
pub fn directory() -> Option<PathBuf> {
    cache(|cache| cache.directory.as_ref().map(|directory| directory.path().to_owned()))
}

/// Whether a file or directory is there and is this user's.
pub fn is_own(path: &Path) -> bool {
    directory::is_own(path)
}

/// What was done so far.
pub fn activity() -> Activity {
    cache(|cache| cache.activity.clone())
}

/// What there is to say of files that were not used or not written, once.
pub fn take_notes() -> Vec<String> {
    cache(|cache| std::mem::take(&mut cache.notes))
}

impl Cache {
    fn new(directory: Option<&Path>) -> Self {
        let directory = directory.map(|path| Directory::new(path, MOST));
        Cache { directory, activity: Activity::default(), notes: Vec::new() }
    }

    fn note(&mut self, note: String) {
        if self.notes.len() < NOTES && !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

/// A part of a program that is about to be compiled.
pub(crate) struct Part {
    directory: Option<Directory>,
    /// Of a process that keeps nothing it is not known.
    key: Option<Key>,
    began: Instant,
}

impl Part {
    /// With the key that `key` makes, where compiled programs are kept.
    pub fn new(key: impl FnOnce() -> Key) -> Part {
        let began = Instant::now();
        let directory = cache(|cache| cache.directory.clone());
        let key = directory.is_some().then(key);
        Part { directory, key, began }
    }

    /// One that is not kept.
    pub fn unkept() -> Part {
        Part { directory: None, key: None, began: Instant::now() }
    }

    fn place(&self) -> Option<(&Directory, &Key)> {
        self.directory.as_ref().zip(self.key.as_ref())
    }

    /// What is kept of it, as `read` finds it.
    pub fn find<T>(&mut self, read: impl FnOnce(&mut Reader) -> Option<T>) -> Option<T> {
        let (directory, key) = self.place()?;
        match directory.read(key) {
            Ok(None) => None,
            Ok(Some(bytes)) => {
                let mut reader = Reader::new(&bytes);
                let found = read(&mut reader).filter(|_| reader.is_empty());
                if found.is_none() {
                    self.is_useless("it holds something else");
                }
                found
            }
            Err(error) => {
                cache(|cache| cache.note(format!("a compiled program is not used: {error}; it is compiled anew")));
                if !directory.is_usable() {
                    self.directory = None;
                }
                None
            }
        }
    }

    /// What is kept turned out to be of no use.
    pub fn is_useless(&self, why: &str) {
        if let Some((directory, key)) = self.place() {
            directory.remove(key);
            cache(|cache| cache.note(format!("a compiled program is not used: {why}; it is compiled anew")));
        }
    }

    /// Keeps what was compiled.
    pub fn keep(&self, write: impl FnOnce(&mut Writer)) {
        let Some((directory, key)) = self.place() else { return };
        let mut writer = Writer::default();
        write(&mut writer);
        if let Err(error) = directory.write(key, &writer.finish()) {
            cache(|cache| cache.note(format!("a compiled program is not kept: {error}")));
        }
    }

    /// Counts it, when it is ready to run.
    pub fn done(self, was_taken: bool) {
        let time = self.began.elapsed();
        cache(|cache| {
            let activity = &mut cache.activity;
            activity.time += time;
            *(if was_taken { &mut activity.taken } else { &mut activity.compiled }) += 1;
        });
    }
}

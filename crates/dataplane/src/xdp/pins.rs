//! What runs in the kernel outlasts the process: links, the program and its maps are named in the machine's BPF file
//! system ([`bpf_fs`]).
//!
//! ```text
//! /sys/fs/bpf/millrace/
//!     NAME/               of the instance, or with a number where another state has that name; locked by its process
//!         state           a symbolic link to the directory of the state: which tables go with what is named here
//!         link-I          the link at the interface with index I
//!         N/program       what runs, by the number of its start or reload
//!         N/memory        the memory of its tables and counters
//!         N/tables        a map with a text: where its tables lie in that memory
//!         N/devices …     its other maps: the kernel empties an array of programs that no process and no name has
//! ```
//!
//! The directory of the state is looked for, not the name: an instance that starts with it takes over, whatever the
//! instance is called now.
//!
//! What takes over names what it has first, then takes the links, and then removes the other names. So whenever the
//! process dies, the program that the links run is named.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

use super::bpf_fs::{self, HOST_ROOT, OURS, c_path};
use super::sys;
use crate::sys::{effective_user, is_trusted};

/// The symbolic link to the state.
const STATE: &str = "state";
/// States with one name.
const MOST: u32 = 1000;

/// Names what is in the kernel, in one directory.
#[derive(Debug)]
pub struct Pins {
    dir: PathBuf,
    /// The directory, locked.
    lock: File,
}

/// What is named of one program.
pub struct Named<'n> {
    /// Descriptors with the names that they get.
    pub objects: Vec<(&'static str, &'n OwnedFd)>,
    /// Where its tables lie.
    pub tables: String,
}

/// The state that names a program at an interface.
#[derive(Debug)]
pub struct Owner {
    /// The directory of the names.
    pub dir: PathBuf,
    /// The directory of the state.
    pub state: PathBuf,
}

impl Pins {
    /// For a state's directory, under an instance's name unless it has another one already. Also whether the names may
    /// end with this mount namespace.
    pub fn open(state: &Path, name: &str) -> io::Result<(Self, bool)> {
        let found = bpf_fs::find()?;
        let root = found.path.join(OURS);
        made(DirBuilder::new().mode(0o700).create(&root))?;
        check(&root)?;
        let pins = Self::open_in(&root, state, name)?;
        Ok((pins, found.may_be_private))
    }

    /// As [`Pins::open`], in a directory of a BPF file system.
    pub(super) fn open_in(root: &Path, state: &Path, name: &str) -> io::Result<Self> {
        let state = fs::canonicalize(state)?;
        let name = usable(name);
        let numbered = (2..MOST).map(|number| format!("{name}-{number}"));
        let known = owners(root)?.into_iter().filter(|owner| owner.state == state).map(|owner| owner.dir);
        let places = known.chain([name.clone()].into_iter().chain(numbered).map(|name| root.join(name)));
        for dir in places {
            if let Some(pins) = Self::claim(dir, &state)? {
                return Ok(pins);
            }
        }
        Err(io::Error::other(format!("{} names like {name} are taken in {}", MOST - 1, root.display())))
    }

    /// Takes a directory, if it is free or this state's.
    fn claim(dir: PathBuf, state: &Path) -> io::Result<Option<Self>> {
        made(DirBuilder::new().mode(0o700).create(&dir))?;
        let lock = match File::open(&dir) {
            Ok(lock) => lock,
            // Its owner ended just now.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            error => error?,
        };
        if lock.try_lock().is_err() || !is_there(&dir, &lock) {
            return Ok(None);
        }
        match fs::read_link(dir.join(STATE)) {
            Ok(other) if other != state => return Ok(None),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => symlink(state, dir.join(STATE))?,
            Err(error) => return Err(error),
        }
        Ok(Some(Pins { dir, lock }))
    }

    /// Whether these are its names.
    pub fn is_of(&self, owner: &Owner) -> bool {
        on_host(&self.dir) == owner.dir
    }

    /// The link at an interface, if one is named.
    pub fn link(&self, interface: u32) -> io::Result<Option<OwnedFd>> {
        get(&self.dir.join(format!("link-{interface}")))
    }

    /// Names the link at an interface, in place of another one.
    pub fn set_link(&self, interface: u32, link: &OwnedFd) -> io::Result<()> {
        self.remove_link(interface)?;
        sys::pin(link, &c_path(&self.dir.join(format!("link-{interface}")))?)
    }

    /// Names no link at an interface.
    pub fn remove_link(&self, interface: u32) -> io::Result<()> {
        gone(fs::remove_file(self.dir.join(format!("link-{interface}"))))
    }

    /// The interfaces whose links are named.
    pub fn interfaces(&self) -> io::Result<Vec<u32>> {
        Ok(names(&self.dir)?.iter().filter_map(|name| number(name.strip_prefix("link-")?)).collect())
    }

    /// The numbers of the programs that are named, in order.
    pub fn programs(&self) -> io::Result<Vec<u32>> {
        let mut numbers: Vec<u32> = names(&self.dir)?.iter().filter_map(|name| number(name)).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Names a program. Its number.
    pub fn name(&self, named: &Named<'_>) -> io::Result<u32> {
        let taken = self.programs()?;
        let free = (1..=u32::MAX).find(|number| !taken.contains(number));
        let number = free.ok_or_else(|| io::Error::other("there is no number left"))?;
        let dir = self.dir.join(number.to_string());
        DirBuilder::new().mode(0o700).create(&dir)?;
        let tables = sys::text_map(&named.tables)?;
        for (name, object) in named.objects.iter().copied().chain([("tables", &tables)]) {
            sys::pin(object, &c_path(&dir.join(name))?)?;
        }
        Ok(number)
    }

    /// An object of a program, if it is named.
    pub fn object(&self, program: u32, name: &str) -> io::Result<Option<OwnedFd>> {
        get(&self.dir.join(program.to_string()).join(name))
    }

    /// Where the tables of a program lie, as it was given.
    pub fn tables(&self, program: u32) -> io::Result<Option<String>> {
        self.object(program, "tables")?.map(|map| sys::text_of_map(&map)).transpose()
    }

    /// Names all programs but this one no more.
    pub fn keep_only(&self, program: Option<u32>) -> io::Result<()> {
        let others = self.programs()?.into_iter().filter(|other| Some(*other) != program);
        others.into_iter().try_for_each(|other| gone(fs::remove_dir_all(self.dir.join(other.to_string()))))
    }

    /// Names nothing any more. A second call does nothing: by then the directory may be that of another instance.
    pub fn clear(&self) -> io::Result<()> {
        if !is_there(&self.dir, &self.lock) {
            return Ok(());
        }
        self.interfaces()?.into_iter().try_for_each(|interface| self.remove_link(interface))?;
        self.keep_only(None)?;
        gone(fs::remove_file(self.dir.join(STATE)))?;
        gone(fs::remove_dir(&self.dir))?;
        // Others may be there, or be just about to be. The service's stays: its units have it mounted.
        let root = self.dir.parent().filter(|root| fs::metadata(root).is_ok_and(|root| root.uid() == effective_user()));
        let _ = root.map(fs::remove_dir);
        Ok(())
    }
}

/// What has named nothing leaves nothing, such as where the instance did not start.
impl Drop for Pins {
    fn drop(&mut self) {
        let is_empty = |names: Vec<String>| names.iter().all(|name| name == STATE);
        if names(&self.dir).is_ok_and(is_empty) {
            // A drop can't report errors.
            let _ = self.clear();
        }
    }
}

/// The state that names the program with this number of the kernel's, of which the process has ended.
pub fn left_by(program: u32) -> Option<Owner> {
    let has = |owner: &Owner| {
        let links = names(&owner.dir).unwrap_or_default().into_iter().filter(|name| name.starts_with("link-"));
        let links = links.filter_map(|name| get(&owner.dir.join(name)).ok().flatten());
        links.filter_map(|link| sys::link_info(&link).ok()).any(|info| info.program == program)
    };
    let owner = bpf_fs::seen().filter_map(|root| owners(&root.join(OURS)).ok()).flatten().find(has)?;
    Some(Owner { dir: on_host(&owner.dir), ..owner })
}

/// Takes out of the kernel what a process before has named for a state, which is not taken over now.
pub fn forget(state: &Path) -> io::Result<()> {
    let state = fs::canonicalize(state)?;
    bpf_fs::seen().try_for_each(|root| forget_in(&root.join(OURS), &state))
}

pub(super) fn forget_in(root: &Path, state: &Path) -> io::Result<()> {
    let own = owners(root).unwrap_or_default().into_iter().filter(|owner| owner.state == state);
    own.into_iter().try_for_each(|owner| Pins::claim(owner.dir, state)?.map_or(Ok(()), |pins| pins.clear()))
}

/// All that have named something.
fn owners(root: &Path) -> io::Result<Vec<Owner>> {
    let owner = |name: String| {
        let dir = root.join(name);
        fs::read_link(dir.join(STATE)).ok().map(|state| Owner { dir, state })
    };
    Ok(names(root)?.into_iter().filter_map(owner).collect())
}

/// Whether a directory is still at its path. While it is, and is locked, no process puts another one there.
fn is_there(path: &Path, dir: &File) -> bool {
    let place = |found: fs::Metadata| (found.dev(), found.ino());
    let found = fs::metadata(path).ok().map(place);
    found.is_some() && found == dir.metadata().ok().map(place)
}

fn names(dir: &Path) -> io::Result<Vec<String>> {
    Ok(fs::read_dir(dir)?.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect())
}

/// A number as it is written here.
fn number(text: &str) -> Option<u32> {
    text.parse().ok().filter(|number: &u32| number.to_string() == text)
}

/// An instance's name as that of a directory: the kernel keeps names with dots to itself.
fn usable(name: &str) -> String {
    name.replace('.', "_")
}

/// A path without the way by which another mount namespace is reached.
fn on_host(path: &Path) -> PathBuf {
    path.strip_prefix(HOST_ROOT).map_or_else(|_| path.to_owned(), |path| Path::new("/").join(path))
}

/// Another user that could write there could put other programs in the place of ours.
fn check(root: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(root)?;
    let problem = match found.uid() {
        _ if !found.is_dir() => "is no directory",
        owner if !is_trusted(owner) => "belongs to another user",
        _ if found.mode() & 0o022 != 0 => "can be written by others",
        _ => return Ok(()),
    };
    Err(io::Error::new(ErrorKind::PermissionDenied, format!("{} {problem}", on_host(root).display())))
}

fn get(path: &Path) -> io::Result<Option<OwnedFd>> {
    match sys::pinned(&c_path(path)?) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        object => object.map(Some),
    }
}

/// What was there already is there, too.
fn made(result: io::Result<()>) -> io::Result<()> {
    result.or_else(|error| if error.kind() == ErrorKind::AlreadyExists { Ok(()) } else { Err(error) })
}

/// What was not there is gone, too.
fn gone(removed: io::Result<()>) -> io::Result<()> {
    removed.or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

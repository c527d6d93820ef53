//! What runs in the kernel outlasts the process: links, the program and its maps are named in a BPF file system.
//!
//! ```text
//! DIR/bpf/            a BPF file system, mounted where there is none
//!     link-I          the link at the interface with index I
//!     N/program       what runs, by the number of its start or reload
//!     N/memory        the memory of its tables and counters
//!     N/devices …     its other maps: the kernel empties an array of programs that no process and no name has
//! DIR/kernel-N.tables where its tables lie in that memory
//! ```
//!
//! What takes over names what it has first, then takes the links, and then removes the other names. So whenever the process dies, the
//! program that the links run is named.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::sys;

/// Names what is in the kernel, in one directory.
#[derive(Debug)]
pub struct Pins {
    dir: PathBuf,
    bpf: PathBuf,
}

/// What is named of one program.
pub struct Named<'n> {
    /// Descriptors with the names that they get.
    pub objects: Vec<(&'static str, &'n OwnedFd)>,
    /// Where its tables lie.
    pub tables: String,
}

impl Pins {
    /// In a directory, which is made where it is missing, and of which a part becomes a BPF file system.
    pub fn open(dir: &Path) -> io::Result<Self> {
        let bpf = dir.join("bpf");
        fs::create_dir_all(&bpf)?;
        if !sys::is_bpf_fs(&path(&bpf)?)? {
            sys::mount_bpf_fs(&path(&bpf)?)?;
        }
        Ok(Pins { dir: dir.to_owned(), bpf })
    }

    /// The link at an interface, if one is named.
    pub fn link(&self, interface: u32) -> io::Result<Option<OwnedFd>> {
        self.get(&format!("link-{interface}"))
    }

    /// Names the link at an interface, in place of another one.
    pub fn set_link(&self, interface: u32, link: &OwnedFd) -> io::Result<()> {
        self.remove_link(interface)?;
        sys::pin(link, &path(&self.bpf.join(format!("link-{interface}")))?)
    }

    /// Names no link at an interface.
    pub fn remove_link(&self, interface: u32) -> io::Result<()> {
        gone(fs::remove_file(self.bpf.join(format!("link-{interface}"))))
    }

    /// The interfaces whose links are named.
    pub fn interfaces(&self) -> io::Result<Vec<u32>> {
        let name =
            |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.strip_prefix("link-")?.parse().ok();
        Ok(fs::read_dir(&self.bpf)?.filter_map(name).collect())
    }

    /// The numbers of the programs that are named, in order.
    pub fn programs(&self) -> io::Result<Vec<u64>> {
        let number = |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
        let mut numbers: Vec<u64> = fs::read_dir(&self.bpf)?.filter_map(number).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Names a program. Its number.
    pub fn name(&self, named: &Named<'_>) -> io::Result<u64> {
        let number = self.programs()?.last().map_or(1, |last| last + 1);
        // It is of use only together with the rest, so it comes first.
        fs::write(self.tables_file(number), &named.tables)?;
        let dir = self.bpf.join(number.to_string());
        fs::create_dir(&dir)?;
        for (name, object) in &named.objects {
            sys::pin(object, &path(&dir.join(name))?)?;
        }
        Ok(number)
    }

    /// An object of a program, if it is named.
    pub fn object(&self, program: u64, name: &str) -> io::Result<Option<OwnedFd>> {
        self.get(&format!("{program}/{name}"))
    }

    /// Where the tables of a program lie, as it was given.
    pub fn tables(&self, program: u64) -> io::Result<String> {
        fs::read_to_string(self.tables_file(program))
    }

    /// Names all programs but this one no more.
    pub fn keep_only(&self, program: Option<u64>) -> io::Result<()> {
        for other in self.programs()?.into_iter().filter(|other| Some(*other) != program) {
            gone(fs::remove_dir_all(self.bpf.join(other.to_string())))?;
            gone(fs::remove_file(self.tables_file(other)))?;
        }
        Ok(())
    }

    /// Names nothing any more.
    pub fn clear(&self) -> io::Result<()> {
        self.interfaces()?.into_iter().try_for_each(|interface| self.remove_link(interface))?;
        self.keep_only(None)?;
        sys::unmount(&path(&self.bpf)?)
    }

    fn tables_file(&self, program: u64) -> PathBuf {
        self.dir.join(format!("kernel-{program}.tables"))
    }

    fn get(&self, name: &str) -> io::Result<Option<OwnedFd>> {
        match sys::pinned(&path(&self.bpf.join(name))?) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            object => object.map(Some),
        }
    }
}

/// What was not there is gone, too.
fn gone(removed: io::Result<()>) -> io::Result<()> {
    removed.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

fn path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)
}

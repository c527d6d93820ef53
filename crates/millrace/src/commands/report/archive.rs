//! What a report has, and the file that it is written to.

use std::fmt::Display;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use cli::failure::Failure;
use flate2::Compression;
use flate2::write::GzEncoder;

/// The folder in which all of it is.
const FOLDER: &str = "millrace-report";
/// Where it is said what could not be got.
pub const MISSING: &str = "missing.txt";

/// How a text is to be freed of secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// What programs have written: of the secrets that are known.
    Data,
    /// What people read: also of what its names say are secrets.
    Log,
}

/// The files of a report.
#[derive(Debug, Default)]
pub struct Contents {
    files: Vec<(String, Kind, String)>,
    missing: Vec<String>,
}

impl Contents {
    /// Adds a text, or says why it is missing.
    pub fn add<E: Display>(&mut self, name: impl Into<String>, kind: Kind, text: Result<String, E>) {
        let name = name.into();
        match text {
            Ok(text) if text.is_empty() => self.miss(&name, "there is nothing"),
            Ok(text) => self.files.push((name, kind, text)),
            Err(error) => self.miss(&name, error),
        }
    }

    /// Says that something is missing.
    pub fn miss(&mut self, name: &str, why: impl Display) {
        self.missing.push(format!("{name}: {why}\n"));
    }

    /// All files, with what is missing; `redact` frees them of secrets.
    pub fn finish(self, redact: impl Fn(Kind, &str) -> String) -> Vec<(String, String)> {
        let missing = (MISSING.to_owned(), Kind::Log, self.missing.concat());
        let all = self.files.into_iter().chain((!missing.2.is_empty()).then_some(missing));
        all.map(|(name, kind, text)| (name, redact(kind, &text))).collect()
    }
}

/// A file that is being written: it is removed where that fails.
#[derive(Debug)]
pub struct Archive {
    path: PathBuf,
    file: Option<File>,
}

impl Archive {
    /// Makes the file, for its owner alone.
    ///
    /// # Errors
    /// There is such a file, or none can be made there.
    pub fn create(path: &Path) -> Result<Archive, Failure> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let file = file.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => {
                Failure::wrong(format!("error: {}: there is such a file; give the name of another one", path.display()))
            }
            _ => failed(path, error),
        })?;
        Ok(Archive { path: path.to_owned(), file: Some(file) })
    }

    /// Writes the files, by names.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn write(mut self, files: &[(String, String)]) -> Result<(), Failure> {
        let Some(file) = &self.file else { return Ok(()) };
        pack(file, files).map_err(|error| failed(&self.path, error))?;
        self.file = None;
        Ok(())
    }
}

impl Drop for Archive {
    fn drop(&mut self) {
        if self.file.is_some() {
            // What is half written is of no use; a drop can't report errors.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn failed(path: &Path, error: io::Error) -> Failure {
    Failure::refused(format!("{}: {error}", path.display()))
}

fn pack(file: &File, files: &[(String, String)]) -> io::Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let mut archive = tar::Builder::new(GzEncoder::new(file, Compression::default()));
    for (name, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(now);
        archive.append_data(&mut header, format!("{FOLDER}/{name}"), text.as_bytes())?;
    }
    archive.into_inner()?.finish()?.flush()?;
    file.sync_all()
}

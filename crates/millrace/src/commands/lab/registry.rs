//! How other terminals find a lab, and what cleans up behind it.
//!
//! A lab writes a file `NAME.lab` where instances have their sockets: its process and the paths of its hosts'
//! namespaces. It holds the file's lock, which the kernel gives back when the process ends, however it ends. A second
//! process, the cleaner, waits for that end: it kills what is left in the hosts (the kernel kills only what the lab
//! itself started) and removes the file.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{BufRead, BufReader, ErrorKind, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use cli::failure::Failure;
use control::socket::{SocketDirectory, SocketNameError};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::network::Network;

const ENDING: &str = ".lab";
/// How long the lock of a process that ends may last.
const UNLOCK: Duration = Duration::from_secs(5);

/// What the file says.
#[derive(Serialize, Deserialize)]
pub struct Entry {
    /// The lab's process.
    pub pid: u32,
    /// Path of each host's namespace.
    pub hosts: IndexMap<String, PathBuf>,
}

/// What the cleaner is told.
#[derive(Serialize, Deserialize)]
struct Task {
    namespaces: Vec<u64>,
    file: PathBuf,
}

/// A lab's name, which is ours.
pub struct Registration {
    path: PathBuf,
    file: File,
}

/// A lab that others find. Dropping it ends the cleaner's wait, and waits until it has cleaned up.
pub struct Registered {
    // The lock, and the cleaner's standard input: both end before the cleaner is waited for.
    file: Option<File>,
    cleaner: Child,
}

impl Registration {
    /// Takes a name, unless a lab that lives has it.
    pub fn claim(name: &str) -> Result<Registration, Failure> {
        let directory = SocketDirectory::of_user();
        directory.create().map_err(Failure::refused)?;
        let path = directory.file(name, ENDING).map_err(|error| Failure::wrong(format!("error: {error}")))?;
        let system = |error: std::io::Error| Failure::refused(format!("{}: {error}", path.display()));
        loop {
            let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
            let file = file.map_err(system)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let text = format!("error: a lab {name} is running; end it, or write name = \"…\" into this one");
                    return Err(Failure::wrong(text));
                }
                Err(TryLockError::Error(error)) => return Err(system(error)),
            }
            // The cleaner of a lab that ended just now may have removed this very file: then it keeps no lab out.
            if is_file(&file, &path) {
                return Ok(Registration { path, file });
            }
        }
    }

    /// Lets others find the lab, and starts the cleaner.
    pub fn publish(mut self, name: &str, network: &Network) -> Result<Registered, Failure> {
        let system = |error: std::io::Error| Failure::refused(format!("lab {name}: {error}"));
        let hosts = network.hosts();
        let label = |namespace: &lab::Namespace| namespace.label().to_owned();
        let entry = Entry {
            pid: std::process::id(),
            hosts: hosts.iter().map(|namespace| (label(namespace), namespace.path().into())).collect(),
        };
        let namespaces =
            hosts.iter().map(lab::Namespace::inode).collect::<lab::Result<_>>().map_err(Failure::refused)?;
        let task = Task { namespaces, file: self.path.clone() };
        // This very program, even if its file was replaced meanwhile; out of reach of the terminal's Ctrl-C.
        let mut cleaner = Command::new("/proc/self/exe")
            .args(["lab", "keep"])
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(system)?;
        let told = cleaner.stdin.as_mut().map_or(Ok(()), |input| writeln!(input, "{}", json(&task)));
        told.map_err(system)?;
        self.file.set_len(0).and_then(|()| self.file.rewind()).map_err(system)?;
        writeln!(self.file, "{}", json(&entry)).map_err(system)?;
        Ok(Registered { file: Some(self.file), cleaner })
    }
}

fn json(value: &impl Serialize) -> String {
    // Plain data with text as keys.
    serde_json::to_string(value).expect("it is JSON")
}

fn is_file(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let id = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    file.metadata().ok().map(id) == fs::metadata(path).ok().map(id)
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.file = None;
        drop(self.cleaner.stdin.take());
        // A drop can't report errors.
        let _ = self.cleaner.wait();
    }
}

/// The cleaner: `millrace lab keep`, told on its standard input what to clean up when that ends.
pub fn keep() -> Result<(), Failure> {
    let mut input = BufReader::new(std::io::stdin());
    let mut line = String::new();
    input.read_line(&mut line).map_err(Failure::refused)?;
    let Task { namespaces, file } =
        serde_json::from_str(&line).map_err(|_| Failure::wrong("error: only `millrace lab` starts this"))?;
    // Nothing more comes; it ends with the lab.
    let _ = input.read_to_end(&mut Vec::new());
    lab::sweep(&namespaces);
    // The lab's process lets go of its lock some time after its end of our input. Another lab that takes the name
    // meanwhile keeps the lock, and the file.
    let start = Instant::now();
    let locked = |open: &File| open.try_lock().is_ok();
    if let Ok(open) = File::open(&file)
        && std::iter::repeat_with(|| thread::sleep(Duration::from_millis(5)))
            .take_while(|()| start.elapsed() < UNLOCK)
            .any(|()| locked(&open))
        && is_file(&open, &file)
    {
        // Another process that removes it does no harm.
        let _ = fs::remove_file(&file);
    }
    Ok(())
}

/// The lab of this name, or the only one that runs.
pub fn find(name: Option<&str>) -> Result<Entry, Failure> {
    let directory = SocketDirectory::of_user();
    let wrong = |error: SocketNameError| Failure::wrong(format!("error: {error}"));
    let running = running(&directory)?;
    let chosen = match (name, &running[..]) {
        (Some(name), _) => name,
        (None, [one]) => one,
        (None, []) => return Err(Failure::refused("no lab is running; start one with `millrace lab FILE`")),
        (None, several) => {
            let names = several.join(", ");
            return Err(Failure::wrong(format!(
                "error: several labs are running: {names}; choose one with --lab NAME"
            )));
        }
    };
    let path = directory.file(chosen, ENDING).map_err(wrong)?;
    if !running.iter().any(|known| known == chosen) {
        return Err(Failure::refused(format!("no lab {chosen} is running")));
    }
    let text = fs::read_to_string(&path).map_err(|error| Failure::refused(format!("{}: {error}", path.display())))?;
    serde_json::from_str(&text).map_err(|_| Failure::refused(format!("lab {chosen} is not up yet")))
}

/// Names of the labs that run: their files are locked.
fn running(directory: &SocketDirectory) -> Result<Vec<String>, Failure> {
    let entries = match fs::read_dir(directory.path()) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Failure::refused(format!("{}: {error}", directory.path().display()))),
    };
    let name = |entry: std::io::Result<fs::DirEntry>| {
        let entry = entry.ok()?;
        let name = entry.file_name().into_string().ok()?.strip_suffix(ENDING)?.to_owned();
        let file = File::open(entry.path()).ok()?;
        matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)).then_some(name)
    };
    let mut names: Vec<String> = entries.filter_map(name).collect();
    names.sort();
    Ok(names)
}

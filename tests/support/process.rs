//! Millrace as a program: bounded in time, captured; and directories for its files.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Long enough for a loaded machine; nothing takes this long when all is well.
const LIMIT: Duration = Duration::from_secs(120);

/// The repository.
pub const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// How a program ended.
#[derive(Debug)]
pub struct Done {
    /// Its exit status; `None` if a signal ended it.
    pub status: Option<i32>,
    /// What it printed.
    pub stdout: String,
    /// What it said was wrong.
    pub stderr: String,
}

impl Done {
    /// It did what it was asked, and has nothing to complain about; what it printed.
    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!((self.status, self.stderr.as_str()), (Some(0), ""), "{self:?}");
        self.stdout
    }

    /// It ended with this status, printed nothing, and said what is wrong; that text.
    #[track_caller]
    pub fn failed(self, status: i32) -> String {
        assert_eq!((self.status, self.stdout.as_str()), (Some(status), ""), "{self:?}");
        assert!(self.stderr.starts_with("error"), "{self:?}");
        assert!(!self.stderr.contains("panicked") && !self.stderr.contains("internal error"), "{self:?}");
        self.stderr
    }

    /// As [`Done::failed`], in one line.
    #[track_caller]
    pub fn failed_in_one_line(self, status: i32) -> String {
        let text = self.failed(status);
        assert_eq!(text.lines().count(), 1, "{text}");
        text
    }
}

/// `millrace` with arguments, as root of the machine's own network or as the user of the tests.
pub fn millrace(arguments: &[&str]) -> Done {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    command.args(arguments);
    run(command)
}

/// Runs a program to its end without input.
pub fn run(command: Command) -> Done {
    run_with_input(command, b"")
}

/// Runs a program to its end with an input.
pub fn run_with_input(mut command: Command, input: &[u8]) -> Done {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (stdout, stderr) = (collect(child.stdout.take().unwrap()), collect(child.stderr.take().unwrap()));
    // It may be closed where it is not wanted.
    let _ = child.stdin.take().unwrap().write_all(input);
    let status = wait(&mut child);
    Done { status, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() }
}

/// Waits for a program's end; its exit status. It is killed where that takes too long.
pub fn wait(child: &mut Child) -> Option<i32> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if start.elapsed() > LIMIT {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("not at its end after {LIMIT:?}");
        }
        thread::sleep(Duration::from_millis(2));
    }
}

fn collect(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap_or_else(|error| panic!("not text: {error}"))
    })
}

/// The start of a command line that runs what follows without any privilege: as nobody if this is the machine's root;
/// otherwise without capabilities.
pub fn without_privileges() -> Vec<&'static str> {
    let mut command = vec!["setpriv"];
    let map = fs::read_to_string("/proc/self/uid_map").unwrap();
    if map.split_whitespace().eq(["0", "0", "4294967295"]) {
        command.extend(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    }
    command.extend(["--bounding-set", "-all", "--inh-caps", "-all"]);
    command
}

/// A directory that all users may use, removed when dropped, with all that instances whose state is in it have left in
/// the kernel.
pub struct Scratch(PathBuf);

/// In front of the number of a test's process, in the names of its directories.
const SCRATCH: &str = "millrace-test-";
/// Where instances name what they have in the kernel, each in a directory with a link to its state.
const PINS: &str = "/sys/fs/bpf/millrace";

/// Takes what instances have left out of the kernel whose state is in a directory of which this holds, unless they run.
/// An instance that is killed leaves it to the next one with its state, which a test's has not when the test has ended.
fn forget_pins(is_over: impl Fn(&Path) -> bool) {
    for dir in fs::read_dir(PINS).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let Some(state) = fs::read_link(dir.join("state")).ok() else { continue };
        let is_free = || fs::File::open(&dir).is_ok_and(|dir| dir.try_lock().is_ok());
        if state.ancestors().any(&is_over) && is_free() {
            // Another test may do the same.
            let _ = fs::remove_dir_all(&dir);
        }
    }
}

/// Whether a directory is one of a test whose process is gone, such as by its time limit.
fn is_left_behind(dir: &Path) -> bool {
    let name = dir.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix(SCRATCH));
    let process = name.and_then(|name| name.split('-').next()?.parse::<u32>().ok());
    process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists())
}

impl Scratch {
    /// A new, empty one.
    pub fn new() -> Scratch {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        static SWEPT: Once = Once::new();
        SWEPT.call_once(|| forget_pins(is_left_behind));
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("{SCRATCH}{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        Scratch(path)
    }

    /// The path of a file in it.
    pub fn path(&self, name: &str) -> String {
        self.0.join(name).into_os_string().into_string().unwrap()
    }

    /// Writes a file; its path.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path
    }

    /// Copies the `millrace` program to where every user may run it; its path. Another process copies: a file that this
    /// one has open for writing would be open in what other tests start at that moment too, and could not be run.
    pub fn millrace(&self) -> String {
        let path = self.path("millrace");
        assert!(Command::new("cp").args([env!("CARGO_BIN_EXE_millrace"), &path]).status().unwrap().success());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        forget_pins(|dir| dir == self.0);
        // A drop can't report errors.
        let _ = fs::remove_dir_all(&self.0);
    }
}

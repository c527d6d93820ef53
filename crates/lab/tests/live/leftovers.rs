//! A lab leaves nothing behind when its process is killed, and works without root.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use crate::common::{PATIENCE, eventually, is_alive};
use lab::Namespace;

/// A `lab-hold` process, ended by its own id when this is dropped.
struct Holder {
    process: Child,
    /// Process id of the program that the lab started in one of its namespaces.
    program: u32,
}

impl Holder {
    fn start(command: &[&str]) -> Holder {
        let mut process = Command::new(command[0])
            .args(&command[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let (line_tx, line_rx) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let read = output.read_line(&mut line).map(|_| line);
            line_tx.send(read).unwrap();
        });
        let mut holder = Holder { process, program: 0 };
        let line = line_rx.recv_timeout(PATIENCE).unwrap().unwrap();
        let program = line.trim().strip_prefix("ready ").unwrap_or_else(|| panic!("{command:?}: {line:?}"));
        holder.program = program.parse().unwrap();
        assert!(is_alive(holder.program));
        holder
    }

    fn kill(&mut self) {
        self.process.kill().unwrap(); // SIGKILL: no destructor runs
        self.process.wait().unwrap();
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn kill_leaves_nothing() {
    let watcher = Namespace::new("watcher").unwrap();
    let path = watcher.path();
    let thread = path.split('/').nth(4).unwrap();
    let mut holder = Holder::start(&[env!("CARGO_BIN_EXE_lab-hold"), "--peer", thread]);
    // The kernel removes `watch` when, and only when, the namespace with the link's other end is freed.
    assert!(watcher.device("watch").is_ok());
    holder.kill();
    eventually("the program in the lab is killed", || !is_alive(holder.program));
    eventually("the lab's namespace is freed", || watcher.devices().unwrap().iter().all(|d| d.name != "watch"));
}

#[test]
fn end_of_input_ends_the_lab() {
    let mut holder = Holder::start(&[env!("CARGO_BIN_EXE_lab-hold")]);
    drop(holder.process.stdin.take());
    assert!(holder.process.wait().unwrap().success());
    assert!(!is_alive(holder.program));
}

/// The start of a command line that runs what follows as an ordinary user: as nobody if this is the machine's root;
/// otherwise this is an ordinary user already, in a user namespace that it made.
fn as_ordinary_user() -> Vec<&'static str> {
    let whole_machine =
        std::fs::read_to_string("/proc/self/uid_map").unwrap().split_whitespace().eq(["0", "0", "4294967295"]);
    if whole_machine { vec!["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"] } else { Vec::new() }
}

/// A copy of `lab-hold` where an ordinary user may read it, removed when dropped.
struct Copy(PathBuf);

impl Copy {
    fn new(name: &str) -> Copy {
        let path = std::env::temp_dir().join(format!("lab-hold-{}-{name}", std::process::id()));
        std::fs::copy(Path::new(env!("CARGO_BIN_EXE_lab-hold")), &path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        Copy(path)
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn works_and_leaves_nothing(command: &[&str]) {
    let mut holder = Holder::start(command);
    holder.kill();
    eventually("the program in the lab is killed", || !is_alive(holder.program));
}

#[test]
fn a_lab_works_under_unshare_without_root() {
    let copy = Copy::new("unshare");
    let mut command = as_ordinary_user();
    command.extend(["unshare", "--user", "--map-root-user", "--net", copy.0.to_str().unwrap()]);
    works_and_leaves_nothing(&command);
}

#[test]
fn a_lab_makes_its_own_user_namespace() {
    let copy = Copy::new("own");
    let mut command = as_ordinary_user();
    command.extend([copy.0.to_str().unwrap(), "--user-namespace"]);
    works_and_leaves_nothing(&command);
}

#[test]
fn without_privileges_the_lab_says_so() {
    let copy = Copy::new("none");
    let command = if as_ordinary_user().is_empty() {
        vec!["setpriv", "--bounding-set", "-all", "--inh-caps", "-all"]
    } else {
        as_ordinary_user()
    };
    let output = Command::new(command[0]).args(&command[1..]).arg(&copy.0).stdin(Stdio::null()).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("no privileges"), "{output:?}");
}

//! A running instance, asked as its users do.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use crate::process::{Done, Scratch, run, wait};

/// Long enough for a loaded machine; nothing takes this long when all is well.
const LIMIT: Duration = Duration::from_secs(20);

/// A place for sockets of its own, so that instances of other tests are not seen.
pub struct Runtime {
    scratch: Scratch,
}

impl Runtime {
    /// An empty one.
    pub fn new() -> Runtime {
        Runtime { scratch: Scratch::new() }
    }

    /// A path in it that is none of Millrace's.
    pub fn path(&self, name: &str) -> String {
        self.scratch.path(name)
    }

    /// Writes a file there; its path.
    pub fn write(&self, name: &str, content: &str) -> String {
        self.scratch.write(name, content)
    }

    /// Copies the `millrace` program to where every user may run it; its path.
    pub fn millrace_for_all(&self) -> String {
        self.scratch.millrace()
    }

    /// Where the socket of an instance is.
    pub fn socket(&self, instance: &str) -> String {
        self.path(&format!("run/{instance}.sock"))
    }

    /// `millrace` with arguments.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
        command.args(arguments).env("MILLRACE_RUNTIME_DIR", self.path("run")).env_remove("MILLRACE_LOG");
        command
    }

    /// Runs `millrace` to its end.
    pub fn millrace(&self, arguments: &[&str]) -> Done {
        run(self.command(arguments))
    }

    /// Asks for JSON.
    pub fn json(&self, arguments: &[&str]) -> Json {
        let text = self.millrace(&[arguments, &["--json"]].concat()).ok();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// Starts `millrace run` and waits until it answers.
    pub fn start(&self, arguments: &[&str]) -> Instance<'_> {
        self.start_command(self.command(&[&["run"], arguments].concat()))
    }

    /// Starts a command and waits until it says that it runs.
    pub fn start_command(&self, mut command: Command) -> Instance<'_> {
        let number = Instant::now();
        let file = |kind: &str| self.path(&format!("{kind}-{}-{number:?}", std::process::id()).replace([' ', '/'], ""));
        let (out, err) = (file("out"), file("err"));
        command.stdin(Stdio::null()).stdout(File::create(&out).unwrap()).stderr(File::create(&err).unwrap());
        let child = command.spawn().unwrap();
        let mut instance = Instance { child, out, err, _runtime: self };
        let start = Instant::now();
        while !instance.stdout().contains("; Ctrl-C stops it") {
            let ended = instance.child.try_wait().unwrap();
            assert!(ended.is_none() && start.elapsed() < LIMIT, "{}{}", instance.stdout(), instance.stderr());
            thread::sleep(Duration::from_millis(2));
        }
        instance
    }
}

/// A running instance; killed when dropped.
pub struct Instance<'r> {
    child: Child,
    out: String,
    err: String,
    _runtime: &'r Runtime,
}

impl Instance<'_> {
    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has printed.
    pub fn stdout(&self) -> String {
        std::fs::read_to_string(&self.out).unwrap()
    }

    /// What it has logged.
    pub fn stderr(&self) -> String {
        std::fs::read_to_string(&self.err).unwrap()
    }

    /// Kills it, as a crash does.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        assert_eq!(self.child.wait().unwrap().signal(), Some(9));
    }

    /// Waits for its end, which was asked for.
    pub fn end(mut self) -> Done {
        let status = wait(&mut self.child);
        Done { status, stdout: self.stdout(), stderr: self.stderr() }
    }
}

impl Drop for Instance<'_> {
    fn drop(&mut self) {
        // It may have ended; then there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

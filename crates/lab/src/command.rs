//! Programs inside a namespace: bounded in time, captured, and ended with their guard.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command as StdCommand, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use crate::error::{Error, Result};
use crate::namespace::Namespace;

/// The time limit of a command that sets none. Most take milliseconds; while BPF programs are loaded, the kernel may
/// hold up those that configure the network for many seconds.
const DEFAULT_LIMIT: Duration = Duration::from_secs(60);

/// A program about to run in a namespace.
///
/// It gets no input unless [`Command::input`] gives some, and `/usr/sbin` is searched too (Debian leaves it out of
/// an ordinary user's PATH, yet `ip` and `ethtool` are there).
#[derive(Debug)]
pub struct Command<'a> {
    namespace: &'a Namespace,
    inner: StdCommand,
    limit: Duration,
    input: Option<Vec<u8>>,
    inherit: bool,
    output: Option<Stdio>,
    errors: Option<Stdio>,
}

impl<'a> Command<'a> {
    pub(crate) fn new(namespace: &'a Namespace, program: &str) -> Self {
        let mut inner = StdCommand::new(program);
        let mut path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/local/bin:/usr/bin:/bin"));
        path.push(":/usr/local/sbin:/usr/sbin:/sbin");
        inner.env("PATH", &path);
        Command { namespace, inner, limit: DEFAULT_LIMIT, input: None, inherit: false, output: None, errors: None }
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.inner.arg(argument);
        self
    }

    /// Adds arguments.
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.inner.args(arguments);
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.inner.env(name, value);
        self
    }

    /// Sets the working directory.
    pub fn current_dir(mut self, directory: impl AsRef<Path>) -> Self {
        self.inner.current_dir(directory);
        self
    }

    /// Gives the program these bytes as its input, then end of file.
    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = Some(bytes.into());
        self
    }

    /// Sets the time limit of [`Command::run`] and [`Command::check`]; 10 seconds otherwise.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Lets the program print to this process's own output instead of having it captured.
    pub fn show(mut self) -> Self {
        self.inherit = true;
        self
    }

    /// Lets the program write its standard output there (a file, or a pipe that a thread reads) instead of having it
    /// captured. The kernel kills only the program itself when this process dies, not what a shell starts in turn: so
    /// prefer this to `sh -c 'program | filter'`.
    pub fn output_to(mut self, output: impl Into<Stdio>) -> Self {
        self.output = Some(output.into());
        self
    }

    /// As [`Command::output_to`], for standard error.
    pub fn errors_to(mut self, errors: impl Into<Stdio>) -> Self {
        self.errors = Some(errors.into());
        self
    }

    /// Runs it to its end, killing it at the time limit; what it left in its process group is killed as well.
    ///
    /// Ending with a status other than 0 is not an error here.
    pub fn run(self) -> Result<Output> {
        let limit = self.limit;
        self.spawn()?.wait(limit)
    }

    /// As [`Command::run`], and a status other than 0 is an error that shows what the program printed.
    pub fn check(self) -> Result<Output> {
        let limit = self.limit;
        let mut running = self.spawn()?;
        let output = running.wait(limit)?;
        if output.status.success() {
            Ok(output)
        } else {
            Err(Error::failed(&running.namespace, &running.command, &output))
        }
    }

    /// Starts it in the background; it is killed when the guard is dropped or the namespace is.
    pub fn spawn(mut self) -> Result<Running> {
        let command = command_line(&self.inner);
        let memory = |name: &str| {
            memfd_create(name, MFdFlags::MFD_CLOEXEC)
                .map(File::from)
                .map_err(|e| Error::system(format!("cannot create a memory file for `{command}`"), e))
        };
        // Memory files rather than pipes: nothing has to be read for the program to go on, what it printed can be
        // read at any time, and a grandchild that keeps the file open holds up no test.
        let (stdout, stderr) = (memory("stdout")?, memory("stderr")?);
        let copy = |file: &File| {
            file.try_clone().map(Stdio::from).map_err(|e| Error::system(format!("cannot start `{command}`"), e))
        };
        if !self.inherit {
            self.inner.stdout(copy(&stdout)?).stderr(copy(&stderr)?);
        }
        if let Some(output) = self.output {
            self.inner.stdout(output);
        }
        if let Some(errors) = self.errors {
            self.inner.stderr(errors);
        }
        let stdin = match &self.input {
            None => Stdio::null(),
            Some(bytes) => {
                let mut file = memory("stdin")?;
                file.write_all(bytes)
                    .and_then(|()| file.rewind())
                    .map_err(|e| Error::system(format!("cannot write the input of `{command}`"), e))?;
                Stdio::from(file)
            }
        };
        self.inner.stdin(stdin).process_group(0);
        let program = self.inner.get_program().to_string_lossy().into_owned();
        let installed = is_installed(&self.inner);
        let child = self.namespace.start(self.inner).map_err(|e| match e.kind() {
            // Permission denied is also said when some folder in PATH is not this user's to read (execvp(3)).
            io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied if !installed => Error::NotInstalled { program },
            _ => Error::system(format!("cannot start `{command}`"), e),
        })?;
        let namespace = self.namespace.name().to_owned();
        Ok(Running { child, namespace, command, stdout, stderr, ended: None })
    }
}

/// How a program ended and what it printed.
#[derive(Clone, Debug)]
pub struct Output {
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote to standard output.
    pub stdout: Vec<u8>,
    /// What it wrote to standard error.
    pub stderr: Vec<u8>,
}

impl Output {
    /// Standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard output, then standard error, as text.
    pub fn both(&self) -> String {
        format!("{}{}", self.text(), String::from_utf8_lossy(&self.stderr))
    }
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.status, self.both())
    }
}

/// A program in the background; dropping this kills it and its process group and waits for it.
///
/// A program that makes itself a daemon leaves its process group and is then out of reach: start servers in their
/// foreground mode.
#[derive(Debug)]
pub struct Running {
    child: Child,
    namespace: String,
    command: String,
    stdout: File,
    stderr: File,
    ended: Option<ExitStatus>,
}

impl Running {
    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has written to standard output so far; empty with [`Command::show`].
    pub fn stdout(&self) -> Vec<u8> {
        contents(&self.stdout)
    }

    /// What it has written to standard error so far; empty with [`Command::show`].
    pub fn stderr(&self) -> Vec<u8> {
        contents(&self.stderr)
    }

    /// Standard output, then standard error, as text, so far.
    pub fn both(&self) -> String {
        format!("{}{}", String::from_utf8_lossy(&self.stdout()), String::from_utf8_lossy(&self.stderr()))
    }

    /// How it ended, or `None` while it runs.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        if self.ended.is_none() {
            // The zombie is left in place first: while it exists no other process can get its process group's number.
            match waitid(Id::Pid(self.pid()), WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT) {
                Ok(WaitStatus::StillAlive) | Err(Errno::EINTR) => return Ok(None),
                Ok(_) => self.reap()?,
                Err(e) => return Err(Error::system(format!("cannot wait for `{}`", self.command), e)),
            }
        }
        Ok(self.ended)
    }

    /// Waits for its end; at the time limit it is killed and that is an error that shows what it printed.
    pub fn wait(&mut self, limit: Duration) -> Result<Output> {
        let ended = self.poll(limit, |running| running.ended())?;
        let Some(status) = ended else {
            self.reap()?;
            return Err(self.timeout(limit, "its end".to_owned()));
        };
        Ok(Output { status, stdout: self.stdout(), stderr: self.stderr() })
    }

    /// Waits until it has printed `text` on either output; it is an error if it ends or `limit` passes before.
    pub fn wait_for_text(&mut self, text: &str, limit: Duration) -> Result<()> {
        let said = self.poll(limit, |running| {
            // The order matters: what a program prints just before its end must count.
            let ended = running.ended()?;
            let said = running.both().contains(text);
            Ok((said || ended.is_some()).then_some((said, ended)))
        })?;
        match said {
            Some((true, _)) => Ok(()),
            Some((false, Some(status))) => {
                let output = Output { status, stdout: self.stdout(), stderr: self.stderr() };
                Err(Error::failed(&self.namespace, &self.command, &output))
            }
            _ => Err(self.timeout(limit, format!("printing {text:?}"))),
        }
    }

    /// As [`Running::wait_for_text`], for `millrace run` to run, with all of its program that the kernel is to run.
    pub fn wait_for_start(&mut self, limit: Duration) -> Result<()> {
        self.wait_for_text("; Ctrl-C stops it", limit)?;
        if self.both().contains("until the kernel has verified it") {
            self.wait_for_text("the kernel has verified its part", limit)?;
        }
        Ok(())
    }

    /// Sends it a signal; nothing happens if it has ended.
    pub fn signal(&mut self, signal: Signal) -> Result<()> {
        if self.ended()?.is_none() {
            // Not yet reaped, so the number is still its own.
            kill(self.pid(), signal).map_err(|e| Error::system(format!("cannot signal `{}`", self.command), e))?;
        }
        Ok(())
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }

    /// Kills what is left of the process group and collects the exit status.
    fn reap(&mut self) -> Result<()> {
        // ESRCH only says that there is nothing to kill.
        let _ = killpg(self.pid(), Signal::SIGKILL);
        let status = self.child.wait().map_err(|e| Error::system(format!("cannot wait for `{}`", self.command), e))?;
        self.ended = Some(status);
        Ok(())
    }

    fn poll<T>(&mut self, limit: Duration, mut look: impl FnMut(&mut Self) -> Result<Option<T>>) -> Result<Option<T>> {
        let start = Instant::now();
        let mut pause = Duration::from_micros(500);
        loop {
            if let Some(found) = look(self)? {
                return Ok(Some(found));
            }
            if start.elapsed() >= limit {
                return Ok(None);
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    fn timeout(&self, limit: Duration, awaited: String) -> Error {
        let (namespace, command) = (self.namespace.clone(), self.command.clone());
        Error::Timeout { namespace, command, awaited, limit, output: self.both() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.ended.is_none() {
            // A drop can't report errors.
            let _ = self.reap();
        }
    }
}

/// The whole file, read without moving the position that the writing program shares.
fn contents(file: &File) -> Vec<u8> {
    let length = file.metadata().map_or(0, |m| usize::try_from(m.len()).unwrap_or(usize::MAX));
    let mut bytes = vec![0; length];
    match file.read_exact_at(&mut bytes, 0) {
        Ok(()) => bytes,
        Err(_) => Vec::new(), // cut short by the program itself
    }
}

/// Whether the program is a file, where it says or in the PATH that it will be looked for in.
fn is_installed(command: &StdCommand) -> bool {
    let program = command.get_program();
    if program.as_bytes().contains(&b'/') {
        return Path::new(program).is_file();
    }
    let path = command.get_envs().find_map(|(name, value)| if name == "PATH" { value } else { None });
    path.is_some_and(|path| std::env::split_paths(path).any(|folder| folder.join(program).is_file()))
}

/// The command line as a person would type it, without quoting.
fn command_line(command: &StdCommand) -> String {
    let mut line = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        line.push(' ');
        line.push_str(&argument.to_string_lossy());
    }
    line
}

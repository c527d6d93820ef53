//! A network namespace, held by a thread and a file descriptor of this process.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command as StdCommand};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::gettid;

use crate::command::{Command, Output};
use crate::error::{Error, Result};
use crate::sys;

/// What the namespace's own thread is asked to start, and where to answer.
struct Start {
    command: StdCommand,
    answer: mpsc::Sender<io::Result<Child>>,
}

/// A network namespace with its loopback device up and nothing else in it.
///
/// Dropping it ends the programs started in it and gives it back to the kernel, which then removes its devices and
/// the other ends of their veth pairs; that happens in the background and takes some milliseconds. A thread inside
/// [`Namespace::enter`] or a socket opened there keeps the kernel's part alive until it ends.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    file: File,
    thread_id: i32,
    start: Option<mpsc::Sender<Start>>,
    thread: Option<JoinHandle<()>>,
}

impl Namespace {
    /// A new namespace; `label` names it in error messages (`mr-PID-LABEL`) and need not be unique.
    pub fn new(label: &str) -> Result<Self> {
        let (ready_tx, ready_rx) = mpsc::channel();
        let (start_tx, start_rx) = mpsc::channel::<Start>();
        // Programs are started by a thread that lives as long as the namespace, because the kernel ties
        // "die with your parent" to the starting thread.
        let thread = thread::Builder::new()
            .name(format!("lab-{label}"))
            .spawn(move || {
                let opened = unshare(CloneFlags::CLONE_NEWNET)
                    .map_err(io::Error::from)
                    .and_then(|()| File::open("/proc/thread-self/ns/net"));
                let entered = opened.is_ok();
                if ready_tx.send(opened.map(|file| (file, gettid().as_raw()))).is_err() || !entered {
                    return;
                }
                for Start { mut command, answer } in start_rx {
                    // An asker that is gone drops the child's handle; the child then ends with this thread.
                    let _ = answer.send(command.spawn());
                }
            })
            .map_err(|e| Error::system("cannot start a thread", e))?;
        let opened = ready_rx.recv().unwrap_or_else(|_| Err(io::Error::other("the namespace's thread ended")));
        let (file, thread_id) = opened.map_err(|source| Error::Namespace { kind: "network", source })?;
        let name = format!("mr-{}-{label}", std::process::id());
        let namespace = Namespace { name, file, thread_id, start: Some(start_tx), thread: Some(thread) };
        namespace.check(&["ip", "link", "set", "lo", "up"])?;
        Ok(namespace)
    }

    /// Its name in messages: `mr-PID-LABEL`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The label that it was made with.
    pub fn label(&self) -> &str {
        // `mr-`, the process id, `-`, and the label, which may have more of them.
        self.name.splitn(3, '-').nth(2).unwrap_or_default()
    }

    /// A path for `nsenter --net=PATH`, valid in this PID namespace while the lab lives.
    ///
    /// Unlike `ip netns exec`, nsenter leaves /sys alone, so pinned BPF objects stay visible.
    pub fn path(&self) -> String {
        format!("/proc/{}/task/{}/ns/net", std::process::id(), self.thread_id)
    }

    /// The kernel's number for it, by which others find the processes in it.
    pub fn inode(&self) -> Result<u64> {
        let metadata = self.file.metadata();
        metadata.map(|m| m.ino()).map_err(|e| Error::system(format!("cannot look at namespace {}", self.name), e))
    }

    /// What `ip link … netns` takes to mean this namespace: the id of the thread that lives in it.
    pub(crate) fn ip_handle(&self) -> String {
        self.thread_id.to_string()
    }

    /// Runs `f` on a new thread inside the namespace and waits for it; a panic in `f` goes on in the caller.
    ///
    /// A socket belongs to the namespace where it was opened, so what `f` returns keeps working outside. Start
    /// programs with [`Namespace::command`] instead: only those end with the lab.
    pub fn enter<T: Send>(&self, f: impl FnOnce() -> T + Send) -> Result<T> {
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                setns(&self.file, CloneFlags::CLONE_NEWNET)
                    .map_err(|e| Error::system(format!("cannot enter namespace {}", self.name), e))?;
                Ok(f())
            });
            inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// A program to run in the namespace.
    pub fn command(&self, program: &str) -> Command<'_> {
        Command::new(self, program)
    }

    /// Runs a program and its arguments for at most 10 seconds; ending with a status other than 0 is not an error.
    pub fn run(&self, command: &[&str]) -> Result<Output> {
        self.command_of(command)?.run()
    }

    /// As [`Namespace::run`], and a status other than 0 is an error that shows what the program printed.
    pub fn check(&self, command: &[&str]) -> Result<Output> {
        self.command_of(command)?.check()
    }

    /// Whether `address` answers an ICMP echo within `limit`, which is rounded up to seconds; echoes are sent five
    /// times a second until one is answered.
    pub fn ping(&self, address: &str, limit: Duration) -> Result<bool> {
        let seconds = limit.as_millis().div_ceil(1000).max(1).to_string();
        let ping = self.command("ping").args(["-n", "-c", "1", "-i", "0.2", "-w", &seconds, address]);
        Ok(ping.limit(limit + Duration::from_secs(10)).run()?.status.success())
    }

    fn command_of(&self, command: &[&str]) -> Result<Command<'_>> {
        let (program, arguments) =
            command.split_first().ok_or_else(|| Error::Invalid("a command needs at least a program".to_owned()))?;
        Ok(self.command(program).args(arguments))
    }

    /// Starts a command on the namespace's own thread, to die with it.
    pub(crate) fn start(&self, mut command: StdCommand) -> io::Result<Child> {
        sys::die_with_parent(&mut command);
        let (answer, answered) = mpsc::channel();
        let gone = || io::Error::other("the namespace's thread ended");
        self.start.as_ref().ok_or_else(gone)?.send(Start { command, answer }).map_err(|_| gone())?;
        answered.recv().map_err(|_| gone())?
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Without a sender the thread's loop ends; with the thread end its child processes.
        self.start = None;
        if let Some(thread) = self.thread.take() {
            // The loop has nothing that can panic, and a drop can't report errors.
            let _ = thread.join();
        }
    }
}

//! A program on a terminal of its own.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::poll::{PollFd, PollFlags, poll};
use nix::pty::{Winsize, openpty};
use nix::sys::termios::{Termios, tcgetattr};
use nix::unistd::dup;
use vt100::Parser;

use crate::process::wait;

/// Long enough for a loaded machine; nothing takes this long when all is well.
const LIMIT: Duration = Duration::from_secs(20);

/// The program and its terminal; it is killed when this is dropped.
pub struct Terminal {
    child: Child,
    /// The end of a person who looks and types; none where they have gone.
    ours: Option<File>,
    /// The program's end, which stays open so that it can be looked at when the program has ended.
    theirs: OwnedFd,
    screen: Arc<Mutex<Parser>>,
    /// Whether the reader of that end is to let go of it, and the reader.
    is_over: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

impl Terminal {
    /// Starts a program, with as many lines and columns; `setsid` makes the terminal the one that it is controlled by.
    pub fn start(program: &Command, (rows, columns): (u16, u16)) -> Terminal {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let ends = openpty(Some(&size), None).unwrap();
        // A program that has it, too, never sees the window close.
        fcntl(&ends.master, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).unwrap();
        let end = || dup(&ends.slave).unwrap();
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(program.get_program()).args(program.get_args()).env("TERM", "xterm-256color");
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        let ours = File::from(ends.master);
        let screen = Arc::new(Mutex::new(Parser::new(rows, columns, 0)));
        let (mut read, shown) = (ours.try_clone().unwrap(), screen.clone());
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        let reader = thread::spawn(move || {
            let mut some = [0; 4096];
            while !over.load(Ordering::Relaxed) {
                let mut wait = [PollFd::new(read.as_fd(), PollFlags::POLLIN)];
                if poll(&mut wait, 20_u8) == Ok(0) {
                    continue;
                }
                // An error is the end of the terminal.
                let Ok(length @ 1..) = read.read(&mut some) else { return };
                shown.lock().unwrap().process(&some[..length]);
            }
        });
        Terminal { child, ours: Some(ours), theirs: ends.slave, screen, is_over, reader: Some(reader) }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Types something.
    pub fn type_in(&mut self, text: &str) {
        self.ours.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// Closes the window.
    pub fn close(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.reader.take().into_iter().for_each(|reader| reader.join().unwrap());
        self.ours = None;
    }

    /// What stands there now.
    pub fn text(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    /// Waits until this stands there; all that does.
    #[track_caller]
    pub fn wait_for(&self, what: &str) -> String {
        let start = Instant::now();
        loop {
            let text = self.text();
            if text.contains(what) {
                return text;
            }
            assert!(start.elapsed() < LIMIT, "{what} is not in:\n{text}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// How the terminal is set.
    pub fn settings(&self) -> Termios {
        tcgetattr(&self.theirs).unwrap()
    }

    /// Whether a program has a screen of its own there, and whether the cursor can be seen.
    pub fn is_taken(&self) -> (bool, bool) {
        let screen = self.screen.lock().unwrap();
        (screen.screen().alternate_screen(), !screen.screen().hide_cursor())
    }

    /// Waits for the program's end; its exit status.
    pub fn end(&mut self) -> Option<i32> {
        wait(&mut self.child)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It may have ended; then there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

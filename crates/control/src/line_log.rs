//! Lines for a file, written by a thread of their own: the thread that logs a line never waits for a disk.
//!
//! The queue is bounded; what finds no room in it, or can't be written, is counted as lost, and the count is logged
//! once there is room again. [`reopen_all`] has every file opened anew, after it was moved away.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Lines on their way at most.
const ROOM: usize = 16384;
/// Bytes that are written at once.
const BLOCK: usize = 64 << 10;
/// After a failure, until the file is opened again; and how often it is looked whether it is to be opened anew.
const PAUSE: Duration = Duration::from_secs(1);
/// How long the end of a log waits for what is on its way.
const PATIENCE: Duration = Duration::from_secs(2);

/// Counts the calls of [`reopen_all`].
static REOPENED: AtomicU64 = AtomicU64::new(0);

/// Has all files opened anew, before the next line at the latest.
pub fn reopen_all() {
    REOPENED.fetch_add(1, Ordering::Release);
}

/// A file that lines are appended to.
#[derive(Debug)]
pub struct LineLog {
    path: PathBuf,
    /// None at the end.
    lines: Option<SyncSender<Vec<u8>>>,
    lost: Arc<AtomicU64>,
    written: Arc<AtomicU64>,
    ended: Receiver<()>,
}

impl LineLog {
    /// Appends to a file, which is made if it is missing. Where that fails lines are lost until it succeeds.
    pub fn open(path: &Path) -> io::Result<LineLog> {
        let (lines, receive) = sync_channel(ROOM);
        let (end, ended) = sync_channel(1);
        let (lost, written) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let mut writer = Writer {
            path: path.to_owned(),
            lost: lost.clone(),
            written: written.clone(),
            file: None,
            opened: 0,
            retry: None,
            said: 0,
        };
        thread::Builder::new().name("log".into()).spawn(move || {
            writer.run(&receive);
            let _ = end.send(());
        })?;
        Ok(LineLog { path: path.to_owned(), lines: Some(lines), lost, written, ended })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a line, which has its end. It never waits.
    pub fn line(&self, line: Vec<u8>) {
        let sent = self.lines.as_ref().is_some_and(|lines| lines.try_send(line).is_ok());
        if !sent {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Lines that were lost, and that were written.
    pub fn counts(&self) -> (u64, u64) {
        (self.lost.load(Ordering::Relaxed), self.written.load(Ordering::Relaxed))
    }
}

impl Drop for LineLog {
    fn drop(&mut self) {
        self.lines = None;
        // A file that takes nothing, such as a pipe that is not read, is not waited for.
        let _ = self.ended.recv_timeout(PATIENCE);
    }
}

struct Writer {
    path: PathBuf,
    lost: Arc<AtomicU64>,
    written: Arc<AtomicU64>,
    file: Option<File>,
    /// [`REOPENED`] when the file was opened.
    opened: u64,
    /// When to open it again, after a failure.
    retry: Option<Instant>,
    /// Lost lines that were logged.
    said: u64,
}

impl Writer {
    fn run(&mut self, lines: &Receiver<Vec<u8>>) {
        let mut block = Vec::with_capacity(BLOCK);
        // The file is there from the start, for tools that wait for it.
        self.ready();
        loop {
            match lines.recv_timeout(PAUSE) {
                Ok(line) => block.extend_from_slice(&line),
                Err(RecvTimeoutError::Timeout) => {
                    self.ready();
                    self.say();
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let mut count = 1;
            while block.len() < BLOCK
                && let Ok(line) = lines.try_recv()
            {
                block.extend_from_slice(&line);
                count += 1;
            }
            self.write(&block, count);
            self.say();
            block.clear();
        }
    }

    /// Opens the file if it must be. False: there is none.
    fn ready(&mut self) -> bool {
        let now = REOPENED.load(Ordering::Acquire);
        if self.file.is_some() && self.opened == now {
            return true;
        }
        if self.opened == now && self.retry.is_some_and(|retry| Instant::now() < retry) {
            return false;
        }
        self.opened = now;
        match OpenOptions::new().append(true).create(true).open(&self.path) {
            Ok(file) => (self.file, self.retry) = (Some(file), None),
            Err(error) => self.fail(&error),
        }
        self.file.is_some()
    }

    fn write(&mut self, block: &[u8], lines: u64) {
        let result = match self.ready() {
            true => self.file.as_mut().map(|file| file.write_all(block)),
            false => None,
        };
        match result {
            Some(Ok(())) => _ = self.written.fetch_add(lines, Ordering::Relaxed),
            Some(Err(error)) => {
                self.fail(&error);
                self.lost.fetch_add(lines, Ordering::Relaxed);
            }
            None => _ = self.lost.fetch_add(lines, Ordering::Relaxed),
        }
    }

    fn fail(&mut self, error: &io::Error) {
        if self.retry.is_none() {
            tracing::warn!(file = %self.path.display(), %error, "the log can't be written: its lines are lost");
        }
        (self.file, self.retry) = (None, Some(Instant::now() + PAUSE));
    }

    /// Says how many lines were lost, once it works again.
    fn say(&mut self) {
        let lost = self.lost.load(Ordering::Relaxed);
        if lost > self.said && self.file.is_some() {
            tracing::warn!(file = %self.path.display(), lines = lost - self.said, "lines of the log were lost");
            self.said = lost;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory that is gone at the end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("millrace-log-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Scratch(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn wait(what: &str, holds: impl Fn() -> bool) {
        let start = Instant::now();
        while !holds() {
            assert!(start.elapsed() < Duration::from_secs(20), "{what}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn all_lines_are_written_in_order_and_a_moved_file_is_opened_anew() {
        let scratch = Scratch::new("order");
        let (path, moved) = (scratch.0.join("log"), scratch.0.join("log.1"));
        let log = LineLog::open(&path).unwrap();
        let say = |from: u64| (from..from + 1000).for_each(|number| log.line(format!("{number}\n").into_bytes()));
        say(0);
        wait("1000 lines", || log.counts() == (0, 1000));
        std::fs::rename(&path, &moved).unwrap();
        say(1000);
        wait("they go where it was moved", || log.counts() == (0, 2000));
        reopen_all();
        say(2000);
        drop(log);
        let read = |path: &Path| -> Vec<u64> {
            std::fs::read_to_string(path).unwrap().lines().map(|line| line.parse().unwrap()).collect()
        };
        assert_eq!([read(&moved), read(&path)].concat(), (0..3000).collect::<Vec<u64>>());
        assert_eq!(read(&path).len(), 1000);
    }

    #[test]
    fn what_can_not_be_written_is_counted() {
        // A disk that is full.
        let log = LineLog::open(Path::new("/dev/full")).unwrap();
        (0..10).for_each(|_| log.line(b"line\n".to_vec()));
        wait("all are lost", || log.counts() == (10, 0));
        // A directory that is not there, and then is.
        let scratch = Scratch::new("late");
        let log = LineLog::open(&scratch.0.join("later/log")).unwrap();
        log.line(b"lost\n".to_vec());
        wait("it is lost", || log.counts() == (1, 0));
        std::fs::create_dir(scratch.0.join("later")).unwrap();
        wait("it works", || {
            log.line(b"line\n".to_vec());
            log.counts().1 > 0
        });
    }

    #[test]
    fn nobody_waits_for_a_pipe_that_is_not_read() {
        let scratch = Scratch::new("pipe");
        let path = scratch.0.join("pipe");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let log = LineLog::open(&path).unwrap();
        let start = Instant::now();
        (0..2 * ROOM).for_each(|_| log.line(vec![b'x'; 100]));
        assert!(log.counts().0 >= (ROOM - 1) as u64, "{:?}", log.counts());
        drop(log);
        assert!(start.elapsed() < Duration::from_secs(20));
    }
}

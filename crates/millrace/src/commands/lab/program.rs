//! What runs in the hosts: started in order, heard, and ended.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, PipeReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cli::failure::Failure;
use lab::{Namespace, Running, Signal};
use labfile::Command;

use super::reporter::Reporter;

/// Between two looks at programs and signals.
pub const TICK: Duration = Duration::from_millis(20);
/// How long programs may take to end when they are asked to.
const END: Duration = Duration::from_secs(5);
/// What is still on its way to us when a program has ended.
const REST: Duration = Duration::from_millis(500);
/// A line of output that is longer is shown in parts.
const LONGEST_LINE: usize = 16 << 10;

/// All programs of a lab.
pub struct Programs<'l> {
    folder: &'l Path,
    reporter: &'l Reporter,
    stop: &'l AtomicBool,
    running: Vec<Program>,
}

struct Program {
    host: String,
    line: String,
    running: Running,
    heard: Arc<Heard>,
    ended: bool,
}

/// What the thread that hears a program has found.
#[derive(Default)]
struct Heard {
    ready: AtomicBool,
    over: AtomicBool,
}

impl<'l> Programs<'l> {
    /// None yet. Paths are relative to `folder`; nothing more is waited for once `stop` is set.
    pub fn new(folder: &'l Path, reporter: &'l Reporter, stop: &'l AtomicBool) -> Self {
        Programs { folder, reporter, stop, running: Vec::new() }
    }

    /// Starts a program, and waits until it is ready, or at its end, where the plan says so.
    pub fn start(&mut self, host: &str, namespace: &Namespace, command: &Command) -> Result<(), Failure> {
        let line = command.words.join(" ");
        let refused = |problem: String| Failure::refused(format!("{host}: `{line}`: {problem}"));
        let (reader, writer) = io::pipe().map_err(Failure::refused)?;
        let errors = writer.try_clone().map_err(Failure::refused)?;
        let log = command.log.as_ref().map(|log| self.folder.join(log));
        let log = log.map(|path| File::create(&path).map_err(|e| refused(format!("{}: {e}", path.display()))));
        let to = match log.transpose()? {
            Some(file) => Output::File(file),
            None => Output::Reporter { reporter: self.reporter.clone(), host: host.to_owned() },
        };
        let heard = Arc::new(Heard::default());
        hear(reader, to, command.ready.clone(), heard.clone()).map_err(Failure::refused)?;
        let program = namespace.command(&command.words[0]).args(&command.words[1..]);
        let program = program.env("PATH", path()).current_dir(self.folder).output_to(writer).errors_to(errors);
        let running = program.spawn().map_err(Failure::refused)?;
        self.running.push(Program { host: host.to_owned(), line: line.clone(), running, heard, ended: false });
        if command.ready.is_none() && !command.wait {
            return Ok(());
        }
        let start = Instant::now();
        let program = self.running.last_mut().expect("it was added above");
        while !self.stop.load(Ordering::Relaxed) {
            let status = program.running.ended().map_err(Failure::refused)?;
            if status.is_some() {
                program.rest();
            }
            match status {
                Some(status) if command.wait && status.success() => {
                    program.ended = true;
                    return Ok(());
                }
                _ if program.heard.ready.load(Ordering::Relaxed) => return Ok(()),
                Some(status) => return Err(refused(format!("{status}"))),
                None if start.elapsed() > command.within => {
                    let what = if command.wait { "at its end" } else { "ready" };
                    return Err(refused(format!("not {what} after {:?}", command.within)));
                }
                None => thread::sleep(TICK),
            }
        }
        Ok(())
    }

    /// Says which programs have ended by themselves.
    pub fn look(&mut self) -> Result<(), Failure> {
        for program in self.running.iter_mut().filter(|program| !program.ended) {
            if let Some(status) = program.running.ended().map_err(Failure::refused)? {
                program.ended = true;
                program.rest();
                self.reporter.ended(&program.host, &program.line, status);
            }
        }
        Ok(())
    }

    /// Asks all programs to end, the last one first, and kills those that do not.
    pub fn end(mut self) -> Result<(), Failure> {
        self.look()?;
        for program in self.running.iter_mut().rev() {
            program.running.signal(Signal::SIGTERM).map_err(Failure::refused)?;
        }
        let start = Instant::now();
        while start.elapsed() < END {
            let mut all = true;
            for program in &mut self.running {
                all &= program.running.ended().map_err(Failure::refused)?.is_some();
            }
            if all {
                break;
            }
            thread::sleep(TICK);
        }
        for program in self.running {
            let heard = program.heard.clone();
            drop(program);
            wait_for(&heard.over);
        }
        Ok(())
    }
}

impl Program {
    /// Waits until all that it printed has been heard. What it started may hold its output open for longer.
    fn rest(&self) {
        wait_for(&self.heard.over);
    }
}

fn wait_for(flag: &AtomicBool) {
    let start = Instant::now();
    while !flag.load(Ordering::Relaxed) && start.elapsed() < REST {
        thread::sleep(Duration::from_millis(1));
    }
}

/// The folder of this program comes first, so that `millrace` means it.
fn path() -> OsString {
    let own = std::env::current_exe().ok().and_then(|exe| exe.parent().map(PathBuf::from));
    let paths = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let system = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    let all = own.into_iter().chain(std::env::split_paths(&paths)).chain(system);
    // It fails for a folder with a colon in its name, which PATH can't have.
    std::env::join_paths(all).unwrap_or(paths)
}

/// Where a program's output goes.
enum Output {
    File(File),
    Reporter { reporter: Reporter, host: String },
}

impl Output {
    fn write(&mut self, line: &[u8]) {
        match self {
            // A full disk is no reason to stop hearing the program, which would stand still then.
            Output::File(file) => drop(file.write_all(line)),
            Output::Reporter { reporter, host } => {
                reporter.output(host, String::from_utf8_lossy(line).trim_end_matches('\n'))
            }
        }
    }
}

/// Starts a thread that passes on what a program prints, line by line, and looks for `ready` in it.
fn hear(mut reader: PipeReader, mut to: Output, ready: Option<String>, heard: Arc<Heard>) -> io::Result<()> {
    let hear = move || {
        let (mut line, mut chunk) = (Vec::new(), [0; 4096]);
        while let Ok(length) = reader.read(&mut chunk)
            && length > 0
        {
            line.extend_from_slice(&chunk[..length]);
            // A prompt without an end of line counts, too.
            if ready.as_ref().is_some_and(|ready| line.windows(ready.len()).any(|part| part == ready.as_bytes())) {
                heard.ready.store(true, Ordering::Relaxed);
            }
            while let Some(end) = line.iter().position(|&byte| byte == b'\n') {
                to.write(&line[..=end]);
                line.drain(..=end);
            }
            if line.len() > LONGEST_LINE {
                to.write(&line);
                line.clear();
            }
        }
        if !line.is_empty() {
            to.write(&line);
        }
        heard.over.store(true, Ordering::Relaxed);
    };
    thread::Builder::new().name("lab-output".to_owned()).spawn(hear)?;
    Ok(())
}

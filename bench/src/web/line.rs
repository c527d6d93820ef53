//! The network with a running system in the middle.

use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use lab::Running;

use super::client;
use super::cpu::{self, Thread};
use super::network::{Links, MIDDLE_CPU, Middle, Network};
use crate::text;

/// Until a system serves.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running system with its network.
pub struct Line {
    // Dropped first.
    running: Option<Running>,
    pub network: Network,
    /// Where the client asks.
    pub address: SocketAddrV4,
    /// Its threads, where all of its work is in threads.
    pub threads: Vec<Thread>,
    /// What it needs as long as it runs.
    _scratch: Option<Scratch>,
}

/// What runs in the middle.
pub enum Program {
    /// The kernel alone.
    None,
    /// A command, with the files that it needs.
    Other(Vec<String>, Scratch),
    /// Millrace with this application and this configuration.
    Millrace(&'static str, String),
}

impl Line {
    /// Starts a system, and waits until it serves at this address.
    pub fn start(middle: Middle, links: Links, program: Program, address: SocketAddrV4) -> Result<Line, String> {
        let network = Network::new(middle, links)?;
        let is_millrace = matches!(program, Program::Millrace(..));
        let (command, scratch) = match program {
            Program::None => (None, None),
            Program::Other(command, scratch) => (Some(command), Some(scratch)),
            Program::Millrace(application, config) => {
                let scratch = Scratch::new()?;
                let config = scratch.write("millrace.toml", &config)?;
                (Some(millrace(application, &config)?), Some(scratch))
            }
        };
        let run = |command: Vec<String>| {
            let cpu = MIDDLE_CPU.to_string();
            network.middle.command("taskset").args(["-c", &cpu]).args(command).spawn().map_err(text)
        };
        let mut running = command.map(run).transpose()?;
        if let Some(running) = running.as_mut().filter(|_| is_millrace) {
            // What the kernel verifies meanwhile is not to be measured.
            running.wait_for_start(PATIENCE).map_err(text)?;
        }
        let mut line = Line { running, network, address, threads: Vec::new(), _scratch: scratch };
        line.wait()?;
        if let Some(running) = line.running.as_ref().filter(|_| is_millrace) {
            let receiving = if middle == Middle::Ports { line.network.ports_are_threaded()? } else { Vec::new() };
            line.threads = cpu::threads(running.id(), &receiving)?;
        }
        Ok(line)
    }

    /// Until a request is served.
    fn wait(&mut self) -> Result<(), String> {
        let start = Instant::now();
        loop {
            let Err(error) = self.check(1) else { return Ok(()) };
            let ended = match &mut self.running {
                Some(running) => running.ended().map_err(text)?.is_some(),
                None => false,
            };
            if ended || start.elapsed() > PATIENCE {
                let said = self.running.as_ref().map_or(String::new(), Running::both);
                return Err(format!("it does not serve: {error}\n{said}"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// One response is the right one.
    pub fn check(&self, bytes: usize) -> Result<(), String> {
        self.network.client.enter(|| client::check(self.address, bytes)).map_err(text)?
    }
}

/// The command that runs Millrace.
pub fn millrace(application: &str, config: &str) -> Result<Vec<String>, String> {
    let program = crate::millrace_beside()?;
    let arguments = ["run", application, "-c", config, "--no-socket"];
    Ok(std::iter::once(program.as_str()).chain(arguments).map(str::to_owned).collect())
}

/// A folder that is removed at the end.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new() -> Result<Self, String> {
        let folder = std::env::temp_dir().join(format!("millrace-bench-{}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(text)?;
        Ok(Scratch(folder))
    }

    /// Writes a file; its path.
    pub fn write(&self, name: &str, content: &str) -> Result<String, String> {
        let path = self.0.join(name);
        std::fs::write(&path, content).map_err(text)?;
        Ok(path.display().to_string())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left in the folder for temporary files is no loss.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

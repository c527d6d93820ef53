//! The translation as a process.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lab::{Namespace, Running, Signal};
use serde_json::Value as Json;

use super::sites::{PROXY, PROXY_AT_SERVERS};
use crate::text;

/// Until it serves, or has ended.
const PATIENCE: Duration = Duration::from_secs(120);
/// Connections, of one client too.
const MOST: usize = 16_000;
/// Of HTTP.
pub const PORT: u16 = 8080;

/// How it is started.
#[derive(Clone, Copy)]
pub struct Start {
    pub fill: &'static str,
    /// Where all of it is, giving way to others there.
    pub cpu: Option<usize>,
    /// Frames of its own; the example's where that is 0.
    pub frames: usize,
}

impl Default for Start {
    fn default() -> Start {
        Start { fill: "buffered", cpu: None, frames: 0 }
    }
}

pub struct Millrace {
    running: Running,
    host: String,
    program: String,
    folder: PathBuf,
}

impl Millrace {
    /// Begins; see [`Millrace::wait`]. It has the example's configuration, and may be asked for streams that come to
    /// the host's own address.
    pub fn start(host: &Namespace, start: Start) -> Result<Millrace, String> {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("millrace-bench-translate-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(text)?;
        let config = folder.join("translate.toml");
        let mut own = include_str!("../../translate.toml").replace("auto:", "xdp:");
        own = own.replace("groups = [", &format!("groups = [\"{PROXY_AT_SERVERS}\", "));
        own = own.replace("fill = \"buffered\"", &format!("fill = \"{}\"", start.fill));
        own = own.replace("\nconnections = 4096", &format!("\nconnections = {MOST}"));
        own = own.replace("\nper_client = 64 ", &format!("\nper_client = {MOST} "));
        own = own.replace("\nper_stream = 4096", &format!("\nper_stream = {MOST}"));
        // A source sends nothing between two measurements.
        own = own.replace("\nsilence = \"10s\"", "\nsilence = \"0s\"");
        if start.frames != 0 {
            own = own.replace("count = 131072", &format!("count = {}", start.frames));
        }
        std::fs::write(&config, own).map_err(text)?;
        let program = crate::millrace_beside()?;
        let command = match start.cpu {
            // Both are replaced by what they run.
            Some(cpu) => host.command("chrt").args(["--batch", "0", "taskset", "-c", &cpu.to_string(), &program]),
            None => host.command(&program),
        };
        let command = command.args(["run", "translate", "-c"]).arg(&config);
        let command = command.arg("--socket").arg(folder.join("socket")).arg("--state").arg(folder.join("state"));
        Ok(Millrace { running: command.spawn().map_err(text)?, host: host.path(), program, folder })
    }

    /// It takes connections.
    pub fn wait(&mut self) -> Result<(), String> {
        self.running.wait_for_start(PATIENCE).map_err(text)
    }

    /// Where a stream that comes to the host's own address is.
    pub fn path(port: u16) -> String {
        format!("/rtp/{PROXY_AT_SERVERS}:{port}")
    }

    /// The address of HTTP.
    pub fn place() -> std::net::SocketAddrV4 {
        std::net::SocketAddrV4::new(PROXY, PORT)
    }

    /// What a command says.
    pub fn ask(&self, words: &[&str]) -> Result<Json, String> {
        let mut command = std::process::Command::new("nsenter");
        command.arg(format!("--net={}", self.host)).arg(&self.program).args(words).arg("--json");
        let output = command.arg("--socket").arg(self.folder.join("socket")).output().map_err(text)?;
        match output.status.success() {
            true => serde_json::from_slice(&output.stdout).map_err(text),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    /// Bytes in memory that are its own.
    pub fn memory(&self) -> Result<f64, String> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.running.id())).map_err(text)?;
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kib: Option<f64> = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        kib.map(|kib| kib * 1024.0).ok_or_else(|| "no RssAnon".into())
    }

    /// Ends it as Ctrl-C does.
    pub fn end(mut self) -> Result<(), String> {
        self.running.signal(Signal::SIGINT).map_err(text)?;
        let output = self.running.wait(PATIENCE).map_err(text)?;
        if output.status.success() { Ok(()) } else { Err(output.to_string()) }
    }
}

impl Drop for Millrace {
    fn drop(&mut self) {
        // What is left in the folder for temporary files is no loss.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

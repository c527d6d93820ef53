//! CPU time of the middle: what its CPU was not idle, and where all of its work is in threads, that of each of them,
//! which other programs on the same CPU do not change.

use std::path::PathBuf;
use std::time::Instant;

use super::network::MIDDLE_CPU;
use crate::text;

/// A look at the clocks.
pub struct LookUp {
    at: Instant,
    /// Seconds that the CPU was idle, or was not there because the machine below ran others.
    idle: f64,
    /// Seconds of each group of threads.
    threads: Vec<(&'static str, f64)>,
}

/// A thread, and what it is counted as.
pub type Thread = (&'static str, PathBuf);

/// The threads of a running Millrace, with those of the kernel that receive packets at its ports.
pub fn threads(process: u32, receiving: &[i32]) -> Result<Vec<Thread>, String> {
    let mut all: Vec<Thread> =
        receiving.iter().map(|thread| ("receiving", format!("/proc/{thread}/schedstat").into())).collect();
    for entry in std::fs::read_dir(format!("/proc/{process}/task")).map_err(text)? {
        let folder = entry.map_err(text)?.path();
        let name = std::fs::read_to_string(folder.join("comm")).map_err(text)?;
        let group = match name.trim_end() {
            name if name.starts_with("ctl-") => "controller",
            name if name.starts_with("worker") => "worker",
            _ => "others",
        };
        all.push((group, folder.join("schedstat")));
    }
    Ok(all)
}

impl LookUp {
    /// Now, at these threads, too.
    pub fn now(threads: &[Thread]) -> Result<LookUp, String> {
        let mut groups: Vec<(&'static str, f64)> = Vec::new();
        for (group, file) in threads {
            // Nanoseconds on a CPU, those waiting for one, and turns. A thread that has ended adds nothing more.
            let time = std::fs::read_to_string(file).unwrap_or_default();
            let time = time.split(' ').next().and_then(|time| time.parse::<f64>().ok()).unwrap_or(0.0) / 1e9;
            match groups.iter_mut().find(|(own, _)| own == group) {
                Some((_, sum)) => *sum += time,
                None => groups.push((group, time)),
            }
        }
        let (at, stat) = (Instant::now(), std::fs::read_to_string("/proc/stat").map_err(text)?);
        let own = format!("cpu{MIDDLE_CPU} ");
        let line = stat.lines().find_map(|line| line.strip_prefix(&own)).ok_or("/proc/stat has no such CPU")?;
        let ticks: Vec<f64> = line.split_whitespace().filter_map(|tick| tick.parse().ok()).collect();
        // user nice system idle iowait irq softirq steal, in hundredths of a second; the kernel keeps the idle time by
        // its clock.
        let [_, _, _, idle, wait, _, _, steal, ..] = ticks[..] else {
            return Err("/proc/stat has another form".into());
        };
        Ok(LookUp { at, idle: (idle + wait + steal) / 100.0, threads: groups })
    }

    /// Seconds of work from then to a later look.
    pub fn work_until(&self, later: &LookUp) -> f64 {
        let idle = later.idle - self.idle;
        ((later.at - self.at).as_secs_f64() - idle).max(0.0)
    }

    /// Seconds of each group of threads from then to a later look.
    pub fn threads_until(&self, later: &LookUp) -> Vec<(&'static str, f64)> {
        let groups = self.threads.iter().zip(&later.threads);
        groups.map(|((group, from), (_, to))| (*group, (to - from).max(0.0))).collect()
    }
}

//! A load, and what it costs the middle.

use std::time::Duration;

use super::client::{self, Load, Served};
use super::cpu::LookUp;
use super::line::Line;
use super::network::{HOSTS_CPU, Links};
use crate::results::Results;
use crate::text;

/// Connections at a time: of requests for a lot of data fewer, which fill the links all the same.
pub const CONNECTIONS: usize = 64;
const FEW_CONNECTIONS: usize = 16;
const A_LOT: usize = 128 << 10;
/// Where the middle's CPU is that busy with nothing to do, another process uses it.
const BUSY: f64 = 0.05;

/// Requests for so many bytes.
#[derive(Clone, Copy, PartialEq)]
pub struct Requests {
    pub bytes: usize,
    /// A connection has one request after the other.
    pub keeps_alive: bool,
}

impl Requests {
    /// What the case is called.
    pub fn name(self, links: Links) -> String {
        let connections = if self.keeps_alive { "keep-alive" } else { "new connections" };
        let links = if links == Links::Offloads { ", offloads on" } else { "" };
        format!("{} bytes, {connections}{links}", self.bytes)
    }
}

/// What came of a load, and seconds of CPU time.
pub struct Cost {
    pub served: Served,
    /// Of the middle's CPU.
    pub work: f64,
    /// Of each group of the system's threads.
    pub threads: Vec<(&'static str, f64)>,
}

/// Makes a load.
pub fn load(line: &Line, requests: Requests, connections: usize, window: Duration) -> Result<Cost, String> {
    let Requests { bytes, keeps_alive } = requests;
    let connections = if bytes >= A_LOT { connections.min(FEW_CONNECTIONS) } else { connections };
    let load = Load { address: line.address, bytes, connections, keeps_alive, warm: window / 5, window };
    let run = || {
        super::pin(0, HOSTS_CPU)?;
        client::run(load, || LookUp::now(&line.threads))
    };
    let (served, [first, last]) = line.network.client.enter(run).map_err(text)??;
    Ok(Cost { served, work: first.work_until(&last), threads: first.threads_until(&last) })
}

/// What others use of the middle's CPU, in all rounds.
#[derive(Default)]
pub struct Foreign(f64);

impl Foreign {
    /// Looks, while the middle has nothing to do.
    pub fn look(&mut self, time: Duration) -> Result<(), String> {
        let before = LookUp::now(&[])?;
        std::thread::sleep(time);
        self.0 = self.0.max(before.work_until(&LookUp::now(&[])?) / time.as_secs_f64());
        Ok(())
    }

    /// Says so where it was too much.
    pub fn note(&self, results: &mut Results) {
        if self.0 > BUSY {
            results.note(format!(
                "THE MACHINE WAS BUSY: up to {:.0} % of the middle's CPU was used while the system there had nothing to \
                 do",
                self.0 * 100.0
            ));
        }
    }
}

//! The controllers of an instance as threads: started with the workers, ended before them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use baker::ir::{ControllerId, Program};

use super::{Controller, Link, NamedTables, Rings};
use crate::crew::panic_text;

/// How long a controller may take to end.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks at one that ends.
const PAUSE: Duration = Duration::from_millis(1);

/// A controller that waits to be started.
pub(crate) struct Waiting {
    pub name: String,
    pub controller: Box<dyn Controller>,
    pub rings: Arc<Rings>,
}

/// Running controllers.
#[derive(Debug, Default)]
pub(crate) struct Controllers {
    running: Vec<Running>,
    /// What went wrong with those that have ended, one line each.
    errors: Vec<String>,
}

#[derive(Debug)]
struct Running {
    name: String,
    rings: Arc<Rings>,
    thread: Option<JoinHandle<Result<(), String>>>,
}

impl Controllers {
    /// Starts each on a thread of its own. They are in the order of their ids.
    pub fn start(program: &Arc<Program>, waiting: Vec<Waiting>, tables: &NamedTables) -> std::io::Result<Self> {
        let mut all = Controllers::default();
        for (id, Waiting { name, mut controller, rings }) in (0..).zip(waiting) {
            let (program, tables, own) = (program.clone(), tables.clone(), rings.clone());
            let run = move || {
                let mut link = Link::new(program, ControllerId(id), own.clone(), tables);
                let result = catch_unwind(AssertUnwindSafe(|| controller.run(&mut link)));
                own.close();
                result.unwrap_or_else(|panic| Err(panic_text(&*panic).to_owned()))
            };
            let thread = thread::Builder::new().name(format!("ctl-{name}")).spawn(run)?;
            all.running.push(Running { name, rings, thread: Some(thread) });
        }
        Ok(all)
    }

    /// Tells them to end and waits for that, while the workers still run what they inject.
    pub fn stop(&mut self) {
        self.running.iter().for_each(|one| one.rings.stop());
        let deadline = Instant::now() + PATIENCE;
        for Running { name, rings, thread } in &mut self.running {
            let Some(thread) = thread.take() else { continue };
            while !thread.is_finished() && Instant::now() < deadline {
                thread::sleep(PAUSE);
            }
            if !thread.is_finished() {
                // It is left alone: what it shares with the workers lives as long as it.
                rings.close();
                self.errors.push(format!("controller {name} did not end within {} s", PATIENCE.as_secs()));
                continue;
            }
            let result = thread.join().unwrap_or_else(|panic| Err(panic_text(&*panic).to_owned()));
            self.errors.extend(result.err().map(|error| format!("controller {name}: {error}")));
        }
    }

    /// Takes back the frames of packets that are still in the rings, when the workers have ended; how many. Then what went
    /// wrong, one line each.
    pub fn finish(&mut self) -> (u64, Vec<String>) {
        (self.running.iter().map(|one| one.rings.drain()).sum(), std::mem::take(&mut self.errors))
    }
}

impl Drop for Controllers {
    fn drop(&mut self) {
        self.stop();
    }
}

//! The controllers of an instance as threads: started with the workers, ended before them. Where a program takes over from another,
//! a controller of both goes on with the new one.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use baker::ir::{ControllerId, Program};

use super::{Controller, Link, NamedTables, Rings};
use crate::crew::panic_text;

/// How long a controller may take to end, or to go on with another program.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks at one that ends.
const PAUSE: Duration = Duration::from_millis(1);

/// A controller that waits to be started.
pub(crate) struct Waiting {
    pub name: String,
    pub controller: Box<dyn Controller>,
    pub rings: Arc<Rings>,
}

/// What a controller is to a program.
struct Role {
    program: Arc<Program>,
    id: ControllerId,
    rings: Arc<Rings>,
    tables: NamedTables,
}

/// What a controller goes on with when its link has told it to stop.
type Next = Arc<Mutex<Option<Role>>>;

/// Running controllers.
#[derive(Debug, Default)]
pub(crate) struct Controllers {
    running: Vec<Running>,
    /// What went wrong with those that have ended, one line each.
    errors: Vec<String>,
}

struct Running {
    name: String,
    rings: Arc<Rings>,
    next: Next,
    thread: Option<JoinHandle<Result<(), String>>>,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").field("name", &self.name).finish_non_exhaustive()
    }
}

fn lock(next: &Next) -> std::sync::MutexGuard<'_, Option<Role>> {
    next.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Running {
    /// Starts a controller on a thread of its own.
    fn start(name: String, mut controller: Box<dyn Controller>, mut role: Role) -> io::Result<Self> {
        let (rings, next) = (role.rings.clone(), Next::default());
        let following = next.clone();
        let run = move || {
            loop {
                let rings = role.rings.clone();
                let mut link = Link::new(role.program, role.id, rings.clone(), role.tables);
                let result = catch_unwind(AssertUnwindSafe(|| controller.run(&mut link)));
                let result = result.unwrap_or_else(|panic| Err(panic_text(&*panic).to_owned()));
                match lock(&following).take() {
                    Some(another) if result.is_ok() => role = another,
                    another => {
                        rings.close();
                        another.iter().for_each(|role| role.rings.close());
                        return result;
                    }
                }
            }
        };
        let thread = thread::Builder::new().name(format!("ctl-{name}")).spawn(run)?;
        Ok(Running { name, rings, next, thread: Some(thread) })
    }

    fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for the end of one that was told to stop; what went wrong.
    fn end(&mut self, deadline: Instant) -> Option<String> {
        let (name, thread) = (&self.name, self.thread.take()?);
        while !thread.is_finished() && Instant::now() < deadline {
            thread::sleep(PAUSE);
        }
        if !thread.is_finished() {
            // It is left alone: what it shares with the workers lives as long as it.
            self.rings.close();
            return Some(format!("controller {name} did not end within {} s", PATIENCE.as_secs()));
        }
        let result = thread.join().unwrap_or_else(|panic| Err(panic_text(&*panic).to_owned()));
        result.err().map(|error| format!("controller {name}: {error}"))
    }
}

impl Controllers {
    /// Starts each on a thread of its own. They are in the order of their ids.
    pub fn start(program: &Arc<Program>, waiting: Vec<Waiting>, tables: &NamedTables) -> io::Result<Self> {
        let mut all = Controllers::default();
        for (id, Waiting { name, controller, rings }) in (0..).zip(waiting) {
            let role = Role { program: program.clone(), id: ControllerId(id), rings, tables: tables.clone() };
            all.running.push(Running::start(name, controller, role)?);
        }
        Ok(all)
    }

    /// Names of those that run.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.running.iter().filter(|one| !one.is_finished()).map(|one| one.name.as_str())
    }

    /// Goes on with another program. A controller that runs finishes what it has and goes on; of `waiting`, the others
    /// are started, and those that the program does not have end. The rings of the old program, for whoever takes what they hold.
    pub fn take_over(
        &mut self,
        program: &Arc<Program>,
        waiting: Vec<Waiting>,
        tables: &NamedTables,
    ) -> io::Result<Vec<Arc<Rings>>> {
        let mut before = std::mem::take(&mut self.running);
        let old: Vec<Arc<Rings>> = before.iter().map(|one| one.rings.clone()).collect();
        let deadline = Instant::now() + PATIENCE;
        for (id, Waiting { name, controller, rings }) in (0..).zip(waiting) {
            let role =
                Role { program: program.clone(), id: ControllerId(id), rings: rings.clone(), tables: tables.clone() };
            let running = before.iter().position(|one| one.name == name && !one.is_finished());
            match running.map(|index| before.swap_remove(index)) {
                Some(mut one) => {
                    *lock(&one.next) = Some(role);
                    one.rings.stop();
                    while lock(&one.next).is_some() && !one.is_finished() && Instant::now() < deadline {
                        thread::sleep(PAUSE);
                    }
                    one.rings = rings;
                    self.running.push(one);
                }
                None => self.running.push(Running::start(name, controller, role)?),
            }
        }
        before.iter().for_each(|one| one.rings.stop());
        self.errors.extend(before.iter_mut().filter_map(|one| one.end(deadline)));
        Ok(old)
    }

    /// Tells them to end and waits for that, while the workers still run what they inject.
    pub fn stop(&mut self) {
        self.running.iter().for_each(|one| one.rings.stop());
        let deadline = Instant::now() + PATIENCE;
        self.errors.extend(self.running.iter_mut().filter_map(|one| one.end(deadline)));
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

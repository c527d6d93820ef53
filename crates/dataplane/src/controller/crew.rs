//! The controllers of an instance as threads: started with the workers, ended before them. Where a program takes over from another,
//! a controller of both goes on with the new one.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use baker::ir::{ControllerId, Program};

use super::Controller;
use super::health::{Health, Roster};
use super::link::Link;
use super::rings::Rings;
use super::tables::NamedTables;
use crate::sys::panic_text;

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

impl Role {
    fn link(&self) -> Link {
        Link::new(self.program.clone(), self.id, self.rings.clone(), self.tables.clone())
    }
}

/// What a controller goes on with when its link has told it to stop.
type Next = Arc<Mutex<Option<Role>>>;

/// Running controllers.
#[derive(Debug, Default)]
pub(crate) struct Controllers {
    running: Vec<Running>,
    roster: Roster,
    /// What went wrong with those that have ended, one line each.
    errors: Vec<String>,
}

struct Running {
    rings: Arc<Rings>,
    next: Next,
    health: Arc<Health>,
    thread: Option<JoinHandle<Result<(), String>>>,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").field("health", &self.health).finish_non_exhaustive()
    }
}

fn lock(next: &Next) -> std::sync::MutexGuard<'_, Option<Role>> {
    next.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a controller to its end, with one program after the other. Where it fails it is called again, until it is told to stop.
fn run(controller: &mut dyn Controller, mut role: Role, next: &Next, health: &Health) -> Result<(), String> {
    loop {
        health.begins(Instant::now());
        let mut link = role.link();
        let result = catch_unwind(AssertUnwindSafe(|| controller.run(&mut link)));
        let result = result.unwrap_or_else(|panic| Err(panic_text(&*panic).to_owned()));
        drop(link);
        let another = lock(next).take();
        match (result, another) {
            (Ok(()), Some(another)) => role = another,
            (Ok(()), None) => {
                role.rings.close();
                if !role.rings.is_stopping() {
                    health.ends();
                }
                return Ok(());
            }
            (Err(error), another) => {
                let pause = health.fails(&error, Instant::now());
                role.rings.close();
                // Another program may be what it needs.
                match another.map_or_else(|| wait(&role, next, pause), After::Another) {
                    After::Another(another) => role = another,
                    After::Again => role.rings.open(),
                    After::Stop => return Err(error),
                }
            }
        }
    }
}

/// What becomes of a controller that has failed.
enum After {
    /// It is called with another program.
    Another(Role),
    /// It is called again.
    Again,
    /// It is told to stop.
    Stop,
}

/// Waits, on a controller's thread, until it is to be called again, or sooner if it is told something.
fn wait(role: &Role, next: &Next, pause: Duration) -> After {
    let start = Instant::now();
    loop {
        // Asked first: what it is to go on with is there when it is told to stop.
        let stopping = role.rings.is_stopping();
        if let Some(another) = lock(next).take() {
            return After::Another(another);
        }
        if stopping {
            return After::Stop;
        }
        match pause.checked_sub(start.elapsed()) {
            Some(left) if !left.is_zero() => thread::park_timeout(left),
            _ => return After::Again,
        }
    }
}

impl Running {
    /// Starts a controller on a thread of its own.
    fn start(mut controller: Box<dyn Controller>, role: Role, health: Arc<Health>) -> io::Result<Self> {
        let (rings, next) = (role.rings.clone(), Next::default());
        let (following, watched) = (next.clone(), health.clone());
        let run = move || run(&mut *controller, role, &following, &watched);
        let thread = thread::Builder::new().name(format!("ctl-{}", health.name())).spawn(run)?;
        Ok(Running { rings, next, health, thread: Some(thread) })
    }

    fn name(&self) -> &str {
        self.health.name()
    }

    fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for the end of one that was told to stop; what went wrong.
    fn end(&mut self, deadline: Instant) -> Option<String> {
        let thread = self.thread.take()?;
        while !thread.is_finished() && Instant::now() < deadline {
            thread::sleep(PAUSE);
        }
        if !thread.is_finished() {
            // It is left alone: what it shares with the workers lives as long as it.
            self.rings.close();
            return Some(format!("controller {} did not end within {} s", self.name(), PATIENCE.as_secs()));
        }
        let result = thread.join().unwrap_or_else(|panic| Err(panic_text(&*panic).to_owned()));
        result.err().map(|error| format!("controller {}: {error}", self.name()))
    }
}

impl Controllers {
    /// Starts each on a thread of its own. They are in the order of their ids. The roster is from then on of these.
    pub fn start(
        program: &Arc<Program>,
        waiting: Vec<Waiting>,
        tables: &NamedTables,
        roster: Roster,
    ) -> io::Result<Self> {
        let mut all = Controllers { running: Vec::new(), roster, errors: Vec::new() };
        for (id, Waiting { name, controller, rings }) in (0..).zip(waiting) {
            let role = Role { program: program.clone(), id: ControllerId(id), rings, tables: tables.clone() };
            all.running.push(Running::start(controller, role, Arc::new(Health::new(&name)))?);
        }
        all.call_the_roll();
        Ok(all)
    }

    fn call_the_roll(&self) {
        self.roster.set(self.running.iter().map(|one| one.health.clone()).collect());
    }

    /// Names of those that run, or will again.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.running.iter().filter(|one| !one.is_finished()).map(Running::name)
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
            let known = before.iter().position(|one| one.name() == name).map(|index| before.swap_remove(index));
            match known {
                Some(mut one) if !one.is_finished() => {
                    *lock(&one.next) = Some(role);
                    one.rings.stop();
                    while lock(&one.next).is_some() && !one.is_finished() && Instant::now() < deadline {
                        thread::sleep(PAUSE);
                    }
                    one.rings = rings;
                    self.running.push(one);
                }
                // What is known of one that has ended goes on.
                Some(one) => self.running.push(Running::start(controller, role, one.health.clone())?),
                None => self.running.push(Running::start(controller, role, Arc::new(Health::new(&name)))?),
            }
        }
        self.call_the_roll();
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

//! The controllers of an instance as threads: started with the workers, ended before them. Where a program takes over
//! from another, a controller of both goes on with the new one.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use baker::ir::ControllerId;

use super::Controller;
use super::health::{Health, Roster};
use super::link::Link;
use super::rings::{Rings, Stop};
use super::signal::Sleeper;
use super::tables::NamedTables;
use crate::rendezvous::Rendezvous;
use crate::sys::{self, panic_text};

/// How long a controller may take to go on with another program, or to end where it asks for no more.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks at one that ends.
const PAUSE: Duration = Duration::from_millis(1);

/// A controller that waits to be started.
pub(crate) struct Waiting {
    pub name: String,
    pub controller: Box<dyn Controller>,
    /// One for each of its links.
    pub rings: Vec<Arc<Rings>>,
}

/// What a controller is to a program.
struct Role {
    id: ControllerId,
    rings: Vec<Arc<Rings>>,
    tables: NamedTables,
}

impl Role {
    /// Its first link, which has the others.
    fn link(&self, health: &Arc<Health>) -> Link {
        let new =
            |rings: &Arc<Rings>, others| Link::new(self.id, rings.clone(), self.tables.clone(), health.clone(), others);
        let others = self.rings[1..].iter().map(|rings| new(rings, Vec::new())).collect();
        new(&self.rings[0], others)
    }

    fn close(&self) {
        self.rings.iter().for_each(|rings| rings.close());
    }

    fn open(&self) {
        self.rings.iter().for_each(|rings| rings.open());
    }

    fn is_stopping(&self) -> bool {
        self.rings[0].stopping().is_some()
    }
}

/// What a controller goes on with when its link has told it to stop; the answer is that it does.
type Next = Rendezvous<Role, ()>;

/// Running controllers.
#[derive(Debug, Default)]
pub(crate) struct Controllers {
    running: Vec<Running>,
    roster: Roster,
    /// What went wrong with those that have ended, one line each.
    errors: Vec<String>,
}

struct Running {
    rings: Vec<Arc<Rings>>,
    next: Next,
    health: Arc<Health>,
    thread: Option<JoinHandle<Result<(), String>>>,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").field("health", &self.health).finish_non_exhaustive()
    }
}

/// Takes what a controller is to go on with.
fn take(next: &Next) -> Option<Role> {
    let (role, reply) = next.take()?;
    reply.answer(());
    Some(role)
}

/// Runs a controller to its end, with one program after the other. Where it fails it is called again, until it is told
/// to stop.
fn run(controller: &mut dyn Controller, mut role: Role, next: &Next, health: &Arc<Health>) -> Result<(), String> {
    loop {
        health.begins(Instant::now());
        let mut link = role.link(health);
        let result = catch_unwind(AssertUnwindSafe(|| controller.run(&mut link)));
        let result = result.unwrap_or_else(|panic| Err(panic_text(&*panic).to_owned()));
        drop(link);
        let another = take(next);
        match (result, another) {
            (Ok(()), Some(another)) => role = another,
            (Ok(()), None) => {
                role.close();
                if !role.is_stopping() {
                    health.ends();
                }
                return Ok(());
            }
            (Err(error), another) => {
                let pause = health.fails(&error, Instant::now());
                role.close();
                // Another program may be what it needs.
                match another.map_or_else(|| wait(&role, next, pause), After::Another) {
                    After::Another(another) => role = another,
                    After::Again => role.open(),
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
    let until = Instant::now() + pause;
    let sleeper = Sleeper::new(role.rings[0].signal().clone());
    loop {
        sleeper.arm();
        // Asked first: what it is to go on with is there when it is told to stop.
        let stopping = role.is_stopping();
        if let Some(another) = take(next) {
            return After::Another(another);
        }
        if stopping {
            return After::Stop;
        }
        if Instant::now() >= until {
            return After::Again;
        }
        sleeper.wait(Some(until));
        sleeper.disarm();
    }
}

impl Running {
    /// Starts a controller on a thread of its own.
    fn start(mut controller: Box<dyn Controller>, role: Role, health: Arc<Health>) -> io::Result<Self> {
        let (rings, next) = (role.rings.clone(), Next::default());
        let (following, watched) = (next.clone(), health.clone());
        let run = move || {
            // Otherwise the kernel may let it sleep for 50 µs longer, and as much again for each of its threads.
            sys::wake_on_time();
            let result = run(&mut *controller, role, &following, &watched);
            following.close();
            result
        };
        let thread = thread::Builder::new().name(format!("ctl-{}", health.name())).spawn(run)?;
        Ok(Running { rings, next, health, thread: Some(thread) })
    }

    fn name(&self) -> &str {
        self.health.name()
    }

    fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    fn stop(&self, why: Stop) {
        if why == Stop::End {
            self.health.told(Instant::now());
        }
        self.rings.iter().for_each(|rings| rings.stop(why));
    }

    /// Waits for the end of one that was told to stop, for [`PATIENCE`] or as long as it has asked for; what went
    /// wrong.
    fn end(&mut self, told: Instant) -> Option<String> {
        let thread = self.thread.take()?;
        // One that drains ends by itself; what is left then is an end as any other.
        let deadline = || self.health.drain().map_or(told + PATIENCE, |drain| drain.max(told) + PATIENCE);
        while !thread.is_finished() && Instant::now() < deadline() {
            thread::sleep(PAUSE);
        }
        if !thread.is_finished() {
            // It is left alone: what it shares with the workers lives as long as it.
            self.rings.iter().for_each(|rings| rings.close());
            let seconds = (deadline() - told).as_secs();
            return Some(format!("controller {} did not end within {seconds} s", self.name()));
        }
        let result = thread.join().unwrap_or_else(|panic| Err(panic_text(&*panic).to_owned()));
        result.err().map(|error| format!("controller {}: {error}", self.name()))
    }
}

impl Controllers {
    /// Starts each on a thread of its own. They are in the order of their ids. The roster is from then on of these.
    pub fn start(waiting: Vec<Waiting>, tables: &NamedTables, roster: Roster) -> io::Result<Self> {
        let mut all = Controllers { running: Vec::new(), roster, errors: Vec::new() };
        for (id, Waiting { name, controller, rings }) in (0..).zip(waiting) {
            let role = Role { id: ControllerId(id), rings, tables: tables.clone() };
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
    /// are started, and those that the program does not have end. The rings of the old program, for the thread that
    /// takes what they hold.
    pub fn take_over(&mut self, waiting: Vec<Waiting>, tables: &NamedTables) -> io::Result<Vec<Arc<Rings>>> {
        let mut before = std::mem::take(&mut self.running);
        let old: Vec<Arc<Rings>> = before.iter().flat_map(|one| one.rings.clone()).collect();
        let told = Instant::now();
        for (id, Waiting { name, controller, rings }) in (0..).zip(waiting) {
            let role = Role { id: ControllerId(id), rings: rings.clone(), tables: tables.clone() };
            let known = before.iter().position(|one| one.name() == name).map(|index| before.swap_remove(index));
            match known {
                Some(mut one) if !one.is_finished() => {
                    let next = one.next.tell(role);
                    one.stop(Stop::TakeOver);
                    // One that is late goes on with it when it gets round to it.
                    let _ = next.wait(PATIENCE.saturating_sub(told.elapsed()));
                    one.rings = rings;
                    self.running.push(one);
                }
                // What is known of one that has ended goes on.
                Some(one) => self.running.push(Running::start(controller, role, one.health.clone())?),
                None => self.running.push(Running::start(controller, role, Arc::new(Health::new(&name)))?),
            }
        }
        self.call_the_roll();
        before.iter().for_each(|one| one.stop(Stop::Removed));
        self.errors.extend(before.iter_mut().filter_map(|one| one.end(told)));
        Ok(old)
    }

    /// Tells them to end and waits for that, while the workers still run what they inject.
    pub fn stop(&mut self) {
        let told = Instant::now();
        self.running.iter().for_each(|one| one.stop(Stop::End));
        self.errors.extend(self.running.iter_mut().filter_map(|one| one.end(told)));
    }

    /// Whether one of them wants what runs in the kernel to stay there.
    pub fn keeps_kernel(&self) -> bool {
        self.running.iter().any(|one| one.health.keeps_kernel())
    }

    /// Takes back the frames of packets that are still in the rings, when the workers have ended; how many. Then what
    /// went wrong, one line each.
    pub fn finish(&mut self) -> (u64, Vec<String>) {
        let rings = self.running.iter().flat_map(|one| &one.rings);
        (rings.map(|rings| rings.drain()).sum(), std::mem::take(&mut self.errors))
    }
}

impl Drop for Controllers {
    fn drop(&mut self) {
        self.stop();
    }
}

//! What a running controller has: the packets for it, a way to inject its own, timers, and the tables.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use baker::ir::{ChannelId, ControllerId, MetaId, Program, Source};

use super::error::NameError;
use super::health::Health;
use super::injector::{InjectError, Injector, Input};
use super::loan::Work;
use super::metadata::Field;
use super::punted::Punted;
use super::rings::{PortInfo, Rings, Stop};
use super::signal::{LinkFd, Sleeper};
use super::tables::NamedTables;
use super::wheel::Wheel;
use crate::sys;

/// How long a controller that waits for room does so before it may try again anyway.
const RETRY: Duration = Duration::from_millis(1);

/// Sources of events: timers, calls, room, packets.
const SOURCES: usize = 4;

/// What [`Link::receive`] found.
#[derive(Debug)]
pub enum Event {
    /// A packet.
    Packet(Punted),
    /// The timer of this key is due, and no longer set.
    Timer(u64),
    /// There is room again for packets, after [`InjectError::Busy`].
    Room,
    /// Nothing came in that time, or a [`Waker`] was used.
    Idle,
    /// There are no more packets, and the link ends: return.
    Stop,
}

/// A controller's side of the data path.
#[derive(Debug)]
pub struct Link {
    injector: Injector,
    controller: ControllerId,
    tables: NamedTables,
    health: Arc<Health>,
    sleeper: Sleeper,
    wheel: Wheel,
    /// The worker whose packets come next.
    next: usize,
    /// The source of events that is asked first.
    turn: usize,
    /// Packets that come before the end, once it is known.
    left: Option<usize>,
    /// When one that waits for room tries again.
    retry: Option<Instant>,
    /// Until when it goes on though it is told to stop.
    drain: Option<Instant>,
    others: Vec<Link>,
}

/// Wakes a controller that waits, from any thread: [`Link::receive`] then says [`Event::Idle`]. Clones are the same,
/// and end with their link.
#[derive(Clone, Debug)]
pub struct Waker(Arc<Rings>);

impl Waker {
    /// Wakes it, or has it not wait the next time. To be called after what it is to see was made visible.
    pub fn wake(&self) {
        self.0.call();
    }
}

impl Link {
    /// Of rings that no other link has.
    pub(super) fn new(
        controller: ControllerId,
        rings: Arc<Rings>,
        tables: NamedTables,
        health: Arc<Health>,
        others: Vec<Link>,
    ) -> Self {
        rings.begin();
        rings.signal().note_in(health.pace());
        Link {
            sleeper: Sleeper::new(rings.signal().clone()),
            injector: Injector { rings },
            controller,
            tables,
            health,
            wheel: Wheel::new(Instant::now()),
            next: 0,
            turn: 0,
            left: None,
            retry: None,
            drain: None,
            others,
        }
    }

    // Events.

    /// The next event; waits for one that long. The packets of one worker come in order.
    pub fn receive(&mut self, timeout: Duration) -> Event {
        self.wait(timeout, None)
    }

    /// As [`Link::receive`]. While it waits, a worker that has packets does this work on them, on its own thread and to
    /// completion, in place of waking the controller; what that injects the worker runs next. Where something is due
    /// earlier than this would wait, by what the work says, it is [`Event::Idle`].
    ///
    /// For work of some microseconds a packet: the worker forwards nothing meanwhile. Packets that are left after a
    /// while, or that the work does not take, come here. Where tables are kept on disk it is not lent: a change of one
    /// may wait.
    ///
    /// # Panics
    /// Where the work has, with the same.
    pub fn receive_or_lend(&mut self, timeout: Duration, work: &mut Work<'_>) -> Event {
        self.wait(timeout, Some(work))
    }

    fn wait(&mut self, timeout: Duration, work: Option<&mut Work<'_>>) -> Event {
        // No worker waits for a disk.
        let mut work = work.filter(|_| !self.tables.is_told());
        let mut deadline = None;
        loop {
            if let Some(event) = self.poll() {
                return event;
            }
            // A wait for what was injected lasts no longer than for the packets that were there.
            self.rings().ring();
            let now = Instant::now();
            let deadline: &Option<Instant> = deadline.get_or_insert_with(|| now.checked_add(timeout));
            if deadline.is_some_and(|deadline| deadline <= now) {
                return Event::Idle;
            }
            let until = [*deadline, self.next_time(now)].into_iter().flatten().min();
            self.sleeper.arm();
            if self.is_ready() {
                self.sleeper.disarm_awake();
                continue;
            }
            self.sleeper.rest();
            match &mut work {
                Some(work) => self.rings().loan().lend(work, until, || self.sleeper.wait(until)),
                None => self.sleeper.wait(until),
            }
            self.sleeper.disarm();
        }
    }

    /// The next event, if there is one: as [`Link::receive`], which does not wait.
    pub fn poll(&mut self) -> Option<Event> {
        // Asked first: what was pushed before the order to stop is found after it. What comes later may come without
        // end.
        if self.stops() {
            let waiting = self.rings().waiting();
            if *self.left.get_or_insert(waiting) == 0 || waiting == 0 {
                self.rings().ring();
                return Some(Event::Stop);
            }
        }
        // They take turns, so that none that comes without end hides the others.
        for source in (self.turn..SOURCES).chain(0..self.turn) {
            let event = match source {
                0 => self.next_timer(),
                1 => self.rings().take_call().then_some(Event::Idle),
                2 => self.take_room().then_some(Event::Room),
                _ => self.next_packet(),
            };
            if event.is_some() {
                self.turn = (source + 1) % SOURCES;
                return event;
            }
        }
        None
    }

    fn next_timer(&mut self) -> Option<Event> {
        // The clock is not looked at without need.
        if self.wheel.is_empty() { None } else { self.wheel.expire(Instant::now()).map(Event::Timer) }
    }

    fn next_packet(&mut self) -> Option<Event> {
        let packet = self.try_receive()?;
        self.left = self.left.map(|left| left.saturating_sub(1));
        Some(Event::Packet(packet))
    }

    /// The next packet, if there is one.
    pub fn try_receive(&mut self) -> Option<Punted> {
        let rings = self.rings();
        let (workers, first) = (rings.workers(), self.next);
        let mut per_worker = (first..workers).chain(0..first);
        let packet = per_worker.find_map(|worker| rings.next_punted(worker))?;
        self.next = (packet.worker() + 1) % workers;
        Some(packet)
    }

    /// Takes the packets that are there, at most so many, behind what `packets` has; how many. Those of one worker are
    /// in order.
    pub fn receive_many(&mut self, packets: &mut Vec<Punted>, most: usize) -> usize {
        let (rings, before) = (self.injector.rings.clone(), packets.len());
        for queues in 0..rings.workers() {
            let worker = (self.next + queues) % rings.workers();
            while packets.len() - before < most
                && let Some(packet) = rings.next_punted(worker)
            {
                packets.push(packet);
            }
        }
        // Another worker is the first the next time.
        self.next = (self.next + 1) % rings.workers();
        packets.len() - before
    }

    /// Whether there is room again, once after each [`InjectError::Busy`] or several: as [`Event::Room`].
    pub fn take_room(&mut self) -> bool {
        if self.retry.is_some_and(|retry| retry <= Instant::now()) && self.rings().wants_room() {
            self.rings().give_room();
        }
        let has_room = self.rings().take_room();
        if has_room {
            self.retry = None;
        }
        has_room
    }

    // Waiting beside other things.

    /// What can be waited for with other descriptors. It is readable when there is an event, but only after
    /// [`Link::arm`]. Level-triggered; a wait for edges gets one for each [`Link::arm`] at least, if there is an
    /// event.
    pub fn fd(&self) -> LinkFd {
        self.sleeper.fd()
    }

    /// To be called when [`Link::poll`] has found nothing, in front of waiting for [`Link::fd`]: from now on that is
    /// readable when there is an event, or a timer is due. False where there is one already: then do not wait, but ask
    /// again.
    #[must_use = "there may be something already"]
    pub fn arm(&mut self) -> bool {
        self.rings().ring();
        let now = Instant::now();
        let until = self.next_time(now);
        if until.is_some_and(|until| until <= now) {
            return false;
        }
        self.sleeper.set_timer(until);
        self.sleeper.arm();
        let is_ready = self.is_ready();
        if is_ready {
            self.sleeper.disarm_awake();
        } else {
            self.sleeper.rest();
        }
        !is_ready
    }

    /// To be called when the wait is over, before anything else is: no thread makes a system call for a controller that
    /// is awake.
    pub fn disarm(&mut self) {
        self.sleeper.disarm();
    }

    /// For others that have something for this controller.
    pub fn waker(&self) -> Waker {
        Waker(self.rings().clone())
    }

    /// Whether there is something but timers.
    fn is_ready(&self) -> bool {
        self.rings().is_ready() || self.stops()
    }

    /// When there is something to do even if nothing comes.
    fn next_time(&mut self, now: Instant) -> Option<Instant> {
        self.retry = self.rings().wants_room().then(|| self.retry.unwrap_or(now + RETRY));
        [self.wheel.next(), self.retry, self.drain].into_iter().flatten().min()
    }

    // Timers.

    /// Sets the timer of a key, in place of the one that it may have. It comes as [`Event::Timer`], never early, and
    /// late by less than 16.384 µs and the time that it takes to wake up. Timers end with their link.
    pub fn set_timer(&mut self, key: u64, at: Instant) {
        self.wheel.set(key, at);
    }

    /// Takes a timer back; whether it was set, and will not come.
    pub fn cancel_timer(&mut self, key: u64) -> bool {
        self.wheel.cancel(key)
    }

    /// Number of timers that are set.
    pub fn timers(&self) -> usize {
        self.wheel.len()
    }

    // The end.

    /// Whether it is to end. A controller that does not only wait for events looks at it at least once a second.
    pub fn is_stopping(&self) -> bool {
        self.rings().stopping().is_some() || self.rings().is_halted()
    }

    /// Why, if it is known: not where another link of the same controller has failed.
    pub fn stopping(&self) -> Option<Stop> {
        self.rings().stopping()
    }

    /// Asks for more time at the end of the instance, to be called when [`Event::Stop`] has come: packets and timers
    /// come as before, and the workers run what is injected, for so long, but not beyond
    /// [`MOST_DRAIN`](super::MOST_DRAIN) after the order to stop. Then `Stop` comes again. To return earlier is fine.
    /// False where there is no such time, because the instance goes on ([`Stop::TakeOver`]), or it is over.
    pub fn drain(&mut self, time: Duration) -> bool {
        if self.stopping() != Some(Stop::End) || self.rings().is_halted() {
            return false;
        }
        let now = Instant::now();
        let until = self.health.drains(time, now);
        (self.drain, self.left) = (Some(until), None);
        until > now
    }

    /// At the end of the instance, once [`Event::Stop`] has come: what runs in the kernel is to stay there, as when the
    /// process is killed, so that the next start with the same state takes it up. Whether that can be: where all ports
    /// are in the kernel. Without a state it ends with the process all the same.
    pub fn keep_kernel(&self) -> bool {
        let keeps = self.stopping() == Some(Stop::End) && self.ports().iter().all(|port| port.in_kernel);
        if keeps {
            self.health.keep_kernel();
        }
        keeps
    }

    fn stops(&self) -> bool {
        self.rings().is_halted()
            || (self.rings().stopping().is_some() && self.drain.is_none_or(|until| until <= Instant::now()))
    }

    // Several links.

    /// The worker whose packets come by this link, where each has one of its own.
    pub fn worker(&self) -> Option<usize> {
        self.rings().pinning().worker
    }

    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.rings().workers()
    }

    /// The links of the other workers, in their order, once; [`run_per_worker`](super::run_per_worker) does that.
    pub fn take_others(&mut self) -> Vec<Link> {
        std::mem::take(&mut self.others)
    }

    /// Pins the calling thread to the CPU of the link's worker, where that is pinned; whether it is.
    pub fn pin(&self) -> io::Result<bool> {
        self.rings().pinning().cpu.map_or(Ok(false), |cpu| sys::pin_to_cpu(cpu).map(|()| true))
    }

    pub(super) fn rings(&self) -> &Arc<Rings> {
        &self.injector.rings
    }

    // Injection.

    /// As [`Injector::inject`].
    pub fn inject(&self, input: Input, bytes: &[u8], metadata: &[(Field, u128)]) -> Result<(), InjectError> {
        self.injector.inject(input, bytes, metadata)
    }

    /// For other threads of the controller, and for more ways to inject.
    pub fn injector(&self) -> Injector {
        self.injector.clone()
    }

    /// Has workers woken for what is injected only when no event is found, or many packets are injected: for a
    /// controller that injects on its own thread alone, between packets that it receives. Where they share a CPU,
    /// worker and controller then take turns by batches.
    pub fn wake_late(&self) {
        self.rings().ring_late();
    }

    // Names.

    /// The input `module.input`, which the program wires from this controller.
    pub fn input(&self, name: &str) -> Result<Input, NameError> {
        let program = self.program();
        let mine = |channel: &&baker::ir::Channel| channel.from == Some(Source::Controller(self.controller));
        let input = |channel: &baker::ir::Channel| channel.name.split(" -> ").nth(1).map(str::to_owned);
        let index = program.channels.iter().position(|c| mine(&c) && input(c).as_deref() == Some(name));
        index.map(|index| Input(ChannelId(index as u32))).ok_or_else(|| NameError::Unknown {
            what: "input wired from this controller",
            name: name.to_owned(),
            known: program.channels.iter().filter(mine).filter_map(input).collect(),
        })
    }

    /// A field of the metadata, such as `tx.port`.
    pub fn field(&self, name: &str) -> Result<Field, NameError> {
        let fields = &self.program().metadata;
        let index = fields.iter().position(|field| field.name == name);
        index.map(|index| Field(MetaId(index as u32))).ok_or_else(|| NameError::Unknown {
            what: "metadata",
            name: name.to_owned(),
            known: fields.iter().map(|field| field.name.clone()).collect(),
        })
    }

    /// The ports of the instance.
    pub fn ports(&self) -> &[PortInfo] {
        self.rings().ports()
    }

    /// The program's tables.
    pub fn tables(&self) -> &NamedTables {
        &self.tables
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        self.rings().program()
    }
}

//! The mirror beside the kernel: its sockets, full dumps, and what is done from time to time.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use baker::ir::TableError;

use crate::kernel::event::Event;
use crate::kernel::socket::{Drained, Dump, Monitor, Requests};
use crate::kernel::state::{Kernel, Touched};
use crate::mirror::Mirror;
use crate::settings::{Fate, Settings};
use crate::state::Known;

/// Between two looks at destinations whose neighbours are not known.
const WANTED: Duration = Duration::from_millis(100);
/// Between two looks at next hops that are in use.
const USED: Duration = Duration::from_secs(1);
/// Between two requests for all neighbours of routes that are not known.
const UNRESOLVED: Duration = Duration::from_secs(5);
/// A dump comes so long after something that it may be needed for: mostly more of the kind follows.
const DOUBT: Duration = Duration::from_millis(200);
/// Dumps take no more than half of the time where something made them needed, a tenth where something may have, and a
/// fiftieth where nothing did.
const NEEDED: u32 = 1;
const UNSURE: u32 = 10;
const UNNEEDED: u32 = 50;
/// Datagrams of a dump between two looks at something else.
const ROUNDS: u32 = 64;
/// Events that wait until something else is done, at most.
const MOST_PENDING: usize = 1 << 20;

/// Why a session ended.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The kernel.
    #[error("the kernel's routes can't be read: {0}")]
    Netlink(#[from] io::Error),
    /// The tables.
    #[error("the tables can't be written: {0}")]
    Tables(#[from] TableError),
    /// The work was to be left.
    #[error("it was stopped")]
    Stopped,
}

/// What else is to be done from time to time during long work; whether to go on.
pub type Meanwhile<'m> = &'m mut dyn FnMut(&Known) -> bool;

/// Events, and those that came while something else was done.
struct Events {
    monitor: Monitor,
    pending: Vec<Event>,
    is_overrun: bool,
    failed: Option<io::Error>,
}

impl Events {
    /// Takes what is there, so that the kernel has room for more.
    fn pump(&mut self) {
        let Events { monitor, pending, is_overrun, failed } = self;
        let mut take = |event| {
            if pending.len() < MOST_PENDING { pending.push(event) } else { *is_overrun = true }
        };
        match monitor.drain(&mut take) {
            Ok(Drained::All) => {}
            Ok(Drained::Overrun) => self.is_overrun = true,
            Err(error) => *failed = Some(error),
        }
    }
}

/// A mirror in step with the kernel, as long as nothing fails.
pub struct Session {
    events: Events,
    requests: Requests,
    pub mirror: Mirror,
    settings: Settings,
    /// When the last dump was done, and how long it took.
    last: (Instant, Duration),
    has_dumped: bool,
    next_dump: Instant,
    next_wanted: Instant,
    next_used: Instant,
    next_unresolved: Instant,
}

impl Session {
    /// Listens from now on; [`Session::work`] does the rest.
    pub fn open(mirror: Mirror, settings: &Settings) -> Result<Session, SessionError> {
        let monitor = Monitor::open(settings.receive_buffer)?;
        let now = Instant::now();
        Ok(Session {
            events: Events { monitor, pending: Vec::new(), is_overrun: false, failed: None },
            requests: Requests::open()?,
            mirror,
            settings: settings.clone(),
            last: (now, Duration::ZERO),
            has_dumped: false,
            next_dump: now,
            next_wanted: now,
            next_used: now,
            next_unresolved: now + UNRESOLVED,
        })
    }

    /// How long there is nothing to do unless something happens.
    pub fn pause(&self) -> Duration {
        let wanted = (self.settings.unresolved == Fate::Drop).then_some(self.next_wanted);
        let times = [Some(self.next_dump), Some(self.next_used), Some(self.next_unresolved), wanted];
        let next = times.into_iter().flatten().min().unwrap_or(self.next_dump);
        next.saturating_duration_since(Instant::now())
    }

    /// Does what is to be done now.
    pub fn work(&mut self, known: &mut Known, meanwhile: Meanwhile) -> Result<(), SessionError> {
        self.take_events(known);
        let now = Instant::now();
        if now >= self.next_dump {
            self.dump(known, meanwhile)?;
        } else {
            self.flush(known, meanwhile)?;
        }
        let mut ask = self.mirror.unasked();
        if self.settings.unresolved == Fate::Drop && now >= self.next_wanted {
            self.next_wanted = now + WANTED;
            ask.extend(self.mirror.wanted());
        }
        if now >= self.next_used {
            self.next_used = now + USED;
            ask.extend(self.mirror.in_use()?);
            self.mirror.retry_by_hand();
            self.mirror.settle()?;
        }
        if now >= self.next_unresolved {
            self.next_unresolved = now + UNRESOLVED;
            ask.extend(self.mirror.unresolved());
        }
        ask.sort_unstable();
        ask.dedup();
        for (address, interface) in ask {
            known.rest().asked += 1;
            if let Err(error) = self.requests.use_neighbour(interface, address) {
                known.rest().error = Some(format!("{address} can't be asked for: {error}"));
            }
        }
        if let Some(error) = self.events.failed.take() {
            return Err(error.into());
        }
        self.tell(known);
        Ok(())
    }

    fn take_events(&mut self, known: &mut Known) {
        self.events.pump();
        for event in self.events.pending.drain(..) {
            self.mirror.apply(event);
        }
        let (end, took) = self.last;
        if std::mem::take(&mut self.events.is_overrun) {
            known.rest().overruns += 1;
            known.now("loading");
            self.next_dump = self.next_dump.min(end + took * NEEDED);
        }
        if std::mem::take(&mut self.mirror.touched.doubtful) {
            let soon = (Instant::now() + DOUBT).max(end + took * NEEDED);
            self.next_dump = self.next_dump.min(soon);
        }
    }

    /// Puts in force what is known.
    fn flush(&mut self, known: &Known, meanwhile: Meanwhile) -> Result<(), SessionError> {
        let Session { mirror, events, .. } = self;
        let mut go_on = || {
            events.pump();
            meanwhile(known)
        };
        if mirror.flush(&mut go_on)? { Ok(()) } else { Err(SessionError::Stopped) }
    }

    /// Asks the kernel for all that it has, and puts the difference in force.
    fn dump(&mut self, known: &mut Known, meanwhile: Meanwhile) -> Result<(), SessionError> {
        let start = Instant::now();
        let mut fresh = Kernel::new(self.settings.table);
        let mut is_whole = true;
        for what in Dump::ALL {
            let mut touched = Touched::default();
            let mut take = |mut event: Event| {
                if let Event::Route(route) = &mut event {
                    // They come in the kernel's order.
                    (route.replaces, route.is_appended) = (false, true);
                }
                fresh.apply(event, &mut touched);
            };
            let (mut is_stopped, mut rounds) = (false, 0);
            let mut between = || {
                self.events.pump();
                rounds += 1;
                // A dump of a kind is read to its end.
                is_stopped |= rounds % ROUNDS == 0 && !meanwhile(known);
            };
            is_whole &= self.requests.dump(what, &mut take, &mut between)?;
            if is_stopped {
                return Err(SessionError::Stopped);
            }
        }
        let corrected = self.mirror.kernel.replace(fresh, &mut self.mirror.touched);
        if std::mem::replace(&mut self.has_dumped, true) {
            known.rest().corrected += corrected as u64;
            self.mirror.verify()?;
        }
        self.flush(known, meanwhile)?;
        let took = start.elapsed();
        self.last = (Instant::now(), took);
        known.rest().dumps += 1;
        known.rest().dump_ms = took.as_millis() as u64;
        known.now("in step");
        self.next_dump = self.last.0 + self.settings.check.max(took * UNNEEDED);
        if !is_whole {
            // Something changed meanwhile that the kernel may have passed over; the event of it is there.
            self.next_dump = self.next_dump.min(self.last.0 + (took * UNSURE).max(Duration::from_secs(1)));
        }
        // What came meanwhile.
        self.take_events(known);
        self.flush(known, meanwhile)
    }

    fn tell(&self, known: &mut Known) {
        let state = known.rest();
        let (four, six) = self.mirror.counts();
        (state.routes4, state.routes6) = (four as u64, six as u64);
        state.next_hops = self.mirror.next_hops() as u64;
        state.neighbours = self.mirror.kernel.neighbours.len() as u64;
        state.by_hand = self.mirror.by_hand() as u64;
        state.refused = self.mirror.refused;
        state.ports = self.mirror.port_names();
    }
}

impl AsFd for Session {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.monitor.as_fd()
    }
}

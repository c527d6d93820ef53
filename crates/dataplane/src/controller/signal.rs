//! The wake-up of a controller: a descriptor that it can wait for, by itself or with others, and that costs nothing
//! while it is awake.
//!
//! # No wake-up is lost
//!
//! The controller (C) and those that have something for it (P) do this; each line is one step:
//!
//! ```text
//! C1  state := ARMED             P1  make it visible: push a packet, raise a flag
//! C2  fence (SeqCst)             P2  fence (SeqCst)
//! C3  look for something         P3  if state is ARMED, and is made RUNG by this P: write to the descriptor
//! C4  nothing: wait for the descriptor
//! C5  state := AWAKE; where it was RUNG, read what was written to the descriptor
//! ```
//!
//! P may do P1 several times before it goes on, and take its time: a worker does for channels whose controller is woken
//! for many packets at once (`exchange`). It goes on at the latest when the first of them has waited as long as it may,
//! or when it ends.
//!
//! The two fences are in one order. If P2 comes before C2, C3 sees what P1 made visible, and C does not wait. If C2
//! comes before P2, P3 sees what C1 stored, or something later: ARMED, and P makes it RUNG and writes; or RUNG, or P
//! fails to make it that, because another P has, and that one writes; or AWAKE, and C is past C5 and looks before it
//! waits again. A write stays in the descriptor until C reads it, and C reads only at C5, when it is awake, and looks
//! afterwards. So wherever P finishes P1, C looks after that. ∎
//!
//! The descriptor is written to at most once for each C1, and never while the controller is awake, but for a P that has
//! made it RUNG and is slow to write: C then finds nothing to read at C5, remembers that, and reads at a later C5.
//! Until then it may wake once for nothing.
//!
//! Time is a descriptor of its own (`timerfd_create(2)`) beside that (`eventfd(2)`), and an epoll instance has both: it
//! is readable while one of them is (level-triggered), and each write and each expiry is an edge of it.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::pace::Pace;
use crate::sys::{check, monotonic_ns};

/// The controller does not wait.
const AWAKE: u8 = 0;
/// It waits, or is about to.
const ARMED: u8 = 1;
/// It is woken: the descriptor is written to, or is about to be.
const RUNG: u8 = 2;

/// What is rung: shared by the controller and those that have something for it.
#[derive(Debug)]
pub struct Signal {
    bell: OwnedFd,
    timer: OwnedFd,
    both: OwnedFd,
    state: AtomicU8,
    /// Writes to the bell that the controller has not read yet; only it looks at this.
    unread: AtomicU64,
    /// Where it is noted how soon the controller runs, if anywhere.
    pace: OnceLock<Arc<Pace>>,
    /// When it was rung, in nanoseconds.
    rung: AtomicU64,
    /// Since when the controller has not waited; 0: it waits, or has never waited. Only it looks at this.
    awake_since: AtomicU64,
}

impl Signal {
    /// A new one; the controller is awake.
    pub fn new() -> io::Result<Arc<Signal>> {
        // SAFETY: each call creates a descriptor that only the result owns.
        let [bell, timer, both] = unsafe {
            [
                OwnedFd::from_raw_fd(check(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK))?),
                OwnedFd::from_raw_fd(check(libc::timerfd_create(
                    libc::CLOCK_MONOTONIC,
                    libc::TFD_CLOEXEC | libc::TFD_NONBLOCK,
                ))?),
                OwnedFd::from_raw_fd(check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?),
            ]
        };
        for fd in [&bell, &timer] {
            let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
            // SAFETY: the event outlives the call.
            check(unsafe { libc::epoll_ctl(both.as_raw_fd(), libc::EPOLL_CTL_ADD, fd.as_raw_fd(), &raw mut event) })?;
        }
        Ok(Arc::new(Signal {
            bell,
            timer,
            both,
            state: AtomicU8::new(AWAKE),
            unread: AtomicU64::new(0),
            pace: OnceLock::new(),
            rung: AtomicU64::new(0),
            awake_since: AtomicU64::new(0),
        }))
    }

    /// How soon the controller runs is noted there from now on, if nowhere yet.
    pub fn note_in(&self, pace: &Arc<Pace>) {
        let _ = self.pace.set(pace.clone());
    }

    /// Wakes the controller if it waits. To be called after what it is to see was made visible.
    pub fn ring(&self) {
        fence(Ordering::SeqCst);
        // The load alone while the controller is awake: no line of memory changes hands.
        if self.state.load(Ordering::Relaxed) == ARMED
            && self.state.compare_exchange(ARMED, RUNG, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            if let Some(pace) = self.pace.get() {
                pace.called();
                self.rung.store(monotonic_ns(), Ordering::Relaxed);
            }
            let one = 1u64;
            // SAFETY: the kernel reads eight bytes. It fails only where the bell was rung 2^64 times.
            unsafe { libc::write(self.bell.as_raw_fd(), (&raw const one).cast(), size_of::<u64>()) };
        }
    }
}

/// The descriptor of a [`Link`](super::Link): readable (level-triggered) when the controller is to look, after
/// [`Link::arm`](super::Link::arm). Clones are the same one, which stays open as long as one of them is there.
#[derive(Clone, Debug)]
pub struct LinkFd(Arc<Signal>);

impl AsFd for LinkFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.both.as_fd()
    }
}

impl AsRawFd for LinkFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.both.as_raw_fd()
    }
}

/// The controller's side.
#[derive(Debug)]
pub struct Sleeper {
    signal: Arc<Signal>,
    /// What the timer is set to.
    timer: Option<Instant>,
}

impl Sleeper {
    /// Of one controller at a time: what another before it has left is put in order.
    pub fn new(signal: Arc<Signal>) -> Self {
        let mut sleeper = Sleeper { signal, timer: None };
        sleeper.disarm();
        sleeper.write_timer(None);
        // What it does before it waits for the first time is no loop.
        sleeper.signal.awake_since.store(0, Ordering::Relaxed);
        sleeper
    }

    /// What can be waited for.
    pub fn fd(&self) -> LinkFd {
        LinkFd(self.signal.clone())
    }

    /// From now on the descriptor says so when there is something (C1 and C2). The caller looks once more before it
    /// waits.
    pub fn arm(&self) {
        self.signal.state.store(ARMED, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The controller is about to wait: it has found nothing behind [`Sleeper::arm`].
    pub fn rest(&self) {
        let since = self.signal.awake_since.swap(0, Ordering::Relaxed);
        if let Some(pace) = self.signal.pace.get()
            && since != 0
        {
            pace.waits(monotonic_ns().saturating_sub(since));
        }
    }

    /// The controller is awake (C5).
    pub fn disarm(&self) {
        let before = self.signal.unread.load(Ordering::Relaxed);
        let unread = self.disarm_awake();
        if let Some(pace) = self.signal.pace.get() {
            let now = monotonic_ns();
            if self.signal.awake_since.load(Ordering::Relaxed) == 0 {
                self.signal.awake_since.store(now, Ordering::Relaxed);
            }
            if unread > before {
                pace.runs(now.saturating_sub(self.signal.rung.load(Ordering::Relaxed)));
            }
        }
        if unread == 0 {
            return;
        }
        let mut rung = 0u64;
        // SAFETY: the kernel writes eight bytes, or nothing where it was not rung.
        unsafe { libc::read(self.signal.bell.as_raw_fd(), (&raw mut rung).cast(), size_of::<u64>()) };
        self.signal.unread.store(unread.saturating_sub(rung), Ordering::Relaxed);
    }

    /// Takes back [`Sleeper::arm`] where the caller has found something before it waited. Writes that are to be read
    /// later.
    pub fn disarm_awake(&self) -> u64 {
        let rung = self.signal.state.swap(AWAKE, Ordering::SeqCst) == RUNG;
        let unread = self.signal.unread.load(Ordering::Relaxed) + u64::from(rung);
        self.signal.unread.store(unread, Ordering::Relaxed);
        unread
    }

    /// Has the descriptor say so at this time, too. A system call only where it is another time than before.
    pub fn set_timer(&mut self, at: Option<Instant>) {
        if at != self.timer {
            self.write_timer(at);
        }
    }

    fn write_timer(&mut self, at: Option<Instant>) {
        self.timer = at;
        // A time of zero would stop it.
        let left = at.map(|at| at.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1)));
        let left = left.unwrap_or_default();
        // SAFETY: itimerspec is plain data for which zero is valid, and outlives the call.
        unsafe {
            let mut time: libc::itimerspec = std::mem::zeroed();
            time.it_value.tv_sec = libc::time_t::try_from(left.as_secs()).unwrap_or(libc::time_t::MAX);
            time.it_value.tv_nsec = left.subsec_nanos().into();
            libc::timerfd_settime(self.signal.timer.as_raw_fd(), 0, &raw const time, std::ptr::null_mut());
        }
    }

    /// Waits on this thread, until this time (C4). Interruptions end it, too.
    pub fn wait(&self, until: Option<Instant>) {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let time = left.map(|left| libc::timespec {
            tv_sec: libc::time_t::try_from(left.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: left.subsec_nanos().into(),
        });
        let time = time.as_ref().map_or(std::ptr::null(), |time| &raw const *time);
        let mut fd = libc::pollfd { fd: self.signal.bell.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one descriptor, and a time that outlives the call, or none.
        unsafe { libc::ppoll(&raw mut fd, 1, time, std::ptr::null()) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::thread;

    use super::*;
    use crate::testing::SplitMix64;

    const PATIENCE: Duration = Duration::from_secs(10);

    /// A program's own epoll instance over a link's descriptor, edge-triggered as tokio has it.
    struct Edges(OwnedFd);

    impl Edges {
        fn of(fd: &LinkFd) -> Edges {
            let mut event = libc::epoll_event { events: (libc::EPOLLIN | libc::EPOLLET) as u32, u64: 0 };
            // SAFETY: a new descriptor, and an event that outlives the call.
            unsafe {
                let own = OwnedFd::from_raw_fd(check(libc::epoll_create1(libc::EPOLL_CLOEXEC)).unwrap());
                check(libc::epoll_ctl(own.as_raw_fd(), libc::EPOLL_CTL_ADD, fd.as_raw_fd(), &raw mut event)).unwrap();
                Edges(own)
            }
        }

        /// Whether there was an edge in time.
        fn wait(&self, time: Duration) -> bool {
            let mut event = libc::epoll_event { events: 0, u64: 0 };
            // SAFETY: room for one event.
            unsafe { libc::epoll_wait(self.0.as_raw_fd(), &raw mut event, 1, time.as_millis() as i32) > 0 }
        }
    }

    fn bell(signal: &Signal) -> u64 {
        let mut rung = 0u64;
        // SAFETY: the kernel writes eight bytes, or nothing.
        unsafe { libc::read(signal.bell.as_raw_fd(), (&raw mut rung).cast(), 8) };
        rung
    }

    #[test]
    fn it_is_written_to_once_and_only_while_the_controller_waits() {
        let signal = Signal::new().unwrap();
        let sleeper = Sleeper::new(signal.clone());
        let edges = Edges::of(&sleeper.fd());
        (0..3).for_each(|_| signal.ring());
        assert!(!edges.wait(Duration::ZERO), "it is awake");
        sleeper.arm();
        assert!(!edges.wait(Duration::ZERO));
        (0..3).for_each(|_| signal.ring());
        assert!(edges.wait(PATIENCE));
        sleeper.disarm();
        assert_eq!((signal.unread.load(Ordering::Relaxed), bell(&signal)), (0, 0), "it was read");
        // One that is slow to write, and found before the controller waits.
        sleeper.arm();
        signal.state.store(RUNG, Ordering::Relaxed);
        sleeper.disarm();
        assert_eq!(signal.unread.load(Ordering::Relaxed), 1);
        sleeper.arm();
        signal.ring();
        assert_eq!(sleeper.disarm_awake(), 2);
        // What is left is another's, after this one.
        drop(sleeper);
        let sleeper = Sleeper::new(signal.clone());
        assert_eq!((signal.unread.load(Ordering::Relaxed), bell(&signal)), (1, 0));
        signal.state.store(ARMED, Ordering::Relaxed);
        signal.ring();
        sleeper.disarm();
        signal.state.store(ARMED, Ordering::Relaxed);
        signal.ring();
        assert_eq!((bell(&signal), signal.unread.load(Ordering::Relaxed)), (1, 1));
    }

    #[test]
    fn time_is_at_the_same_descriptor() {
        let mut sleeper = Sleeper::new(Signal::new().unwrap());
        let edges = Edges::of(&sleeper.fd());
        for _ in 0..20 {
            let at = Instant::now() + Duration::from_micros(700);
            sleeper.set_timer(Some(at));
            sleeper.arm();
            assert!(edges.wait(PATIENCE) && Instant::now() >= at);
            sleeper.disarm();
        }
        sleeper.set_timer(Some(Instant::now()));
        assert!(edges.wait(PATIENCE), "the past is now");
        sleeper.set_timer(None);
        assert!(!edges.wait(Duration::from_millis(2)));
        let began = Instant::now();
        sleeper.wait(Some(began + Duration::from_micros(300)));
        assert!(began.elapsed() >= Duration::from_micros(300));
    }

    /// Threads count and ring; the controller sees every number, though it waits whenever it has seen the last one. A
    /// wake-up that is lost is a wait that takes as long as [`PATIENCE`].
    fn none_is_lost(threads: u64, wait: impl Fn(&Sleeper) -> bool) {
        const EACH: u64 = 60_000;
        let signal = Signal::new().unwrap();
        let (sent, finished) = (AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for seed in 0..threads {
                let (signal, sent, finished) = (&signal, &sent, &finished);
                scope.spawn(move || {
                    let mut numbers = SplitMix64(seed);
                    for _ in 0..EACH {
                        // No order but that of the signal itself.
                        sent.fetch_add(1, Ordering::Relaxed);
                        signal.ring();
                        match numbers.below(64) {
                            0 => thread::yield_now(),
                            1..8 => (0..numbers.below(400)).for_each(|_| std::hint::spin_loop()),
                            _ => {}
                        }
                    }
                    finished.fetch_add(1, Ordering::Relaxed);
                });
            }
            let sleeper = Sleeper::new(signal.clone());
            let (mut seen, mut waits) = (0, 0u64);
            while seen < threads * EACH {
                let now = sent.load(Ordering::Relaxed);
                if now > seen {
                    seen = now;
                    continue;
                }
                sleeper.arm();
                if sent.load(Ordering::Relaxed) > seen {
                    sleeper.disarm_awake();
                    continue;
                }
                waits += 1;
                assert!(wait(&sleeper), "a wake-up was lost: {seen} seen, {} sent", sent.load(Ordering::Relaxed));
                sleeper.disarm();
            }
            println!("{threads} threads: {seen} seen in {waits} waits");
        });
    }

    #[test]
    fn no_wake_up_is_lost_by_a_thread_that_waits() {
        for threads in [1, 2, 4] {
            none_is_lost(threads, |sleeper| {
                let began = Instant::now();
                sleeper.wait(Some(began + PATIENCE));
                began.elapsed() < PATIENCE
            });
        }
    }

    #[test]
    fn no_wake_up_is_lost_by_an_edge_triggered_loop() {
        for threads in [1, 2, 4] {
            let edges = std::cell::OnceCell::new();
            none_is_lost(threads, |sleeper| edges.get_or_init(|| Edges::of(&sleeper.fd())).wait(PATIENCE));
        }
    }

    /// All orders of the steps of the proof above, of a controller and two others, as far as they go under sequential
    /// consistency. The fences make the real ones so.
    #[test]
    fn no_order_of_steps_loses_a_wake_up() {
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        struct State {
            state: u8,
            pushed: u8,
            seen: u8,
            bell: u8,
            unread: u8,
            /// The next step of the controller.
            c: u8,
            /// The next step of each of the others, and how often it still pushes.
            p: [(u8, u8); 2],
        }
        // What is left to be done before it is over, for one that has pushed and not gone on.
        const OWES: u8 = 4;
        let start = State { state: AWAKE, pushed: 0, seen: 0, bell: 0, unread: 0, c: 0, p: [(0, 2); 2] };
        let (mut known, mut open) = (std::collections::HashSet::new(), vec![start]);
        let (mut waits, mut ends) = (0, 0);
        while let Some(state) = open.pop() {
            if !known.insert(state) {
                continue;
            }
            let mut next = Vec::new();
            let mut s = state;
            match state.c {
                0 => (s.state, s.c) = (ARMED, 1),
                1 => s.c = if s.pushed > s.seen { 3 } else { 2 },
                2 if s.bell > 0 => s.c = 3,
                2 => waits += 1,
                3 => {
                    s.unread += u8::from(std::mem::replace(&mut s.state, AWAKE) == RUNG);
                    if s.unread > 0 {
                        s.unread -= std::mem::take(&mut s.bell);
                    }
                    s.c = 4;
                }
                _ => (s.seen, s.c) = (s.pushed, 0),
            }
            if s != state {
                next.push(s);
            }
            for index in 0..2 {
                let (s, (step, left)) = (state, state.p[index]);
                // It waits for others after it has pushed, or it does not.
                for waits in [false, true] {
                    let mut s = s;
                    s.p[index] = match step {
                        0 | OWES if left > 0 => {
                            s.pushed += 1;
                            (if waits { OWES } else { 1 }, left - 1)
                        }
                        0 => continue,
                        OWES => (1, left),
                        1 => (if s.state == ARMED { 2 } else { 0 }, left),
                        2 if s.state == ARMED => {
                            s.state = RUNG;
                            (3, left)
                        }
                        2 => (0, left),
                        _ => {
                            s.bell += 1;
                            (0, left)
                        }
                    };
                    next.push(s);
                    // At any time it has waited long enough.
                    if step == OWES {
                        next.push(State {
                            p: {
                                let mut p = state.p;
                                p[index] = (1, left);
                                p
                            },
                            ..state
                        });
                    }
                }
            }
            if next.is_empty() {
                // No thread can go on: the controller waits, has seen all, and nothing is left to be read.
                assert_eq!((state.seen, state.pushed, state.c, state.unread), (4, 4, 2, 0));
                ends += 1;
            }
            open.extend(next);
        }
        assert!(waits > 0 && ends > 0 && known.len() > 500, "{} states", known.len());
    }
}

//! Deadlines of table entries: see `baker::ir::deadline`.
//!
//! The time lies beside the entry, by the entry's number ([`super::due`]), and all workers and programs share it. It
//! says whether a timer runs: it is taken by a compare-and-swap, for the entry that the key leads to. Where to look is
//! a worker's own matter: each has a timing wheel per table, with a timer for each entry that it has set the deadline
//! of last ([`Deadlines`]). A timer that another worker has outdated, or whose entry is gone, finds that the time is
//! not its own.
//!
//! Code in the kernel sets times, too. It tells a worker of one that is not later than what was there before
//! ([`Deadlines::arm`]): a timer that finds a later time waits on for that. Where it can't tell anybody one of the
//! workers looks at the times of all entries.

use std::cell::UnsafeCell;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use baker::ir::deadline::deadline;
use baker::ir::{Layout, Program, TableId};
use codegen::abi::{key_words, pack_key, unpack_key};

use super::due::Due;
use super::store::Tables;
use super::table::{Kind, Table};
use crate::wheel::Wheel;

/// A worker's wheel of a table, which programs share that take over from each other on that worker.
struct OwnWheel(UnsafeCell<Wheel>);

// SAFETY: one worker has it and moves from thread to thread only as a whole: the programs that share it run on that
// worker, one after the other. The thread that takes an ended program apart does not look into it.
unsafe impl Send for OwnWheel {}
// SAFETY: as above.
unsafe impl Sync for OwnWheel {}

/// How a worker finds entries that are due.
enum Queue {
    Wheel(Arc<OwnWheel>),
    /// By time and key, where tables change from here only.
    Sorted(BTreeSet<(u64, Vec<u128>)>),
}

impl Queue {
    /// An entry of a table with such keys is due at a time.
    fn set(&mut self, kind: &Kind, key: &Layout, entry: u32, at: u64) {
        match self {
            // SAFETY: the worker's own: see `OwnWheel`.
            Queue::Wheel(wheel) => unsafe { &mut *wheel.0.get() }.set(entry, at),
            Queue::Sorted(queue) => {
                let mut words = Vec::new();
                kind.key_of(entry, &mut words);
                queue.insert((at, unpack_key(key, &words)));
            }
        }
    }
}

/// Entries that are looked at, at a time, where the kernel could not tell of a deadline.
const LOOKS: u32 = 1024;

/// A table's.
struct Own {
    key: Layout,
    queue: Queue,
    /// The entry from which on all are to be looked at.
    looks_from: Option<u32>,
}

/// The deadlines that a worker has set, by the number of the table.
pub struct Deadlines {
    tables: Arc<Tables>,
    own: Box<[Option<Own>]>,
    /// Deadlines that timers have taken, of all tables.
    taken: u64,
}

impl fmt::Debug for Deadlines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deadlines").finish_non_exhaustive()
    }
}

impl Deadlines {
    /// Those of a program that has any. The present time in nanoseconds.
    pub fn new(program: &Program, tables: &Arc<Tables>, now: u64) -> Option<Self> {
        Self::made(program, tables, |kind| {
            let wheel = Wheel::new(now, kind.due()?.count() as usize);
            Some(Queue::Wheel(Arc::new(OwnWheel(UnsafeCell::new(wheel)))))
        })
    }

    /// As [`Deadlines::new`]; entries are found in the order of their times and keys. For the only thread that changes
    /// the tables.
    pub fn sorted(program: &Program, tables: &Arc<Tables>) -> Option<Self> {
        Self::made(program, tables, |kind| kind.due().map(|_| Queue::Sorted(BTreeSet::new())))
    }

    fn made(program: &Program, tables: &Arc<Tables>, queue: impl Fn(&Kind) -> Option<Queue>) -> Option<Self> {
        program.deadline_timers().next()?;
        let of = |(id, table): (u32, &Table)| {
            program.deadline_timer(TableId(id))?;
            Some(Own { key: table.key.clone(), queue: queue(&table.kind)?, looks_from: None })
        };
        Some(Deadlines { tables: tables.clone(), own: (0..).zip(&tables.tables).map(of).collect(), taken: 0 })
    }

    /// Goes on with the deadlines of tables that are also those of another program of the same worker.
    pub fn go_on(&mut self, from: &Deadlines) {
        for (table, own) in self.tables.tables.iter().zip(&mut self.own) {
            let same = from.tables.tables.iter().position(|other| Arc::ptr_eq(&table.kind, &other.kind));
            let before = same.and_then(|index| from.own[index].as_ref());
            if let (Some(mine), Some(Own { queue: Queue::Wheel(wheel), looks_from, .. })) = (own, before) {
                (mine.queue, mine.looks_from) = (Queue::Wheel(wheel.clone()), *looks_from);
            }
        }
    }

    /// How many deadlines timers have taken so far: so often one has run.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// When to look for entries of a table that are due: not later than the first one is. The past where one is.
    pub fn next(&self, table: TableId) -> Option<u64> {
        let own = self.own.get(table.0 as usize)?.as_ref()?;
        if own.looks_from.is_some() || self.tables.tables[table.0 as usize].kind.due()?.has_missed() {
            return Some(0);
        }
        match &own.queue {
            // SAFETY: the worker's own: see `OwnWheel`.
            Queue::Wheel(wheel) => unsafe { &*wheel.0.get() }.next(),
            Queue::Sorted(queue) => queue.first().map(|(at, _)| *at),
        }
    }

    /// Appends packed keys of at most `most` entries that are due. At most `budget` steps are made besides; whether any
    /// was. A key may not be there any more, or no longer due.
    pub fn due(&mut self, table: TableId, now: u64, most: usize, budget: u32, keys: &mut Vec<u64>) -> bool {
        let index = table.0 as usize;
        let Some(own) = self.own.get_mut(index).and_then(Option::as_mut) else { return false };
        let kind = &self.tables.tables[index].kind;
        let Some(due) = kind.due() else { return false };
        let looked = own.look(kind, due);
        let Own { key, queue, .. } = own;
        let most = keys.len() + most * key_words(key);
        match queue {
            Queue::Wheel(wheel) => {
                // SAFETY: the worker's own: see `OwnWheel`.
                let wheel = unsafe { &mut *wheel.0.get() };
                let (mut left, mut found) = (budget, looked);
                while keys.len() < most && left > 0 {
                    let Some((entry, at)) = wheel.expire(now, &mut left) else { break };
                    left = left.saturating_sub(1);
                    found = true;
                    match due.get(entry) {
                        time if time == at => kind.key_of(entry, keys),
                        later if due.by_kernel && later > at => wheel.set(entry, later),
                        _ => {}
                    }
                }
                wheel.work_ahead(&mut left);
                found || left < budget
            }
            Queue::Sorted(queue) => {
                let mut found = looked;
                while keys.len() < most {
                    let Some((at, fields)) = queue.pop_first_if(|(at, _)| *at <= now) else { break };
                    found = true;
                    let packed = pack_key(key, &fields);
                    match kind.entry_of(&packed).map(|entry| due.get(entry)) {
                        Some(time) if time == at => keys.extend(packed),
                        Some(later) if due.by_kernel && later > at => _ = queue.insert((later, fields)),
                        _ => {}
                    }
                }
                found
            }
        }
    }

    fn set(&mut self, table: u32, key: &[u64], now: u64, at: u64) -> bool {
        let kind = &self.tables.tables[table as usize].kind;
        let (Some(own), Some(due)) = (&mut self.own[table as usize], kind.due()) else { return false };
        let Some(entry) = kind.entry_of(key) else { return false };
        let at = deadline(at, now);
        due.set(entry, at);
        match &mut own.queue {
            // SAFETY: the worker's own: see `OwnWheel`.
            Queue::Wheel(wheel) if at == 0 => _ = unsafe { &mut *wheel.0.get() }.cancel(entry),
            Queue::Sorted(_) if at == 0 => {}
            queue => queue.set(kind, &own.key, entry, at),
        }
        true
    }

    /// The kernel has set the deadline of an entry, by its number.
    pub fn arm(&mut self, table: u32, entry: u32) {
        let Some(own) = self.own.get_mut(table as usize).and_then(Option::as_mut) else { return };
        own.arm(&self.tables.tables[table as usize].kind, entry);
    }

    fn take(&mut self, table: u32, key: &[u64], now: u64) -> bool {
        let kind = &self.tables.tables[table as usize].kind;
        let Some((entry, due)) = kind.entry_of(key).zip(kind.due()) else { return false };
        let has_come = due.take(entry, now);
        self.taken += u64::from(has_come);
        if let Some(own) = self.own[table as usize].as_mut().filter(|_| !has_come && due.by_kernel) {
            // The kernel has put it off since it was found to be due.
            own.arm(kind, entry);
        }
        has_come
    }

    fn words(&self, table: u32) -> usize {
        self.own[table as usize].as_ref().map_or(1, |own| key_words(&own.key))
    }
}

impl Own {
    /// Sets the timer of an entry to its deadline, where it has one.
    fn arm(&mut self, kind: &Kind, entry: u32) {
        let at = kind.due().filter(|due| entry < due.count()).map_or(0, |due| due.get(entry));
        if at != 0 {
            self.queue.set(kind, &self.key, entry, at);
        }
    }

    /// Where the kernel could not tell of a deadline: looks at some of the entries; whether there were any.
    fn look(&mut self, kind: &Kind, due: &Due) -> bool {
        if self.looks_from.is_none() && due.take_missed() {
            self.looks_from = Some(0);
        }
        let Some(from) = self.looks_from else { return false };
        let to = due.count().min(from.saturating_add(LOOKS));
        (from..to).for_each(|entry| self.arm(kind, entry));
        self.looks_from = (to < due.count()).then_some(to);
        true
    }
}

trait PopIf<T> {
    fn pop_first_if(&mut self, wanted: impl Fn(&T) -> bool) -> Option<T>;
}

impl<T: Ord> PopIf<T> for BTreeSet<T> {
    fn pop_first_if(&mut self, wanted: impl Fn(&T) -> bool) -> Option<T> {
        if self.first().is_some_and(wanted) { self.pop_first() } else { None }
    }
}

/// `abi::Runtime::deadline_set`.
///
/// # Safety
/// `deadlines` is `Context::deadlines` of a context whose program has deadlines in that table, `key` points to a packed
/// key, and the caller is the context's worker.
pub unsafe extern "C" fn set(deadlines: *mut u8, table: u32, key: *const u64, now: u64, at: u64) -> u8 {
    // SAFETY: promised by the caller.
    unsafe {
        let deadlines = &mut *deadlines.cast::<Deadlines>();
        let key = std::slice::from_raw_parts(key, deadlines.words(table));
        deadlines.set(table, key, now, at).into()
    }
}

/// `abi::Runtime::deadline_take`.
///
/// # Safety
/// As for [`set`].
pub unsafe extern "C" fn take(deadlines: *mut u8, table: u32, key: *const u64, now: u64) -> u8 {
    // SAFETY: promised by the caller.
    unsafe {
        let deadlines = &mut *deadlines.cast::<Deadlines>();
        let key = std::slice::from_raw_parts(key, deadlines.words(table));
        deadlines.take(table, key, now).into()
    }
}

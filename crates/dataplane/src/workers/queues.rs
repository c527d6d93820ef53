//! Packets that wait in queues for their time: `baker::ir::Queue`.
//!
//! A packet comes as an output of the program on a channel that leads to a queue, with line and time in its metadata.
//! It lies in its frame until it enters again by the channel behind the queue: in the order of its line, and not before
//! its time. Frames of a line are linked by their numbers, and a timing wheel has a timer for the first one of each
//! line: so putting and taking a packet cost constant time, and no memory. Each worker has lines of its own, as the
//! packets of a flow are one worker's.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use baker::ir::{ChannelId, CounterSlots, DropId, MetaField, MetaId, Program, QueueDrops, Target, storage_size};
use codegen::abi::{MAX_BATCH, read_field};

use super::onward::{self, Entering};
use crate::packets::{FramePool, Holder, Holds, WorkerContext};
use crate::wheel::Wheel;

/// Steps of the timing wheel between two batches.
const STEPS: u32 = 256;

/// A line: its first and its last frame, and how many wait. Numbers of frames are one more, and 0 where there is none.
#[derive(Clone, Copy, Default)]
struct Line {
    first: u32,
    last: u32,
    len: u32,
}

/// What is known of a queue.
struct Declared {
    /// Where its lines begin.
    first: u32,
    lines: u32,
    depth: u32,
    drops: QueueDrops,
    full: DropId,
}

/// How lines are found whose first packet's time has come.
enum Times {
    Wheel(Wheel),
    /// By time and line.
    Sorted(BTreeSet<(u64, u32)>),
}

/// How many packets wait, for reports.
#[derive(Debug, Default)]
struct Waiting(AtomicU32);

impl Holds for Waiting {
    fn frames(&self, _: &mut [bool]) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The queues of a program on a worker.
pub(crate) struct Queues {
    program: Arc<Program>,
    slots: CounterSlots,
    declared: Box<[Declared]>,
    lines: Box<[Line]>,
    /// By frame: the one behind it in its line, and the channel by which it goes on.
    behind: Box<[[u32; 2]]>,
    times: Times,
    held: u32,
    waiting: Arc<Waiting>,
    /// Where line and time lie in the metadata.
    fields: [usize; 2],
}

impl Queues {
    /// Of a program that has any, empty.
    pub fn new(program: &Arc<Program>, pool: &FramePool, now: u64) -> Option<Self> {
        let fields = program.queue_fields()?.map(|field| program.metadata[field.0 as usize].offset as usize);
        let mut lines = 0;
        let declared = program.queues.iter().map(|queue| {
            lines += queue.lines;
            let (drops, full) = (queue.drops, queue.full);
            Declared { first: lines - queue.lines, lines: queue.lines, depth: queue.depth, drops, full }
        });
        let declared = declared.collect();
        let waiting = Arc::default();
        pool.holders.register(Holder::Queue, &waiting);
        Some(Queues {
            program: program.clone(),
            slots: CounterSlots::new(program),
            declared,
            lines: vec![Line::default(); lines as usize].into(),
            behind: vec![[0; 2]; pool.all() as usize].into(),
            times: Times::Wheel(Wheel::new(now, lines as usize)),
            held: 0,
            waiting,
            fields,
        })
    }

    /// As [`Queues::new`]; packets go on in the order of their times and lines.
    pub fn sorted(program: &Arc<Program>, pool: &FramePool) -> Option<Self> {
        Some(Queues { times: Times::Sorted(BTreeSet::new()), ..Self::new(program, pool, 0)? })
    }

    /// Packets that wait.
    pub fn held(&self) -> u32 {
        self.held
    }

    /// Whether a channel leads to a queue.
    pub fn is_queue(&self, channel: ChannelId) -> bool {
        let channel = self.program.channels.get(channel.0 as usize);
        channel.is_some_and(|channel| matches!(channel.target, Target::Queue(..)))
    }

    /// Puts a packet behind its line, or drops it or another one there where the line is full. The channel leads to a
    /// queue, and the frame is the context owner's.
    pub fn put(&mut self, context: &mut WorkerContext, frame: u32, channel: ChannelId) {
        let Target::Queue(queue, on) = self.program.channels[channel.0 as usize].target else {
            unreachable!("the channel leads to no queue")
        };
        let Declared { first, lines, depth, drops, full } = self.declared[queue.0 as usize];
        let line = self.field(context.pool(), frame, 0) as u32;
        if line >= lines {
            return self.drop(context, frame, full);
        }
        // When it goes on it may be written anywhere.
        let Some(frame) = context.make_own(frame) else { return self.drop(context, frame, full) };
        let line = first + line;
        if self.lines[line as usize].len >= depth {
            let before = match drops {
                QueueDrops::Newest => None,
                QueueDrops::Oldest => Some(0),
                QueueDrops::Lowest(field) => self.before_lowest(context.pool(), line, (frame, field)),
            };
            let Some(before) = before else { return self.drop(context, frame, full) };
            let goes = self.take_behind(context.pool(), line, before);
            self.drop(context, goes, full);
        }
        self.behind[frame as usize] = [0, on.0];
        let place = &mut self.lines[line as usize];
        let last = std::mem::replace(&mut place.last, frame + 1);
        place.len += 1;
        self.held += 1;
        self.waiting.0.store(self.held, Ordering::Relaxed);
        match last {
            0 => {
                place.first = frame + 1;
                self.schedule(context.pool(), line);
            }
            last => self.behind[last as usize - 1][0] = frame + 1,
        }
    }

    /// When to look: not later than the next packet's time. The past where it has come.
    pub fn next_due(&self) -> Option<u64> {
        match &self.times {
            Times::Wheel(wheel) => wheel.next(),
            Times::Sorted(times) => times.first().map(|(at, _)| *at),
        }
    }

    /// Takes at most `most` packets whose time has come; how many. The steps that it takes besides are bounded, too;
    /// whether any were taken.
    pub fn release(&mut self, pool: &FramePool, now: u64, most: usize, released: &mut Entering) -> (usize, bool) {
        let (mut count, mut left) = (0, STEPS);
        let most = most.min(MAX_BATCH);
        while count < most {
            let line = match &mut self.times {
                Times::Wheel(wheel) => {
                    let due = wheel.expire(now, &mut left);
                    left = left.saturating_sub(1);
                    due.map(|(line, _)| line)
                }
                Times::Sorted(times) if times.first().is_some_and(|(at, _)| *at <= now) => {
                    times.pop_first().map(|(_, line)| line)
                }
                Times::Sorted(_) => None,
            };
            let Some(line) = line else { break };
            // In simulated time each line takes its turn.
            let in_a_row = if matches!(self.times, Times::Sorted(_)) { 1 } else { most };
            for _ in 0..in_a_row {
                let first = self.lines[line as usize].first;
                if count == most || first == 0 || self.time(pool, first - 1) > now {
                    break;
                }
                let frame = self.pop(line);
                released[count] = (frame, ChannelId(self.behind[frame as usize][1]));
                count += 1;
            }
            self.schedule(pool, line);
            if left == 0 {
                break;
            }
        }
        if let Times::Wheel(wheel) = &mut self.times {
            wheel.work_ahead(&mut left);
        }
        (count, count > 0 || left < STEPS)
    }

    /// What has no PPF behind its channel leaves the program; whether it does.
    pub fn leaves(&self, context: &mut WorkerContext, frame: u32, channel: ChannelId) -> bool {
        onward::leaves((&self.program, &self.slots), context, frame, channel)
    }

    /// Goes on with the packets of another program of the same worker, for which it gives frames to the context: those
    /// of queues that this program has, too, where it has the same metadata. The others are dropped.
    pub fn go_on(&mut self, context: &mut WorkerContext, from: &mut Queues) {
        let known = |channel: ChannelId| {
            let name = &from.program.channels[channel.0 as usize].name;
            let is_into = |other: &baker::ir::Channel| matches!(other.target, Target::Queue(_, on) if self.program.channels[on.0 as usize].name == *name);
            self.program.channels.iter().position(is_into).map(|index| ChannelId(index as u32))
        };
        let same = self.program.metadata == from.program.metadata;
        let into: Vec<_> =
            (0..from.program.channels.len() as u32).map(|id| known(ChannelId(id)).filter(|_| same)).collect();
        for line in 0..from.lines.len() as u32 {
            from.unschedule(context.pool(), line);
            while from.lines[line as usize].first != 0 {
                let frame = from.pop(line);
                match into[from.behind[frame as usize][1] as usize] {
                    Some(channel) => self.put(context, frame, channel),
                    None => self.drop(context, frame, self.declared[0].full),
                }
            }
        }
    }

    /// Gives all frames back.
    pub fn clear(&mut self, context: &mut WorkerContext) {
        for line in 0..self.lines.len() as u32 {
            while self.held > 0 && self.lines[line as usize].first != 0 {
                context.push(self.pop(line));
            }
        }
    }

    /// Takes the first packet of a line, which there is.
    fn pop(&mut self, line: u32) -> u32 {
        let place = &mut self.lines[line as usize];
        let frame = place.first - 1;
        place.first = self.behind[frame as usize][0];
        place.len -= 1;
        if place.first == 0 {
            place.last = 0;
        }
        self.held -= 1;
        self.waiting.0.store(self.held, Ordering::Relaxed);
        frame
    }

    /// Of a full line, the packet in front of the first one whose metadata is lowest, as `first` and `last` have it;
    /// `None` where a packet's own is lower still.
    fn before_lowest(&self, pool: &FramePool, line: u32, (own, field): (u32, MetaId)) -> Option<u32> {
        let MetaField { offset, width, .. } = self.program.metadata[field.0 as usize];
        let value = |frame| read(pool, frame, offset as usize, width);
        let (mut before, mut at) = (0, self.lines[line as usize].first);
        let mut lowest = (value(own), None);
        while at != 0 {
            let found = value(at - 1);
            if found < lowest.0 || (found == lowest.0 && lowest.1.is_none()) {
                lowest = (found, Some(before));
            }
            (before, at) = (at, self.behind[at as usize - 1][0]);
        }
        lowest.1
    }

    /// Takes the packet behind another one, or the first one (0), out of its line.
    fn take_behind(&mut self, pool: &FramePool, line: u32, before: u32) -> u32 {
        let Some(last) = before.checked_sub(1) else {
            self.unschedule(pool, line);
            let first = self.pop(line);
            self.schedule(pool, line);
            return first;
        };
        let taken = self.behind[last as usize][0] - 1;
        let next = self.behind[taken as usize][0];
        self.behind[last as usize][0] = next;
        let place = &mut self.lines[line as usize];
        place.len -= 1;
        if next == 0 {
            place.last = before;
        }
        self.held -= 1;
        taken
    }

    /// Sets the time of a line's first packet, where there is one.
    fn schedule(&mut self, pool: &FramePool, line: u32) {
        let first = self.lines[line as usize].first;
        if first == 0 {
            return;
        }
        let at = self.time(pool, first - 1);
        match &mut self.times {
            Times::Wheel(wheel) => wheel.set(line, at),
            Times::Sorted(times) => _ = times.insert((at, line)),
        }
    }

    /// A line's first packet is about to be another one.
    fn unschedule(&mut self, pool: &FramePool, line: u32) {
        let first = self.lines[line as usize].first;
        if first == 0 {
            return;
        }
        let at = self.time(pool, first - 1);
        match &mut self.times {
            Times::Wheel(wheel) => _ = wheel.cancel(line),
            Times::Sorted(times) => _ = times.remove(&(at, line)),
        }
    }

    fn time(&self, pool: &FramePool, frame: u32) -> u64 {
        self.field(pool, frame, 1)
    }

    fn field(&self, pool: &FramePool, frame: u32, which: usize) -> u64 {
        read(pool, frame, self.fields[which], [32, 64][which]) as u64
    }

    fn drop(&self, context: &mut WorkerContext, frame: u32, reason: DropId) {
        context.let_go(frame);
        context.counters().add(self.slots.drop(reason), 1);
    }
}

/// Metadata of a packet that waits, or comes to.
fn read(pool: &FramePool, frame: u32, offset: usize, width: u32) -> u128 {
    // SAFETY: the frame is the context owner's, which holds it in its queues or has just got it; the field lies within
    // the metadata.
    let bytes = unsafe {
        let at = pool.metadata(frame).add(offset);
        std::slice::from_raw_parts(at, storage_size(width) as usize)
    };
    read_field(bytes, width)
}

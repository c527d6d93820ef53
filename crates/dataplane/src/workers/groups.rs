//! Packets that wait for the members of groups: `baker::ir::Group`.
//!
//! ```text
//! group 3:  p1  p2  p3     p4 …        together: the first three; from member 6 on
//!           member 5: p1 p2 p3         so packets of one receiver follow each other in a port's batch
//!           member 6: p1 p2 …          a slice ends anywhere; the next one goes on there
//! ```
//!
//! A packet comes as an output of the program on a channel that leads to groups, with the group's number in its
//! metadata. It lies in its frame, written by nobody, until each member of the group has got a copy, which shares the
//! payload and enters by the channel behind the groups: a batch of copies at a time, between two batches of received
//! packets. Packets that wait for one group go out together, up to some, member by member. A cursor is a member's number
//! (see `tables/members.rs`), so members may come and go meanwhile. Groups take turns. Nothing is allocated, and what
//! waits is bounded for all groups of a worker together.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use baker::ir::{ChannelId, CounterSlots, DropId, Group, Program, TableId, Target, storage_size};
use codegen::abi::{MAX_BATCH, read_field, write_field};

use super::onward::{self, Entering};
use crate::engine::TableAccess;
use crate::packets::{FramePool, Holder, Holds, WorkerContext};
use crate::sys::ETHERNET;
use crate::tables::NextMember;

/// Words of 64 numbers that are searched for members in a slice at most.
const WORDS: u32 = 1024;

/// No frame, and no place.
const NONE: u32 = u32::MAX;

/// The frames of packets that wait, for reports.
#[derive(Debug)]
struct Waiting([AtomicU32; Group::WAITING as usize]);

impl Holds for Waiting {
    fn frames(&self, seen: &mut [bool]) -> u32 {
        // Copies share them, which others may hold.
        let waiting = self.0.iter().map(|frame| frame.load(Ordering::Relaxed)).filter(|frame| *frame != NONE);
        let mut count = 0;
        waiting.for_each(|frame| count += u32::from(!std::mem::replace(&mut seen[frame as usize], true)));
        count
    }
}

/// A packet that waits.
#[derive(Clone, Copy)]
struct Place {
    frame: u32,
    /// The channel by which copies enter.
    on: ChannelId,
    /// The one behind it in its line.
    behind: u32,
    /// How many came before it.
    order: u64,
    /// Copies that share its bytes, and are not counted yet.
    shared: u32,
}

/// The packets of a group.
#[derive(Clone, Copy)]
struct Line {
    first: u32,
    last: u32,
    len: u32,
    /// The first so many are fanned out together; 0: none is yet.
    together: u32,
    /// Where the next member's number begins to be looked for.
    from: u32,
    /// The member whose turn it is, how many of the packets it has still to get, and the first of these.
    member: u32,
    left: u32,
    next: u32,
    /// A member has got those that are fanned out.
    any: bool,
}

impl Line {
    const EMPTY: Line =
        Line { first: NONE, last: NONE, len: 0, together: 0, from: 0, member: 0, left: 0, next: NONE, any: false };
}

/// What is known of the groups of a table.
#[derive(Clone, Copy)]
struct Declared {
    table: TableId,
    group: Group,
    /// Where their lines begin.
    first: u32,
}

/// The groups of a program on a worker.
pub(crate) struct Groups {
    program: Arc<Program>,
    slots: CounterSlots,
    tables: TableAccess,
    declared: Box<[Declared]>,
    /// By channel behind groups: bytes that copies need for themselves.
    own: Box<[Option<u32>]>,
    lines: Box<[Line]>,
    places: Box<[Place]>,
    free: Vec<u32>,
    /// Groups that packets wait for, those whose turn is next first.
    turns: VecDeque<(u32, Declared)>,
    /// All packets go out one after the other, in the order in which they came.
    in_order: bool,
    arrived: u64,
    waiting: Arc<Waiting>,
    /// Where group and member lie in the metadata.
    fields: [usize; 2],
}

impl Groups {
    /// Of a program that has any, with its tables; `own` says how many bytes copies need for themselves which enter by
    /// a channel.
    pub fn new(
        program: &Arc<Program>,
        pool: &FramePool,
        tables: &TableAccess,
        own: impl Fn(ChannelId) -> Option<u32>,
    ) -> Option<Self> {
        let [group, member, _] =
            program.group_fields()?.map(|field| program.metadata[field.0 as usize].offset as usize);
        let mut lines = 0;
        let declared = (0..).map(TableId).zip(&program.tables).filter_map(|(table, declared)| {
            let group = declared.group?;
            lines += group.groups;
            Some(Declared { table, group, first: lines - group.groups })
        });
        let declared = declared.collect();
        let channels = 0..program.channels.len() as u32;
        // Drivers read the Ethernet header.
        let own = channels.map(|channel| own(ChannelId(channel)).map(|own| own.max(ETHERNET as u32))).collect();
        let waiting = Arc::new(Waiting(std::array::from_fn(|_| AtomicU32::new(NONE))));
        pool.holders.register(Holder::Group, &waiting);
        let place = Place { frame: NONE, on: Program::RX, behind: NONE, order: 0, shared: 0 };
        Some(Groups {
            program: program.clone(),
            slots: CounterSlots::new(program),
            tables: tables.clone(),
            declared,
            own,
            lines: vec![Line::EMPTY; lines as usize].into(),
            places: vec![place; Group::WAITING as usize].into(),
            free: (0..Group::WAITING).rev().collect(),
            turns: VecDeque::with_capacity(Group::WAITING as usize),
            in_order: false,
            arrived: 0,
            waiting,
            fields: [group, member],
        })
    }

    /// From now on one packet after the other goes out, to all members.
    pub fn in_order(self) -> Self {
        Groups { in_order: true, ..self }
    }

    /// Packets that wait.
    pub fn held(&self) -> u32 {
        Group::WAITING - self.free.len() as u32
    }

    /// Whether a channel leads to groups.
    pub fn is_group(&self, channel: ChannelId) -> bool {
        let channel = self.program.channels.get(channel.0 as usize);
        channel.is_some_and(|channel| matches!(channel.target, Target::Group(..)))
    }

    /// Lets a packet wait for the members of its group, or drops it where there are none or too many wait. The channel
    /// leads to groups, and the frame is the context owner's.
    pub fn put(&mut self, context: &mut WorkerContext, frame: u32, channel: ChannelId) {
        let Target::Group(table, on) = self.program.channels[channel.0 as usize].target else {
            unreachable!("the channel leads to no group")
        };
        let declared = *self.declared.iter().find(|declared| declared.table == table).expect("groups are declared");
        let group = self.group(context.pool(), frame);
        let is_there = group < declared.group.groups;
        let waits = is_there && self.lines[(declared.first + group) as usize].len > 0;
        if !is_there || !waits && self.tables.next_member(table, group, 0, &mut { WORDS }) == NextMember::End {
            return self.drop(context, frame, declared.group.none);
        }
        let line = declared.first + group;
        if self.free.is_empty() || self.lines[line as usize].len >= Group::WAITING_FOR_ONE {
            return self.drop(context, frame, declared.group.full);
        }
        // Copies share its bytes, so it is whole, and nobody else writes it.
        match context.make_own(frame) {
            Some(frame) => self.append((line, declared), frame, on),
            None => self.drop(context, frame, declared.group.full),
        }
    }

    /// Puts a packet behind its line; there is a free place.
    fn append(&mut self, (line, declared): (u32, Declared), frame: u32, on: ChannelId) {
        let Some(place) = self.free.pop() else { unreachable!("there is a free place") };
        self.arrived += 1;
        self.places[place as usize] = Place { frame, on, behind: NONE, order: self.arrived, shared: 0 };
        self.waiting.0[place as usize].store(frame, Ordering::Relaxed);
        let of = &mut self.lines[line as usize];
        match std::mem::replace(&mut of.last, place) {
            NONE => {
                of.first = place;
                self.turns.push_back((line, declared));
            }
            last => self.places[last as usize].behind = place,
        }
        of.len += 1;
    }

    /// Makes at most `most` copies, with the channels by which they enter; how many, and whether anything was done. The
    /// context has a free frame for each.
    pub fn fan_out(&mut self, context: &mut WorkerContext, most: usize, copies: &mut Entering) -> (usize, bool) {
        let (mut count, mut words) = (0, WORDS);
        let (mut sharing, mut sharers) = ([NONE; MAX_BATCH], 0);
        while count < most.min(MAX_BATCH) && words > 0 {
            if self.in_order {
                let orders =
                    self.turns.iter().map(|(line, _)| self.places[self.lines[*line as usize].first as usize].order);
                let first = orders.enumerate().min_by_key(|(_, order)| *order);
                first.into_iter().for_each(|(index, _)| self.turns.swap(0, index));
            }
            let Some(&(line, declared)) = self.turns.front() else { break };
            let of = &mut self.lines[line as usize];
            if of.together == 0 {
                let most = if self.in_order { 1 } else { Group::IN_A_ROW };
                (of.together, of.from, of.any) = (of.len.min(most), 0, false);
            }
            if of.left == 0 {
                match self.tables.next_member(declared.table, line - declared.first, of.from, &mut words) {
                    NextMember::Member(member) => {
                        (of.member, of.from, of.left, of.next) = (member, member + 1, of.together, of.first);
                    }
                    NextMember::From(from) => {
                        of.from = from;
                        break;
                    }
                    NextMember::End => {
                        self.finish(context);
                        continue;
                    }
                }
            }
            let place = &mut self.places[of.next as usize];
            let Place { frame, on, behind, .. } = *place;
            let Some((copy, shares)) = context.share(frame, self.own[on.0 as usize]) else { break };
            if shares {
                if place.shared == 0 {
                    sharing[sharers] = of.next;
                    sharers += 1;
                }
                place.shared += 1;
            }
            (of.next, of.left, of.any) = (behind, of.left - 1, true);
            let member = of.member;
            self.set_member(context.pool(), copy, member);
            copies[count] = (copy, on);
            count += 1;
        }
        sharing[..sharers].iter().for_each(|place| self.count_shared(context.pool(), *place));
        if !self.in_order && self.turns.len() > 1 {
            self.turns.rotate_left(1);
        }
        (count, count > 0 || words < WORDS)
    }

    /// The packets that are fanned out together have come to all members of the group whose turn it is.
    fn finish(&mut self, context: &mut WorkerContext) {
        let Some((line, declared)) = self.turns.pop_front() else { return };
        let Line { together, any, .. } = self.lines[line as usize];
        for _ in 0..together {
            self.count_shared(context.pool(), self.lines[line as usize].first);
            let (frame, _) = self.pop(line);
            if any { context.let_go(frame) } else { self.drop(context, frame, declared.group.none) }
        }
        let of = &mut self.lines[line as usize];
        (of.together, of.left, of.next) = (0, 0, NONE);
        if of.len > 0 {
            self.turns.push_back((line, declared));
        }
    }

    /// Has the frame of a packet held for the copies that share it: once for all of a batch, as it is an atomic
    /// operation.
    fn count_shared(&mut self, pool: &FramePool, place: u32) {
        let place = &mut self.places[place as usize];
        pool.hold(place.frame, std::mem::take(&mut place.shared));
    }

    /// Takes the first packet of a line, which there is.
    fn pop(&mut self, line: u32) -> (u32, ChannelId) {
        let of = &mut self.lines[line as usize];
        let place = of.first;
        let Place { frame, on, behind, .. } = self.places[place as usize];
        (of.first, of.len) = (behind, of.len - 1);
        if behind == NONE {
            of.last = NONE;
        }
        self.free.push(place);
        self.waiting.0[place as usize].store(NONE, Ordering::Relaxed);
        (frame, on)
    }

    /// What has no PPF behind its channel leaves the program; whether it does.
    pub fn leaves(&self, context: &mut WorkerContext, frame: u32, channel: ChannelId) -> bool {
        onward::leaves((&self.program, &self.slots), context, frame, channel)
    }

    /// Goes on where another program of the same worker was, for which it gives frames to the context: with packets of
    /// channels that this program has, too, where it has the same metadata, and behind those that wait here. The others
    /// are dropped. Only when this program has none yet, others may have begun to be fanned out.
    pub fn go_on(&mut self, context: &mut WorkerContext, from: &mut Groups) {
        let onward: Vec<Option<(Declared, ChannelId)>> =
            (0..from.program.channels.len()).map(|channel| self.known(from, channel)).collect();
        while let Some((line, declared)) = from.turns.pop_front() {
            let (before, group) = (from.lines[line as usize], line - declared.first);
            for index in 0..before.len {
                let (frame, on) = from.pop(line);
                let has_room = !self.free.is_empty();
                let known = onward[on.0 as usize].filter(|(declared, _)| has_room && group < declared.group.groups);
                let Some((declared, on)) = known else {
                    self.drop(context, frame, self.declared[0].group.full);
                    continue;
                };
                self.append((declared.first + group, declared), frame, on);
                let of = &mut self.lines[(declared.first + group) as usize];
                if index < before.together {
                    of.together += 1;
                    (of.from, of.member, of.any) = (before.from, before.member, before.any);
                    // The member whose turn it was has still to get the last ones.
                    if before.together - index <= before.left {
                        of.left += 1;
                        of.next = if of.next == NONE { of.last } else { of.next };
                    }
                }
            }
            from.lines[line as usize] = Line::EMPTY;
        }
    }

    /// What becomes here of copies that enter by a channel of another program.
    fn known(&self, from: &Groups, channel: usize) -> Option<(Declared, ChannelId)> {
        if self.program.metadata != from.program.metadata {
            return None;
        }
        let name = &from.program.channels[channel].name;
        self.program.channels.iter().find_map(|other| match other.target {
            Target::Group(table, on) if self.program.channels[on.0 as usize].name == *name => {
                Some((*self.declared.iter().find(|declared| declared.table == table)?, on))
            }
            _ => None,
        })
    }

    /// Drops all packets.
    pub fn clear(&mut self, context: &mut WorkerContext) {
        while let Some((line, declared)) = self.turns.pop_front() {
            while self.lines[line as usize].len > 0 {
                let (frame, _) = self.pop(line);
                self.drop(context, frame, declared.group.full);
            }
            self.lines[line as usize] = Line::EMPTY;
        }
    }

    /// The group that a packet of this worker says.
    fn group(&self, pool: &FramePool, frame: u32) -> u32 {
        // SAFETY: the frame is the context owner's; the field lies within the metadata.
        let bytes =
            unsafe { std::slice::from_raw_parts(pool.metadata(frame).add(self.fields[0]), storage_size(32) as usize) };
        read_field(bytes, 32) as u32
    }

    fn set_member(&self, pool: &FramePool, frame: u32, member: u32) {
        // SAFETY: the frame was just taken for the copy, so it is the context owner's; the field lies within the
        // metadata.
        let bytes = unsafe {
            std::slice::from_raw_parts_mut(pool.metadata(frame).add(self.fields[1]), storage_size(32) as usize)
        };
        write_field(bytes, 32, member.into());
    }

    fn drop(&self, context: &mut WorkerContext, frame: u32, reason: DropId) {
        context.let_go(frame);
        context.counters().add(self.slots.drop(reason), 1);
    }
}

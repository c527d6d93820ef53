//! How much of a packet a copy needs for itself: the rest can be the same memory as the original's.
//!
//! ```text
//!   v1: ether = copy v0              v1 gets 38 bytes of its own
//!   store v1 [0..48] v7              the copy's byte 5
//!   v2: ipv4 = pull v1 14
//!   v3: int8 = load v2 [64..72]      the copy's byte 22
//!   put v2 tx
//!   v4: ipv4 = pull v0 14
//!   store v4 [160..192] v8           the original's byte 37: what the copy shares must not change
//!   put v4 tx
//! ```
//!
//! Bytes that are shared are written by neither packet, and a copy finds its own ones in its own memory. So what a copy
//! needs for itself reaches up to what it reads and writes until it leaves, with all copies that are made of it, and to
//! what the original writes until it leaves. A backward dataflow over all bodies finds the greatest distance from the
//! head of each packet. It does not tell what is done in front of a copy from what is done behind it, so it may say too
//! much, never too little. What has no bound is copied whole.
//!
//! A group keeps the packet that its members get copies of, and nobody writes it: so these need for themselves what is
//! done with packets that enter by the channel behind the group.

use std::collections::HashMap;

use super::bounds::Bounds;
use crate::ir::*;

/// Distance beyond which a copy is whole.
const MOST: i32 = 512;

/// Bytes that copies need for themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copies {
    ppfs: Vec<HashMap<Value, u32>>,
    timers: Vec<HashMap<Value, u32>>,
    /// Of those for members of groups, by the channels that they enter by.
    members: HashMap<ChannelId, u32>,
}

impl Copies {
    /// Of the copies that a PPF makes, by their values; those that are whole are not listed.
    pub fn of_ppf(&self, ppf: usize) -> &HashMap<Value, u32> {
        &self.ppfs[ppf]
    }

    /// Of those that a timer makes.
    pub fn of_timer(&self, timer: usize) -> &HashMap<Value, u32> {
        &self.timers[timer]
    }

    /// The channels by which copies for members of groups enter that are not whole, and what these need, in no order.
    pub fn members(&self) -> impl Iterator<Item = (ChannelId, u32)> {
        self.members.iter().map(|(channel, bytes)| (*channel, *bytes))
    }

    /// Whether no copy that the program makes may share anything.
    pub fn is_empty(&self) -> bool {
        self.ppfs.iter().chain(&self.timers).all(HashMap::is_empty)
    }
}

/// What is done with a packet until it leaves, as distances behind its head, which may be negative.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Need {
    /// Read or written, by it or by a copy of it.
    touched: i32,
    /// Written by itself.
    written: i32,
}

/// Where nothing is done.
const NOWHERE: i32 = i32::MIN;
/// Where there is no bound.
const ANYWHERE: i32 = i32::MAX;

impl Need {
    const NONE: Need = Need { touched: NOWHERE, written: NOWHERE };
    const ALL: Need = Need { touched: ANYWHERE, written: ANYWHERE };

    /// Bytes up to this distance are read, or also written.
    fn upto(end: Option<u64>, written: bool) -> Need {
        let end = end.and_then(|end| i32::try_from(end).ok()).map_or(ANYWHERE, bounded);
        Need { touched: end, written: if written { end } else { NOWHERE } }
    }

    fn join(self, other: Need) -> Need {
        Need { touched: self.touched.max(other.touched), written: self.written.max(other.written) }
    }

    /// The same of a packet whose head is so many bytes further in front; `None`: anywhere.
    fn behind(self, by: Option<i32>) -> Need {
        let moved = |end: i32| match (end, by) {
            (NOWHERE, _) => NOWHERE,
            (ANYWHERE, _) | (_, None) => ANYWHERE,
            (end, Some(by)) => bounded(end.saturating_add(by).max(-MOST)),
        };
        Need { touched: moved(self.touched), written: moved(self.written) }
    }
}

fn bounded(end: i32) -> i32 {
    if end <= MOST { end } else { ANYWHERE }
}

/// How much the copies of a program need as it is: an optimised one is to be asked itself.
pub fn copies(program: &Program) -> Copies {
    let bodies = || program.ppfs.iter().map(|ppf| &ppf.body).chain(program.timers.iter().map(|timer| &timer.body));
    let members =
        || (0..).map(ChannelId).zip(&program.channels).filter(|(_, c)| matches!(c.from, Some(Source::Group(_))));
    if !bodies().any(has_copy) && members().next().is_none() {
        let none = |count: usize| vec![HashMap::new(); count];
        return Copies { ppfs: none(program.ppfs.len()), timers: none(program.timers.len()), members: HashMap::new() };
    }
    let ppfs: Vec<Bounds> = program.ppfs.iter().map(|ppf| Bounds::new(&ppf.body)).collect();
    let timers: Vec<Bounds> = program.timers.iter().map(|timer| Bounds::new(&timer.body)).collect();
    let mut flow = Flow { program, entering: vec![Need::NONE; program.ppfs.len()] };
    loop {
        let before = flow.entering.clone();
        for (ppf, numbers) in ppfs.iter().enumerate().rev() {
            let needs = flow.body(numbers);
            if let Some(param) = numbers.body.blocks[0].params.first() {
                flow.entering[ppf] = needs[param.0 as usize];
            }
        }
        if flow.entering == before {
            break;
        }
    }
    let all = |bodies: &Vec<Bounds>| bodies.iter().map(|numbers| flow.copies(numbers)).collect();
    let member = |(id, channel): (ChannelId, &Channel)| {
        let touched = match channel.target {
            Target::Ppf(ppf) => flow.entering[ppf.0 as usize].touched,
            _ => NOWHERE,
        };
        (touched != ANYWHERE).then_some((id, touched.max(0) as u32))
    };
    let members = members().filter_map(member).collect();
    Copies { ppfs: all(&ppfs), timers: all(&timers), members }
}

fn has_copy(body: &Body) -> bool {
    body.blocks
        .iter()
        .flat_map(|block| &block.insts)
        .any(|inst| matches!(inst.op, Op::Copy { .. } | Op::HoldGet { .. }))
}

struct Flow<'p> {
    program: &'p Program,
    /// What PPFs do with the packets that come to them.
    entering: Vec<Need>,
}

impl Flow<'_> {
    /// What is done with each packet of a body.
    fn body(&self, numbers: &Bounds) -> Vec<Need> {
        let body = numbers.body;
        let mut needs = vec![Need::NONE; body.values.len()];
        let mut again = true;
        while again {
            again = false;
            let mut add = |needs: &mut Vec<Need>, packet: Value, need: Need| {
                let joined = needs[packet.0 as usize].join(need);
                again |= joined != needs[packet.0 as usize];
                needs[packet.0 as usize] = joined;
            };
            for block in body.blocks.iter().rev() {
                for dest in block.term.dests() {
                    for (param, arg) in body.passed(dest) {
                        if let Ty::Packet(_) = body.ty(arg) {
                            let need = needs[param.0 as usize];
                            add(&mut needs, arg, need);
                        }
                    }
                }
                for inst in block.insts.iter().rev() {
                    let result = inst.result.map_or(Need::NONE, |result| needs[result.0 as usize]);
                    if let Some((packet, need)) = self.inst(numbers, inst, result) {
                        add(&mut needs, packet, need);
                    }
                }
            }
        }
        needs
    }

    /// What an instruction does with a packet, where so much is done with its result.
    fn inst(&self, numbers: &Bounds, inst: &Inst, result: Need) -> Option<(Value, Need)> {
        match inst.op {
            Op::Pull { packet, bytes } => {
                Some((packet, result.behind(numbers.most(bytes).and_then(|most| i32::try_from(most).ok()))))
            }
            Op::Push { packet, bytes } => {
                let by = i32::try_from(bytes).ok().map(|bytes| -bytes);
                Some((packet, result.behind(by).join(Need::upto(Some(0), true))))
            }
            Op::Move { packet, by } => Some((packet, result.behind(Some(by)))),
            Op::Copy { packet } => Some((packet, Need { touched: result.touched, written: NOWHERE })),
            // What lies behind the end of one packet may be another one's.
            Op::Grow { packet, end: PacketEnd::Tail, .. } => Some((packet, Need::ALL)),
            Op::Grow { packet, end: PacketEnd::Head, .. } => Some((packet, Need::upto(Some(0), true))),
            Op::Put { packet, channel } => match self.program.channels[channel.0 as usize].target {
                Target::Ppf(ppf) => Some((packet, self.entering[ppf.0 as usize])),
                // A queue, as a controller, gets packets that share nothing.
                Target::Tx | Target::Host | Target::Controller(_) | Target::Queue(..) | Target::Group(..) => None,
            },
            _ => {
                let Touches::Bytes { packet, span, how } = inst.op.touches() else { return None };
                let end = match span {
                    Span::Bits(None, bits) => Some(bits.end_byte().into()),
                    Span::Bits(Some(offset), bits) => {
                        numbers.most(offset).map(|most| most + u64::from(bits.end_byte()))
                    }
                    Span::Range(offset, bytes) => {
                        numbers.most(offset).zip(numbers.most(bytes)).map(|(offset, bytes)| offset + bytes)
                    }
                    Span::Front(_) => Some(0),
                    Span::All => None,
                };
                Some((packet, Need::upto(end, how == How::Store)))
            }
        }
    }

    /// What the copies of a body need.
    fn copies(&self, numbers: &Bounds) -> HashMap<Value, u32> {
        if !has_copy(numbers.body) {
            return HashMap::new();
        }
        let needs = self.body(numbers);
        let insts = numbers.body.blocks.iter().flat_map(|block| &block.insts);
        let copies = insts.filter_map(|inst| match inst.op {
            Op::Copy { packet } => Some((Some(packet), inst.result?)),
            // What is held is not written any more.
            Op::HoldGet { .. } => Some((None, inst.result?)),
            _ => None,
        });
        let own = |(packet, copy): (Option<Value>, Value)| {
            let written = packet.map_or(NOWHERE, |packet| needs[packet.0 as usize].written);
            let own = needs[copy.0 as usize].touched.max(written);
            (own != ANYWHERE).then_some((copy, own.max(0) as u32))
        };
        copies.filter_map(own).collect()
    }
}

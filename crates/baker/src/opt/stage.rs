//! Look-up staging: where the packets of a batch wait for each other's memory.
//!
//! A look-up in a table that is larger than the caches waits for memory, and packet after packet waits in turn. So
//! native code takes the whole batch up to a look-up, fetches ahead what each packet will look into, and only then goes
//! on, from look-up to look-up, as the threads of a network processor give way to each other:
//!
//! ```text
//! for packet in batch { station = learn(packet); … }      becomes
//!
//! for packet in batch { up to the first look-up: prefetch, save what is live }
//! for packet in batch { from there to the next look-up: prefetch, save }             as often as look-ups follow
//! for packet in batch { from where it stopped to its end }                           in order, with all effects
//! ```
//!
//! Nothing of this can be seen. What runs ahead has no effects: before the first one a packet stops, and waits until
//! all packets before it are done. What counts packets is put off until then, too ([`Plan::deferred`]), as is the time
//! of use of entries that age. And where a packet before it has changed what a packet has looked up meanwhile, that one
//! begins again: each notes what it has read in a signature of 64 bits, and each change notes what it changes
//! ([`Plan::keys`], [`Plan::layouts`]); where both share a bit, they may have met.
//!
//! This pass changes nothing in the body: it finds the places, what is live there, and where a packet's record keeps
//! it.

use std::collections::{BTreeMap, BTreeSet};

use crate::ir::analysis::{Cfg, Definition, Definitions, Liveness};
use crate::ir::*;

/// Tables that can take no more bytes than this stay in the nearest cache.
const CACHED: u64 = 32 << 10;
/// Instructions that may be put off: bits of a record's mask.
const DEFERRED: usize = 64;
/// Words of a record at most: all records of a batch lie in the nearest cache.
const WORDS: u32 = 64;
/// Look-ups that are fetched for at most.
const MAX_LOOK_UPS: usize = 30;
/// Places at most where packets stop, so that code stays short.
const STOPS: usize = 200;

/// A place in the body behind `rx`, in front of an instruction (or of the terminator).
#[derive(Clone, Debug)]
pub struct Point {
    /// The block.
    pub block: BlockId,
    /// The instruction's index.
    pub inst: usize,
    /// What the record keeps for what follows.
    pub saved: Vec<Value>,
    /// Instructions that run again instead, each after what it is made of: blocks and instructions.
    pub again: Vec<(BlockId, usize)>,
    /// Which of [`Plan::deferred`] are due here on all paths.
    pub due: Vec<usize>,
    /// Which of them are due here on some paths; a bit in the record's mask says whether.
    pub maybe: Vec<usize>,
}

/// A look-up that may wait for memory.
#[derive(Clone, Debug)]
pub struct LookUp {
    /// In front of it.
    pub point: Point,
    /// The table.
    pub table: TableId,
    /// Which of [`Plan::look_ups`] a packet may come to after it.
    pub later: Vec<usize>,
}

/// How the look-ups of a program are staged.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The PPF behind `rx`.
    pub root: PpfId,
    /// Blocks that run ahead, some of them only as far as an effect.
    pub ahead: BTreeSet<BlockId>,
    /// In front of look-ups that may wait for memory.
    pub look_ups: Vec<LookUp>,
    /// In front of effects.
    pub stops: Vec<Point>,
    /// What is put off: blocks and instructions.
    pub deferred: Vec<(BlockId, usize)>,
    /// Where in the record a value lies: in words of 64 bits.
    pub slots: BTreeMap<Value, u32>,
    /// Words of a record's slots.
    pub words: u32,
    /// Tables that are looked up ahead and that the program inserts into or removes from.
    pub keys: BTreeSet<TableId>,
    /// Layouts of entries that are read ahead and that the program changes.
    pub layouts: BTreeSet<LayoutId>,
    /// Fields in which entries that age keep their time of use.
    pub times: Times,
}

impl Plan {
    /// The plan for the body behind `rx`; `None` where no look-up may wait for memory.
    pub fn new(program: &Program) -> Option<Plan> {
        let Target::Ppf(root) = program.channels.get(Program::RX.0 as usize)?.target else { return None };
        let body = &program.ppfs.get(root.0 as usize)?.body;
        let times = Times::new(program);
        let cfg = Cfg::new(body);
        let ahead = Ahead::new(program, body, &cfg, &times);
        if ahead.look_ups.is_empty() || ahead.stops.len() > STOPS {
            return None;
        }
        let (live, definitions) = (Liveness::new(body, &cfg), Definitions::new(body));
        let context = Points { body, ahead: &ahead, live: &live, definitions: &definitions };
        let look_up = |&(block, inst, table): &(BlockId, usize, TableId)| LookUp {
            point: context.point(block, inst),
            table,
            later: ahead.later(body, block, inst),
        };
        let look_ups: Vec<LookUp> = ahead.look_ups.iter().map(look_up).collect();
        let stops: Vec<Point> = ahead.stops.iter().map(|&(block, inst)| context.point(block, inst)).collect();
        let (slots, words) = slots(body, points(&look_ups, &stops));
        if words > WORDS {
            return None;
        }
        let (keys, layouts) = changed(program, &ahead.tables, &times);
        let blocks = ahead.before.keys().copied().collect();
        Some(Plan {
            root,
            ahead: blocks,
            look_ups,
            stops,
            deferred: ahead.deferred,
            slots,
            words,
            keys,
            layouts,
            times,
        })
    }

    /// All places at which packets stop.
    pub fn points(&self) -> impl Iterator<Item = &Point> {
        points(&self.look_ups, &self.stops)
    }

    /// Whether what is put off depends on the path somewhere.
    pub fn has_choice(&self) -> bool {
        self.points().any(|point| !point.maybe.is_empty())
    }

    /// Whether a packet may have to begin again.
    pub fn may_conflict(&self) -> bool {
        !self.keys.is_empty() || !self.layouts.is_empty()
    }
}

fn points<'a>(look_ups: &'a [LookUp], stops: &'a [Point]) -> impl Iterator<Item = &'a Point> {
    look_ups.iter().map(|look_up| &look_up.point).chain(stops)
}

/// Whether look-ups in a table may wait for memory that can be fetched ahead.
fn may_wait(program: &Program, table: &Table) -> bool {
    let layout = |id: LayoutId| program.layouts.get(id.0 as usize);
    let (Some(key), Some(value)) = (layout(table.key), layout(table.value)) else { return false };
    match table.kind {
        TableKind::Array => false,
        // Other tries lead from node to node, which nothing knows beforehand.
        TableKind::Lpm => key.fields.first().is_some_and(|field| field.width == 32),
        TableKind::Hash => {
            let key_bits: u32 = key.fields.iter().map(|field| field.width).sum();
            // And about as much for what leads there.
            let entry = u64::from(key_bits.div_ceil(64) * 8 + value.size) + 24;
            u64::from(table.capacity) * entry > CACHED
        }
    }
}

/// What the program changes of these tables: those whose keys come and go, and layouts whose entries change.
fn changed(program: &Program, read: &BTreeSet<TableId>, times: &Times) -> (BTreeSet<TableId>, BTreeSet<LayoutId>) {
    let (mut keys, mut layouts) = (BTreeSet::new(), BTreeSet::new());
    let value = |table: &TableId| program.tables[table.0 as usize].value;
    for body in program.ppfs.iter().map(|ppf| &ppf.body) {
        for op in body.blocks.iter().flat_map(|block| &block.insts).map(|inst| &inst.op) {
            match op {
                Op::Insert { table, .. } | Op::Remove { table, .. } => {
                    match program.tables[table.0 as usize].kind {
                        TableKind::Hash => keys.insert(*table),
                        // The entry is there already, and changes.
                        _ => layouts.insert(value(table)),
                    };
                }
                Op::EntryStore { entry, .. } if !times.is_touch(body, op) => {
                    if let Ty::Entry(layout) = body.ty(*entry) {
                        layouts.insert(layout);
                    }
                }
                _ => {}
            }
        }
    }
    keys.retain(|table| read.contains(table));
    layouts.retain(|layout| read.iter().any(|table| value(table) == *layout));
    (keys, layouts)
}

/// What of a body may run ahead: from the entry to the first effect on each path.
struct Ahead {
    look_ups: Vec<(BlockId, usize, TableId)>,
    stops: Vec<(BlockId, usize)>,
    deferred: Vec<(BlockId, usize)>,
    /// Tables that are looked up.
    tables: BTreeSet<TableId>,
    /// For each block that may run ahead, which of `deferred` were come by before it on all paths, and on some.
    before: BTreeMap<BlockId, (u64, u64)>,
}

impl Ahead {
    fn new(program: &Program, body: &Body, cfg: &Cfg, times: &Times) -> Ahead {
        let mut ahead = Ahead {
            look_ups: Vec::new(),
            stops: Vec::new(),
            deferred: Vec::new(),
            tables: BTreeSet::new(),
            before: BTreeMap::from([(BlockId(0), (0, 0))]),
        };
        // At least one block of each circle.
        let heads: BTreeSet<BlockId> = cfg.back_edges().map(|(_, head)| head).collect();
        let mut done = BTreeSet::new();
        for &block in cfg.order.iter().filter(|block| !heads.contains(block)) {
            if ahead.before.contains_key(&block) {
                ahead.block(program, body, block, times);
                done.insert(block);
            }
        }
        // Loops are not run ahead, whichever way packets come into them.
        ahead.stops.extend(ahead.before.keys().filter(|block| !done.contains(block)).map(|block| (*block, 0)));
        ahead
    }

    fn block(&mut self, program: &Program, body: &Body, id: BlockId, times: &Times) {
        let (mut always, mut sometimes) = self.before[&id];
        let block = &body.blocks[id.0 as usize];
        for (index, inst) in block.insts.iter().enumerate() {
            match &inst.op {
                Op::Lookup { table, .. } => {
                    self.tables.insert(*table);
                    if self.look_ups.len() < MAX_LOOK_UPS && may_wait(program, &program.tables[table.0 as usize]) {
                        self.look_ups.push((id, index, *table));
                    }
                }
                op if op.is_pure() => {}
                op if self.deferred.len() < DEFERRED
                    && (matches!(op, Op::Pass { .. } | Op::Count { .. }) || times.is_touch(body, op)) =>
                {
                    always |= 1 << self.deferred.len();
                    sometimes |= 1 << self.deferred.len();
                    self.deferred.push((id, index));
                }
                _ => {
                    self.stops.push((id, index));
                    return;
                }
            }
        }
        if block.term == Terminator::Return {
            self.stops.push((id, block.insts.len()));
        }
        for dest in block.term.dests() {
            let entry = self.before.entry(dest.block).or_insert((u64::MAX, 0));
            entry.0 &= always;
            entry.1 |= sometimes;
        }
    }

    /// The look-ups that may follow a place.
    fn later(&self, body: &Body, block: BlockId, inst: usize) -> Vec<usize> {
        let (mut seen, mut work) = (BTreeSet::new(), vec![block]);
        while let Some(from) = work.pop() {
            // Where there is an effect in it, what follows does not run ahead.
            let ends = self.stops.iter().any(|(stop, _)| *stop == from);
            let next = body.blocks[from.0 as usize].term.dests().into_iter().map(|dest| dest.block);
            work.extend(next.filter(|next| !ends && seen.insert(*next)));
        }
        let is_later = |&(b, i, _): &(BlockId, usize, TableId)| seen.contains(&b) || (b == block && i > inst);
        (0..self.look_ups.len()).filter(|look_up| is_later(&self.look_ups[*look_up])).collect()
    }

    /// Which of `deferred` were come by on all paths to a place, and on some.
    fn due(&self, block: BlockId, inst: usize) -> (u64, u64) {
        let (always, sometimes) = self.before[&block];
        let here = self.deferred.iter().enumerate().filter(|(_, (b, i))| *b == block && *i < inst);
        let here = here.fold(0, |bits, (index, _)| bits | 1 << index);
        (always | here, sometimes | here)
    }
}

struct Points<'a> {
    body: &'a Body,
    ahead: &'a Ahead,
    live: &'a Liveness<'a>,
    definitions: &'a Definitions<'a>,
}

impl Points<'_> {
    fn point(&self, block: BlockId, inst: usize) -> Point {
        let (always, sometimes) = self.ahead.due(block, inst);
        let bits = |mask: u64| (0..DEFERRED).filter(|bit| mask >> bit & 1 != 0).collect::<Vec<usize>>();
        let (due, maybe) = (bits(always), bits(sometimes & !always));
        let mut wanted = self.live.at(block, inst);
        for &index in due.iter().chain(&maybe) {
            let (block, inst) = self.ahead.deferred[index];
            wanted.extend(self.body.blocks[block.0 as usize].insts[inst].op.operands());
        }
        // The packet itself is always at hand.
        wanted.remove(&self.body.blocks[0].params[0]);
        let op = |value: &Value| self.definitions.op(*value);
        let is = |value: &Value, test: fn(&Op) -> bool| op(value).is_some_and(test);
        wanted.retain(|value| !is(value, |op| matches!(op, Op::Const(_))));
        let (mut again, mut saved) = (Vec::new(), Vec::new());
        for value in wanted {
            match is(&value, |op| matches!(op, Op::Now | Op::Len { .. } | Op::MetaLoad { .. })) {
                true => again.push(value),
                false => saved.push(value),
            }
        }
        // What is a narrower or wider form of another.
        let casts: Vec<Value> =
            saved.iter().copied().filter(|value| is(value, |op| matches!(op, Op::Cast(..)))).collect();
        for &value in &casts {
            if let Some(Op::Cast(_, from)) = op(&value)
                && !casts.contains(from)
                && (saved.contains(from) || again.contains(from))
            {
                saved.retain(|other| *other != value);
                again.push(value);
            }
        }
        let made = |value: Value| match self.definitions.of(value)? {
            Definition::Inst(block, inst) => Some((block, inst)),
            Definition::Param(..) => None,
        };
        let again = again.into_iter().filter_map(made).collect();
        Point { block, inst, saved, again, due, maybe }
    }
}

/// A place in the record for each value: its own where both are kept at the same time.
fn slots<'a>(body: &Body, points: impl Iterator<Item = &'a Point>) -> (BTreeMap<Value, u32>, u32) {
    let mut beside: BTreeMap<Value, BTreeSet<Value>> = BTreeMap::new();
    for point in points {
        for value in &point.saved {
            beside.entry(*value).or_default().extend(&point.saved);
        }
    }
    let words_of = |value: Value| match body.ty(value) {
        Ty::Int(width) => width.div_ceil(64),
        _ => 1,
    };
    let (mut slots, mut words) = (BTreeMap::new(), 0);
    for (&value, others) in &beside {
        let size = words_of(value);
        let taken: Vec<(u32, u32)> =
            others.iter().filter_map(|other| Some((*slots.get(other)?, words_of(*other)))).collect();
        let free = |at: u32| taken.iter().all(|(from, len)| at + size <= *from || from + len <= at);
        let at = (0..).find(|at| free(*at)).unwrap_or(words);
        slots.insert(value, at);
        words = words.max(at + size);
    }
    (slots, words)
}

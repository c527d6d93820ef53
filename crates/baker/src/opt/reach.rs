//! How far into received packets a program reaches: behind that byte it neither reads nor writes, whatever a packet
//! holds.
//!
//! ```text
//!   v1: ipv4 = pull v0 14            the head of v1 is 14 bytes behind where the packet began
//!   v2: int4 = load v1 [4..8]        byte 14
//!   v3: int32 = shl (zext v2) 2      60 at most
//!   v4: udp = pull v1 v3             74 at most
//!   v5: int16 = load v4 [16..32]     bytes up to 78: the reach
//! ```
//!
//! A forward dataflow over all bodies: for each packet the greatest distance of its head from where it began when it
//! was received, for each number that says a place the greatest it can be. What grows with each round of a loop has no
//! bound, and neither has what depends on lengths that packets say. Packets that the program makes itself do not count,
//! and neither do whole copies, whose bytes an engine may fetch from elsewhere.

use super::bounds::Bounds;
use crate::ir::*;

/// Bytes beyond which a reach counts as none.
const MOST: u64 = 512;

/// How far a program reaches, in bytes from where a received packet begins; `None`: as far as there are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// It reads and writes in front of this byte only.
    pub touched: Option<u32>,
    /// It writes in front of this byte only.
    pub written: Option<u32>,
}

impl Reach {
    /// Of a program that nothing is known of.
    pub const WHOLE: Reach = Reach { touched: None, written: None };
}

/// Where the head of a packet is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Head {
    /// The program has made the packet.
    Own,
    /// So many bytes behind where the packet began, at most.
    Behind(i64),
    /// Anywhere.
    Anywhere,
}

impl Head {
    fn join(self, other: Head) -> Head {
        match (self, other) {
            (Head::Anywhere, _) | (_, Head::Anywhere) => Head::Anywhere,
            (Head::Own, head) | (head, Head::Own) => head,
            (Head::Behind(a), Head::Behind(b)) => Head::Behind(a.max(b)),
        }
    }

    fn moved(self, by: Option<i64>) -> Head {
        match (self, by) {
            (Head::Own, _) => Head::Own,
            (Head::Behind(at), Some(by)) if at + by <= MOST as i64 => Head::Behind(at + by),
            _ => Head::Anywhere,
        }
    }
}

/// How far a program reaches as it is: an optimised one is to be asked itself.
pub fn reach(program: &Program) -> Reach {
    let mut flow = Flow {
        program,
        incoming: vec![None; program.ppfs.len()],
        reach: Reach { touched: Some(0), written: Some(0) },
        changed: true,
    };
    for entry in program.entries() {
        flow.put(entry, Head::Behind(0));
    }
    let numbers: Vec<Bounds> = program.ppfs.iter().map(|ppf| Bounds::new(&ppf.body)).collect();
    let timers: Vec<Bounds> = program.timers.iter().map(|timer| Bounds::new(&timer.body)).collect();
    while std::mem::take(&mut flow.changed) {
        for (ppf, numbers) in numbers.iter().enumerate() {
            if let Some(head) = flow.incoming[ppf] {
                flow.body(numbers, Some(head));
            }
        }
        timers.iter().for_each(|numbers| flow.body(numbers, None));
    }
    flow.reach
}

struct Flow<'p> {
    program: &'p Program,
    /// Of the packets that come to each PPF.
    incoming: Vec<Option<Head>>,
    reach: Reach,
    changed: bool,
}

impl Flow<'_> {
    fn put(&mut self, channel: ChannelId, head: Head) {
        if let Target::Ppf(ppf) = self.program.channels[channel.0 as usize].target {
            let incoming = &mut self.incoming[ppf.0 as usize];
            let joined = Some(incoming.map_or(head, |before| before.join(head)));
            self.changed |= *incoming != joined;
            *incoming = joined;
        }
    }

    fn body(&mut self, numbers: &Bounds, entry: Option<Head>) {
        let body = numbers.body;
        let mut heads: Vec<Option<Head>> = vec![None; body.values.len()];
        if let (Some(head), Some(param)) = (entry, body.blocks[0].params.first()) {
            heads[param.0 as usize] = Some(head);
        }
        let mut again = true;
        while again {
            again = false;
            let mut set = |heads: &mut Vec<Option<Head>>, value: Value, head: Head| {
                let old = heads[value.0 as usize];
                let new = Some(old.map_or(head, |old| old.join(head)));
                again |= old != new;
                heads[value.0 as usize] = new;
            };
            for block in &body.blocks {
                for inst in &block.insts {
                    let of = |packet: Value| heads[packet.0 as usize];
                    let made = match inst.op {
                        Op::Create => Some(Head::Own),
                        Op::Copy { packet } => of(packet),
                        Op::Pull { packet, bytes } => {
                            of(packet).map(|head| head.moved(numbers.most(bytes).map(|most| most as i64)))
                        }
                        Op::Push { packet, bytes } => of(packet).map(|head| head.moved(Some(-i64::from(bytes)))),
                        Op::Move { packet, by } => of(packet).map(|head| head.moved(Some(by.into()))),
                        _ => None,
                    };
                    if let (Some(head), Some(result)) = (made, inst.result) {
                        set(&mut heads, result, head);
                    }
                }
                for dest in block.term.dests() {
                    for (param, arg) in body.passed(dest) {
                        if let Some(head) = heads[arg.0 as usize] {
                            set(&mut heads, param, head);
                        }
                    }
                }
            }
        }
        for inst in body.blocks.iter().flat_map(|block| &block.insts) {
            self.touch(numbers, inst, |packet| heads[packet.0 as usize]);
        }
    }

    /// What an instruction touches, and where it puts packets.
    fn touch(&mut self, numbers: &Bounds, inst: &Inst, head: impl Fn(Value) -> Option<Head>) {
        match inst.op {
            Op::Put { packet, channel } => {
                if let Some(head) = head(packet) {
                    self.put(channel, head);
                }
            }
            // What it adds at the end of a packet lies behind all that was received.
            Op::Grow { packet, end: PacketEnd::Tail, .. } => self.bytes(head(packet), None, true),
            Op::Grow { packet, end: PacketEnd::Head, .. } => self.bytes(head(packet), Some(0), true),
            _ => {}
        }
        let Touches::Bytes { packet, span, how } = inst.op.touches() else { return };
        let end = match span {
            Span::Bits(None, bits) => Some(bits.end_byte().into()),
            Span::Bits(Some(offset), bits) => numbers.most(offset).map(|most| most + u64::from(bits.end_byte())),
            Span::Range(offset, bytes) => {
                numbers.most(offset).zip(numbers.most(bytes)).map(|(offset, bytes)| offset + bytes)
            }
            // The last one is in front of the head.
            Span::Front(_) => Some(0),
            Span::All => return,
        };
        self.bytes(head(packet), end, how == How::Store);
    }

    /// Bytes are touched up to so many behind a head.
    fn bytes(&mut self, head: Option<Head>, end: Option<u64>, written: bool) {
        let end = match (head, end) {
            (None | Some(Head::Own), _) => return,
            (Some(Head::Behind(at)), Some(end)) => {
                u32::try_from(at.saturating_add(end.min(MOST + 1) as i64).max(0)).ok()
            }
            _ => None,
        };
        let end = end.filter(|end| u64::from(*end) <= MOST);
        let widen = |reach: &mut Option<u32>| *reach = reach.zip(end).map(|(reach, end)| reach.max(end));
        widen(&mut self.reach.touched);
        if written {
            widen(&mut self.reach.written);
        }
    }
}

//! What a packet executed, operation by operation: noted while the interpreter runs, for models of processors.

use super::super::{Body, ChannelId, Inst, Op, PpfId, Program, TimerId, Touches, Value};

/// A body of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Code {
    /// That of a PPF.
    Ppf(PpfId),
    /// That of a timer.
    Timer(TimerId),
}

impl Code {
    /// Its name and its instructions.
    pub fn of(self, program: &Program) -> (&str, &Body) {
        match self {
            Code::Ppf(id) => (&program.ppfs[id.0 as usize].name, &program.ppfs[id.0 as usize].body),
            Code::Timer(id) => (&program.timers[id.0 as usize].name, &program.timers[id.0 as usize].body),
        }
    }
}

/// What of an executed operation is not in the program's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Touched {
    /// Nothing.
    Nothing,
    /// A packet: these bytes of its buffer; none (`from` = `end`, the head) where only its descriptor is asked.
    Packet {
        /// Number of the packet among those made of one received packet, in order.
        packet: u32,
        /// First byte, counted from the buffer's start.
        from: u32,
        /// Byte after the last one.
        end: u32,
    },
    /// The entry that a look-up found: bits of the prefix that matched, or 0 in a table without prefixes.
    Found {
        /// Bits of the prefix.
        prefix: u8,
    },
    /// A look-up that found nothing.
    Missed,
}

/// An operation that was executed, or a block's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Executed {
    /// Whose code.
    pub code: Code,
    /// Index of the block.
    pub block: u32,
    /// Index of the instruction in the block; the number of its instructions stands for the terminator.
    pub index: u32,
    /// What it touched.
    pub touched: Touched,
}

impl Executed {
    /// The instruction; `None` for a terminator.
    pub fn inst<'p>(&self, program: &'p Program) -> Option<&'p Inst> {
        self.code.of(program).1.blocks[self.block as usize].insts.get(self.index as usize)
    }
}

/// All that one received packet executed, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Execution {
    /// The channel that it entered by; `None` where it was too short for that.
    pub entry: Option<ChannelId>,
    /// Operations and terminators.
    pub executed: Vec<Executed>,
    fingerprint: u64,
}

impl Execution {
    /// A fingerprint: packets with the same execution path have the same one.
    pub fn fingerprint(&self) -> u64 {
        self.entry.map_or(self.fingerprint, |entry| self.fingerprint ^ (u64::from(entry.0) + 1))
    }

    /// Forgets what was noted.
    pub(super) fn clear(&mut self) {
        self.entry = None;
        self.executed.clear();
        self.fingerprint = 0;
    }

    /// Notes an operation. `get` gives operands, `extent` where a packet's head is in its buffer and how long the
    /// packet is.
    pub(super) fn operation(
        &mut self,
        (code, block, index): (Code, usize, usize),
        op: &Op,
        get: impl Fn(Value) -> u128,
        extent: impl Fn(usize) -> (u64, u64),
    ) {
        let touched = touched(op, get, extent);
        self.executed.push(Executed { code, block: block as u32, index: index as u32, touched });
        // What touches nothing is known from the block.
        if let Touched::Packet { packet, from, end } = touched {
            self.mix(u64::from(packet) << 56 ^ u64::from(from) << 28 ^ u64::from(end) ^ 1 << 63);
        }
    }

    /// Notes the end of a block.
    pub(super) fn block(&mut self, code: Code, block: usize, index: usize) {
        let (kind, id) = match code {
            Code::Ppf(id) => (0, id.0),
            Code::Timer(id) => (1, id.0),
        };
        self.mix(kind << 62 | u64::from(id) << 32 | block as u64);
        let (block, index) = (block as u32, index as u32);
        self.executed.push(Executed { code, block, index, touched: Touched::Nothing });
    }

    /// What the look-up noted last has found.
    pub(super) fn looked_up(&mut self, prefix: Option<u8>) {
        if let Some(last) = self.executed.last_mut() {
            last.touched = prefix.map_or(Touched::Missed, |prefix| Touched::Found { prefix });
            self.mix(prefix.map_or(u64::MAX, u64::from));
        }
    }

    /// Folded multiplication, as in wyhash: this runs for every block of each packet.
    fn mix(&mut self, word: u64) {
        let product = u128::from(self.fingerprint ^ 0x9e37_79b9_7f4a_7c15) * u128::from(word ^ 0xd6e8_feb8_6659_fd93);
        self.fingerprint = (product >> 64) as u64 ^ product as u64 ^ word.rotate_left(29);
    }
}

/// Beside what [`Op::touches`] says, which packet an operation asks the descriptor of, or hands on.
fn touched(op: &Op, get: impl Fn(Value) -> u128, extent: impl Fn(usize) -> (u64, u64)) -> Touched {
    // Most are of these.
    if op.is_arithmetic() {
        return Touched::Nothing;
    }
    let (packet, span) = match (op.touches(), op.packet()) {
        (Touches::Bytes { packet, span, .. }, _) => (packet, Some(span)),
        (_, Some(packet)) => (packet, None),
        _ => return Touched::Nothing,
    };
    let number = get(packet);
    let (head, len) = extent(number as usize);
    let (from, end) = span.map_or((head, head), |span| span.bytes(head, len, get));
    Touched::Packet { packet: number as u32, from: from as u32, end: end as u32 }
}

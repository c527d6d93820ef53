//! How far in front of a received packet's first byte headers come to lie, over all paths and channels.
//!
//! An abstract interpretation of the typed statements: of each handle, how many bytes at most its head lies in front of
//! where the packet began. `packet_decap` takes off its header's least length. A loop is gone through until nothing
//! changes, at most as often as it runs.

use std::collections::HashMap;

use super::hir::{Code, Expr, ExprKind, LocalId, Program, Stmt, StmtKind, Type};
use crate::builtin::Function;
use crate::ir::{self, ChannelId, PpfId, ProtocolId, Target};

/// Offset of the head of each handle, in bytes towards the front.
type Heads = HashMap<LocalId, i64>;

/// Bytes in front of any packet, of one that was grown at its head, and of one that was received.
pub(super) struct Rooms {
    pub headroom: u32,
    pub encap: u32,
    pub front: u32,
}

/// Finds them.
pub(super) fn headroom(program: &Program) -> Rooms {
    // A created packet has as much room in front of it as a received one, and so has one that was held.
    let all = Headroom::of(program, 0);
    let received = Headroom::of(program, FAR);
    let bytes = |n: i64| u32::try_from(n).unwrap_or(u32::MAX);
    Rooms {
        headroom: bytes(all.most),
        // Whatever is put in front after a packet was grown, the highest head of all lies no further than this from it.
        encap: bytes(all.most - all.least_grown),
        front: bytes(received.most),
    }
}

/// So far behind all others begins a packet that does not count.
const FAR: i64 = -(1 << 40);

/// A program that puts more in front is refused, however much more it is.
const ENOUGH: i64 = 1 << 16;

struct Headroom<'p> {
    program: &'p Program,
    /// Where packets begin that were not received.
    others: i64,
    /// Greatest value seen at each PPF's entry.
    entry: HashMap<PpfId, i64>,
    most: i64,
    /// Least value where a packet is grown at its head.
    least_grown: i64,
    /// Of the open loops and `switch`es, innermost last.
    exits: Vec<Exits>,
}

/// States at `break` and `continue`.
#[derive(Default)]
struct Exits {
    /// A `switch`, which `continue` passes by.
    is_switch: bool,
    breaks: Option<Heads>,
    continues: Option<Heads>,
}

/// The greater offset of each handle; one that is held on one path only counts, too.
fn join(a: Option<Heads>, b: Option<Heads>) -> Option<Heads> {
    let (Some(mut a), Some(b)) = (a.clone(), b.clone()) else { return a.or(b) };
    for (local, offset) in b {
        let known = a.entry(local).or_insert(offset);
        *known = offset.max(*known);
    }
    Some(a)
}

impl<'p> Headroom<'p> {
    /// Goes through a program, in which packets that were not received begin there.
    fn of(program: &'p Program, others: i64) -> Headroom<'p> {
        let mut own = Headroom { program, others, entry: HashMap::new(), most: 0, least_grown: 0, exits: Vec::new() };
        own.put(ir::Program::RX, 0);
        for (index, channel) in program.channels.iter().enumerate() {
            if channel.from.is_some() {
                own.put(ChannelId(index as u32), others);
            }
        }
        for timer in &program.timers {
            own.statements(&timer.code, Heads::new(), &timer.code.body);
        }
        own
    }

    fn put(&mut self, channel: ChannelId, offset: i64) {
        if let Target::Ppf(id) = self.program.channels[channel.0 as usize].target
            && self.entry.get(&id).is_none_or(|&known| offset > known)
        {
            self.entry.insert(id, offset);
            // The loops around the put do not reach into the PPF at its end.
            let exits = std::mem::take(&mut self.exits);
            let ppf = &self.program.ppfs[id.0 as usize];
            self.statements(&ppf.code, HashMap::from([(LocalId(0), offset)]), &ppf.code.body);
            self.exits = exits;
        }
    }

    fn statements(&mut self, code: &'p Code, heads: Heads, statements: &'p [Stmt]) -> Option<Heads> {
        let mut state = Some(heads);
        for statement in statements {
            state = self.statement(code, state?, statement);
        }
        state
    }

    fn statement(&mut self, code: &'p Code, mut heads: Heads, statement: &'p Stmt) -> Option<Heads> {
        let packet = |expr: &Expr| matches!(expr.ty, Type::Packet(_));
        match &statement.kind {
            StmtKind::Let(local, Some(value)) | StmtKind::SetLocal(local, value) if packet(value) => {
                let offset = self.made(code, &mut heads, value);
                heads.insert(*local, offset);
            }
            StmtKind::Put(channel, value) => {
                let offset = self.made(code, &mut heads, value);
                self.put(*channel, offset);
            }
            StmtKind::HoldPut(_, _, value) => drop(self.made(code, &mut heads, value)),
            StmtKind::PutAt(channel, _, value, line, at) => {
                [line, at].into_iter().for_each(|expr| self.calls(&mut heads, expr));
                let offset = self.made(code, &mut heads, value);
                self.put(*channel, offset);
            }
            StmtKind::PutAll(channel, _, value, which) => {
                self.calls(&mut heads, which);
                let offset = self.made(code, &mut heads, value);
                self.put(*channel, offset);
            }
            StmtKind::Drop(value, reason) => {
                self.calls(&mut heads, reason);
                self.made(code, &mut heads, value);
            }
            kind => {
                for expr in kind.expressions() {
                    self.calls(&mut heads, expr);
                }
            }
        }
        match &statement.kind {
            StmtKind::If(_, then, other) => {
                let then = self.statements(code, heads.clone(), then);
                let other = self.statements(code, heads, other);
                join(then, other)
            }
            StmtKind::For(for_) => {
                let mut after = Some(heads.clone());
                for _ in 0..for_.trips {
                    self.exits.push(Exits::default());
                    let body = self.statements(code, heads.clone(), &for_.body);
                    let Exits { breaks, continues, .. } = self.exits.pop().expect("pushed above");
                    after = join(after, breaks);
                    let Some(next) = join(body, continues) else { break };
                    let next = self.statements(code, next, &for_.step);
                    after = join(after, next.clone());
                    let before = std::mem::take(&mut heads);
                    heads = join(Some(before.clone()), next).unwrap_or_default();
                    if heads == before || self.most > ENOUGH {
                        break;
                    }
                }
                after
            }
            StmtKind::Switch(_, arms, other) => {
                self.exits.push(Exits { is_switch: true, ..Exits::default() });
                let mut after = None;
                for body in arms.iter().map(|arm| &arm.body).chain([other]) {
                    let arm = self.statements(code, heads.clone(), body);
                    after = join(after, arm);
                }
                join(after, self.exits.pop().expect("pushed above").breaks)
            }
            StmtKind::Block(body) | StmtKind::Critical(_, body) => self.statements(code, heads, body),
            StmtKind::Return(_) => None,
            StmtKind::Break | StmtKind::Continue => {
                let is_break = matches!(statement.kind, StmtKind::Break);
                let mut around = self.exits.iter_mut().rev();
                let exits = around.find(|exits| is_break || !exits.is_switch);
                let exits = exits.expect("break and continue stand in a loop or switch");
                let exit = if is_break { &mut exits.breaks } else { &mut exits.continues };
                *exit = join(exit.take(), Some(heads));
                None
            }
            StmtKind::Let(..)
            | StmtKind::SetLocal(..)
            | StmtKind::SetLocalField(..)
            | StmtKind::SetField(..)
            | StmtKind::SetMeta(..)
            | StmtKind::SetEntryField(..)
            | StmtKind::SetEntry(..)
            | StmtKind::SetArrayField(..)
            | StmtKind::SetElement(..)
            | StmtKind::Put(..)
            | StmtKind::PutAt(..)
            | StmtKind::PutAll(..)
            | StmtKind::Drop(..)
            | StmtKind::HoldPut(..)
            | StmtKind::Require(..)
            | StmtKind::Count(..)
            | StmtKind::Fence
            | StmtKind::Expr(_) => Some(heads),
        }
    }

    /// Offset of a packet that an expression makes or moves.
    fn made(&mut self, code: &Code, heads: &mut Heads, expr: &'p Expr) -> i64 {
        self.calls(heads, expr);
        let size = |protocol: ProtocolId| i64::from(self.program.protocols[protocol.0 as usize].size);
        let of = |local: &LocalId| heads.get(local).copied().unwrap_or(0);
        match (&expr.kind, expr.ty) {
            (ExprKind::Local(local) | ExprKind::Copy(local) | ExprKind::Replace(local), _) => of(local),
            (ExprKind::Decap(local, bytes) | ExprKind::Peek(local, bytes), _) => match code.locals[local.0 as usize].ty
            {
                // A header is never shorter than its fixed part, whatever its length is said to be.
                Type::Packet(inner) => of(local) - self.demux(inner, bytes.is_none()).unwrap_or(size(inner)),
                _ => of(local),
            },
            (ExprKind::Encap(local), Type::Packet(outer)) => {
                let offset = of(local) + size(outer);
                self.most = self.most.max(offset);
                offset
            }
            // Created, or held.
            _ => self.others,
        }
    }

    /// A header's length where its demux says it and is constant.
    fn demux(&self, protocol: ProtocolId, says: bool) -> Option<i64> {
        match self.program.demux[protocol.0 as usize].kind {
            ExprKind::Const(bytes) if says => i64::try_from(bytes).ok(),
            _ => None,
        }
    }

    /// Functions that are called: they may copy and create packets and put them to channels.
    fn calls(&mut self, heads: &mut Heads, expr: &'p Expr) {
        if let ExprKind::Packet(Function::PacketGrowHead, local, _) = &expr.kind {
            let offset = heads.get(local).copied().unwrap_or(0);
            self.least_grown = self.least_grown.min(offset);
        }
        if let ExprKind::Call(function, arguments) = &expr.kind {
            let callee = &self.program.functions[function.0 as usize].code;
            let mut inside = Heads::new();
            for (index, argument) in arguments.iter().enumerate() {
                if let (Type::Packet(_), ExprKind::Local(local)) = (argument.ty, &argument.kind) {
                    inside.insert(LocalId(index as u32), heads.get(local).copied().unwrap_or(0));
                }
            }
            let exits = std::mem::take(&mut self.exits);
            self.statements(callee, inside, &callee.body);
            self.exits = exits;
        }
        let mut operands = Vec::new();
        expr.for_each_operand(|operand| operands.push(operand));
        for operand in operands {
            self.calls(heads, operand);
        }
    }
}

//! Goes over typed expressions and statements, one level down.

use super::hir::{Expr, ExprKind, For, Stmt, StmtKind};

/// Makes the functions that go one level down, for a reference and for a mutable one: `$iter` is `iter` or `iter_mut`.
macro_rules! one_level_down {
    ($operands:ident, $expressions:ident, $nested:ident, $iter:ident $(, $mut:tt)?) => {
        impl Expr {
            /// Visits the expressions that it is made of, one level down.
            pub fn $operands<'a>(&'a $($mut)? self, mut visit: impl FnMut(&'a $($mut)? Expr)) {
                match &$($mut)? self.kind {
                    ExprKind::Const(_)
                    | ExprKind::Now
                    | ExprKind::Local(_)
                    | ExprKind::Field(..)
                    | ExprKind::Meta(..)
                    | ExprKind::Length(_)
                    | ExprKind::Copy(_)
                    | ExprKind::Member(..)
                    | ExprKind::Create
                    | ExprKind::Decap(_, None)
                    | ExprKind::Peek(_, None)
                    | ExprKind::Encap(_)
                    | ExprKind::Replace(_) => {}
                    ExprKind::Decap(_, Some(a)) | ExprKind::Peek(_, Some(a)) => visit(a),
                    ExprKind::StructField(a, _)
                    | ExprKind::Not(a)
                    | ExprKind::Cast(a)
                    | ExprKind::HoldGet(_, a)
                    | ExprKind::ArrayValue(_, a)
                    | ExprKind::EntryField(a, _)
                    | ExprKind::Entry(a) => visit(a),
                    ExprKind::Binary(_, a, b)
                    | ExprKind::Element(a, _, b)
                    | ExprKind::Compare(_, a, b)
                    | ExprKind::And(a, b)
                    | ExprKind::Take(_, a, b)
                    | ExprKind::Or(a, b) => {
                        visit(a);
                        visit(b);
                    }
                    ExprKind::Ternary(a, b, c) => {
                        visit(a);
                        visit(b);
                        visit(c);
                    }
                    ExprKind::Call(_, operands)
                    | ExprKind::Extern(_, operands)
                    | ExprKind::Lookup(_, operands)
                    | ExprKind::Struct(operands)
                    | ExprKind::Packet(_, _, operands)
                    | ExprKind::Remove(_, operands) => operands.$iter().for_each(visit),
                    ExprKind::Insert(_, key, value, _) | ExprKind::SetDeadline(_, key, value) => {
                        key.$iter().for_each(&mut visit);
                        visit(value);
                    }
                }
            }
        }

        impl StmtKind {
            /// The expressions that stand directly in the statement.
            pub fn $expressions(&$($mut)? self) -> Vec<&$($mut)? Expr> {
                match self {
                    StmtKind::Let(_, Some(a))
                    | StmtKind::SetLocal(_, a)
                    | StmtKind::SetLocalField(_, _, a)
                    | StmtKind::SetField(_, _, a)
                    | StmtKind::SetMeta(_, _, a)
                    | StmtKind::Put(_, a)
                    | StmtKind::Expr(a)
                    | StmtKind::If(a, _, _)
                    | StmtKind::Switch(a, _, _)
                    | StmtKind::Critical(a, _)
                    | StmtKind::Return(Some(a)) => vec![a],
                    StmtKind::Drop(a, b) => vec![b, a],
                    StmtKind::SetEntryField(a, _, b)
                    | StmtKind::SetEntry(a, b)
                    | StmtKind::Require(a, b)
                    | StmtKind::SetArrayField(_, a, _, b)
                    | StmtKind::HoldPut(_, a, b)
                    | StmtKind::Count(_, a, b) => vec![a, b],
                    StmtKind::SetElement(a, _, b, c) => vec![a, b, c],
                    StmtKind::PutAll(_, _, packet, which) => vec![which, packet],
                    StmtKind::PutAt(_, _, packet, line, at) => vec![line, at, packet],
                    StmtKind::For(for_) => vec![&$($mut)? for_.condition],
                    StmtKind::Let(_, None)
                    | StmtKind::Return(None)
                    | StmtKind::Fence
                    | StmtKind::Break
                    | StmtKind::Continue
                    | StmtKind::Block(_) => Vec::new(),
                }
            }

            /// The statements nested in the statement.
            pub fn $nested(&$($mut)? self) -> Vec<&$($mut)? [Stmt]> {
                match self {
                    StmtKind::If(_, then, other) => vec![then, other],
                    StmtKind::Switch(_, arms, other) => {
                        let arms = arms.$iter().map(|arm| &$($mut)? arm.body[..]);
                        arms.chain([&$($mut)? other[..]]).collect()
                    }
                    StmtKind::For(for_) => {
                        let For { body, step, .. } = &$($mut)? **for_;
                        vec![body, step]
                    }
                    StmtKind::Block(body) | StmtKind::Critical(_, body) => vec![body],
                    _ => Vec::new(),
                }
            }
        }
    };
}

impl Expr {
    /// Whether an expression over a header's fields reads one of them.
    pub fn reads(&self, field: u32) -> bool {
        let mut found = matches!(self.kind, ExprKind::Field(_, read) if read == field);
        self.for_each_operand(|operand| found |= operand.reads(field));
        found
    }
}

one_level_down!(for_each_operand, expressions, nested, iter);
one_level_down!(for_each_operand_mut, expressions_mut, nested_mut, iter_mut, mut);

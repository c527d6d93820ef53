//! Statements.

use std::collections::HashMap;

use super::code::CodeChecker;
use super::consts::Constant;
use super::expr::Typed;
use super::hir::{Expr, ExprKind, Stmt, StmtKind, Type};
use crate::diag::Diagnostic;
use crate::ir::{Program, TableKind};
use crate::number::Number;
use crate::source::Span;
use crate::syntax::ast::{self, AssignOp, AstNode, BinaryOp, IncDecOp};

impl CodeChecker<'_, '_> {
    pub(super) fn block(&mut self, block: &ast::Block) -> Vec<Stmt> {
        self.scopes.push(HashMap::new());
        let mut statements = Vec::new();
        for statement in block.stmts() {
            self.statement(&statement, &mut statements);
        }
        self.scopes.pop();
        statements
    }

    /// A statement in a scope of its own, as the arm of an `if` or the body of a loop.
    pub(super) fn arm(&mut self, statement: &ast::Stmt) -> Vec<Stmt> {
        if let ast::Stmt::Block(block) = statement {
            return self.block(block);
        }
        self.scopes.push(HashMap::new());
        let mut statements = Vec::new();
        self.statement(statement, &mut statements);
        self.scopes.pop();
        statements
    }

    pub(super) fn statement(&mut self, statement: &ast::Stmt, out: &mut Vec<Stmt>) {
        let span = self.span(statement);
        let kind = match statement {
            ast::Stmt::Empty(_) => None,
            ast::Stmt::Block(block) => Some(StmtKind::Block(self.block(block))),
            ast::Stmt::Let(let_) => self.let_(let_),
            ast::Stmt::Const(constant) => {
                self.constant_stmt(constant);
                None
            }
            ast::Stmt::Assign(assign) => self.assign(assign, span),
            ast::Stmt::IncDec(step) => self.inc_dec(step, span),
            ast::Stmt::Expr(statement) => self.expr_statement(statement, span),
            ast::Stmt::Return(return_) => self.return_(return_, span),
            ast::Stmt::Break(_) | ast::Stmt::Continue(_) => {
                let (word, kind) = match statement {
                    ast::Stmt::Break(_) => ("break", StmtKind::Break),
                    _ => ("continue", StmtKind::Continue),
                };
                if self.loops == 0 && !(self.switches > 0 && matches!(kind, StmtKind::Break)) {
                    self.error(
                        Diagnostic::new("outside-loop", span, format!("`{word}` stands in no loop"))
                            .label("no loop around it"),
                    );
                    None
                } else {
                    Some(kind)
                }
            }
            ast::Stmt::If(if_) => {
                let condition = if_.condition().map(|c| self.expr(&c, None));
                let condition = condition.and_then(|c| self.condition(c));
                let then = if_.then_branch().map(|s| self.arm(&s)).unwrap_or_default();
                let other = if_.else_branch().map(|s| self.arm(&s)).unwrap_or_default();
                condition.map(|condition| StmtKind::If(condition, then, other))
            }
            ast::Stmt::Switch(switch) => self.switch(switch),
            ast::Stmt::Critical(critical) => self.critical(critical),
            ast::Stmt::For(for_) => self.for_(for_, span),
        };
        self.look_into(statement.syntax());
        out.append(&mut self.before);
        out.extend(kind.map(|kind| Stmt { kind, span }));
    }

    fn let_(&mut self, let_: &ast::LetStmt) -> Option<StmtKind> {
        let (ty, name) = let_.ty().zip(let_.name())?;
        let at = name.span(self.file);
        let mut ty = self.checker.type_of(self.file, self.scope, &ty, let_.star().is_some());
        if let Some(length) = let_.length() {
            ty = self.array_variable(ty, &length, at);
        }
        let value = let_.value().map(|value| self.expr(&value, Some(ty)));
        let value = match (value, ty) {
            (_, Type::Void) => {
                self.error(Diagnostic::new("void-variable", at, "a variable holds a value").label("of type void"));
                ty = Type::Error;
                None
            }
            (None, Type::Packet(_) | Type::Pointer(_)) => {
                self.error(
                    Diagnostic::new("uninitialised", at, format!("`{}` needs a first value", name.text()))
                        .label("has none")
                        .hint("a handle or pointer is declared with the packet or look-up that it stands for"),
                );
                ty = Type::Error;
                None
            }
            (Some(value), Type::Pointer(_)) if matches!(value.expr.ty, Type::Loaded { .. }) => {
                ty = value.expr.ty;
                Some(value.expr)
            }
            (Some(value), Type::Pointer(declared)) => {
                // A pointer keeps the layout of the table that it leads into.
                let value = self.as_pointer(value);
                match (value.expr.ty, self.coerce(value, Type::Pointer(declared))) {
                    (Type::Pointer(found), Some(value)) => {
                        ty = Type::Pointer(found);
                        Some(value)
                    }
                    (_, value) => value,
                }
            }
            (Some(value), ty) => self.coerce(value, ty),
            (None, _) => None,
        };
        let failed = let_.value().is_some() && value.is_none();
        if failed && matches!(ty, Type::Packet(_)) {
            ty = Type::Error;
        }
        let local = self.declare(name.text(), ty, at);
        (!failed && ty != Type::Error).then_some(StmtKind::Let(local, value))
    }

    /// A constant of a block: a name for a number, no variable.
    fn constant_stmt(&mut self, item: &ast::Const) {
        let (Some(ty), Some(name), Some(value)) = (item.ty(), item.name(), item.value()) else { return };
        let written = ty.name().map_or(String::new(), |name| name.text().to_string());
        let ty = self.checker.type_of(self.file, self.scope, &ty, false);
        let outside = std::mem::replace(&mut self.constant, true);
        let value = self.expr(&value, None);
        self.constant = outside;
        let value = match ty {
            Type::Int { .. } | Type::Bool => self.coerce(value, ty).and_then(|value| self.constant_of(value)),
            Type::Error => None,
            _ => {
                let at = name.span(self.file);
                self.error(super::consts::no_such_constant(at, &written));
                None
            }
        };
        let local = self.declare(name.text(), ty, name.span(self.file));
        self.constants.insert(local, value.unwrap_or(Constant::Error));
    }

    fn assign(&mut self, assign: &ast::AssignStmt, span: Span) -> Option<StmtKind> {
        let (target, op, value) = (assign.target()?, assign.op()?, assign.value()?);
        // What a packet is made into or loaded as, the variable says.
        let wanted = match &target {
            ast::Expr::Name(name) => name.name().and_then(|name| self.local(name.text())).map(|l| self.local_type(l)),
            _ => None,
        };
        let value = self.expr(&value, wanted.filter(|ty| matches!(ty, Type::Packet(_) | Type::Loaded { .. })));
        match op {
            AssignOp::Set => self.set(&target, value, span),
            AssignOp::Update(op) => self.update(&target, op, value, span),
        }
    }

    fn inc_dec(&mut self, step: &ast::IncDecStmt, span: Span) -> Option<StmtKind> {
        let op = match step.op()? {
            IncDecOp::Increment => BinaryOp::Add,
            IncDecOp::Decrement => BinaryOp::Sub,
        };
        self.update(&step.target()?, op, Typed::number(Number::from(1), span), span)
    }

    /// `target op= value`. The target is named twice, so an index that calls a function is computed once, before.
    fn update(&mut self, target: &ast::Expr, op: BinaryOp, value: Typed, span: Span) -> Option<StmtKind> {
        let old = self.expr(target, None);
        if old.is_error() || value.is_error() {
            return None;
        }
        let mut target = old.expr.clone();
        self.compute_indices(&mut target, span);
        let (kind, ty) = (target.kind.clone(), target.ty);
        let old = Typed { natural: old.natural, ..Typed::new(kind, ty, target.span) };
        // The result may be stored where the old value was, whatever the other operand's width.
        let kept = old.natural;
        let fits = value.lit.is_none() && value.natural <= kept;
        let result = self.binary(op, old, value, span);
        if result.is_error() {
            return None;
        }
        let result = if fits { Typed { natural: kept.min(result.natural), ..result } } else { result };
        self.store(target, result, span)
    }

    /// `target = value`.
    fn set(&mut self, target: &ast::Expr, value: Typed, span: Span) -> Option<StmtKind> {
        if let ast::Expr::Index(index) = target
            && !index.base().is_some_and(|base| self.is_element(&base))
        {
            let (table, key) = self.table_and_key(index)?;
            if self.checker.hir.tables[table.0 as usize].is_set {
                self.error(
                    Diagnostic::new("not-assignable", span, "a member of a set has no value")
                        .label("can't be set")
                        .hint("use `table_insert(set, key)` and `table_remove(set, key)`"),
                );
                return None;
            }
            let inserted = self.insert(table, key, (value, false), span);
            return (!inserted.is_error()).then_some(StmtKind::Expr(inserted.expr));
        }
        let target = self.expr(target, None);
        if target.is_error() || value.is_error() {
            return None;
        }
        self.store(target.expr, value, span)
    }

    /// Stores a value where an expression reads one.
    fn store(&mut self, target: Expr, value: Typed, span: Span) -> Option<StmtKind> {
        let ty = target.ty;
        match target.kind {
            ExprKind::Local(local) => {
                if self.loop_counters.contains(&local) {
                    let name = self.locals[local.0 as usize].name.clone();
                    self.checker.report_once(
                        Diagnostic::new("loop-counter-set", span, format!("`{name}` counts the loop's trips"))
                            .label("can't be set in the loop")
                            .hint("use another variable"),
                    );
                    return None;
                }
                let value = self.coerce(value, ty)?;
                if value.ty != ty && matches!(ty, Type::Pointer(_)) {
                    // The same kind of value, yet of a table that was declared with another type, or that ages.
                    self.error(
                        Diagnostic::new(
                            "pointer-elsewhere",
                            value.span,
                            "this pointer leads into another kind of table",
                        )
                        .label("its values are not kept in the same way")
                        .hint("use a second pointer"),
                    );
                    return None;
                }
                Some(StmtKind::SetLocal(local, value))
            }
            ExprKind::Field(packet, field) => {
                let value = self.coerce(value, ty)?;
                Some(StmtKind::SetField(packet, field, value))
            }
            ExprKind::Meta(_, field) if field == Program::RX_PORT => {
                self.error(
                    Diagnostic::new("read-only", span, "`metadata.rx.port` can't be set")
                        .label("it says where the packet came from")
                        .hint("`metadata.tx.port` says where it goes"),
                );
                None
            }
            ExprKind::Meta(_, field) if self.is_of_groups(field) => {
                let name = &self.checker.hir.metadata[field.0 as usize].name;
                let error = Diagnostic::new("read-only", span, format!("`metadata.{name}` can't be set"))
                    .label("it says of which member the packet is")
                    .hint("`channel_put_all` sets it");
                self.error(error);
                None
            }
            ExprKind::Meta(packet, field) => {
                let value = self.coerce(value, ty)?;
                Some(StmtKind::SetMeta(packet, field, value))
            }
            ExprKind::EntryField(pointer, _) if matches!(pointer.ty, Type::Loaded { .. }) => {
                self.error(
                    Diagnostic::new("not-assignable", target.span, "these bytes were loaded from the packet")
                        .label("not the packet itself")
                        .hint("write them back by `packet_store(packet, offset, value)`"),
                );
                None
            }
            ExprKind::EntryField(pointer, field) => {
                let value = self.coerce(value, ty)?;
                Some(StmtKind::SetEntryField(*pointer, field, value))
            }
            ExprKind::Entry(pointer) => {
                let value = self.coerce(value, ty)?;
                Some(StmtKind::SetEntry(*pointer, value))
            }
            ExprKind::ArrayValue(table, index) => {
                let inserted = self.insert(table, *index, (value, false), span);
                (!inserted.is_error()).then_some(StmtKind::Expr(inserted.expr))
            }
            ExprKind::Element(holder, elements, index) => {
                let value = self.coerce(value, ty)?;
                self.store_element(*holder, (elements, *index), value)
            }
            ExprKind::StructField(base, field) => match base.kind {
                ExprKind::Local(local) => {
                    let value = self.coerce(value, ty)?;
                    Some(StmtKind::SetLocalField(local, field, value))
                }
                ExprKind::ArrayValue(table, index) => {
                    debug_assert_eq!(self.checker.hir.tables[table.0 as usize].kind, TableKind::Array);
                    let value = self.coerce(value, ty)?;
                    Some(StmtKind::SetArrayField(table, *index, field, value))
                }
                _ => self.not_assignable(target.span),
            },
            _ => self.not_assignable(target.span),
        }
    }

    pub(super) fn not_assignable(&mut self, span: Span) -> Option<StmtKind> {
        self.error(
            Diagnostic::new("not-assignable", span, "nothing can be stored here")
                .label("not a variable, field, metadata or table entry"),
        );
        None
    }

    fn expr_statement(&mut self, statement: &ast::ExprStmt, span: Span) -> Option<StmtKind> {
        let expr = statement.expr()?;
        if let ast::Expr::Call(call) = &expr {
            return self.call_statement(call, span).map(|s| s.kind);
        }
        let mistakes = self.checker.mistakes();
        self.expr(&expr, None);
        if self.checker.mistakes() == mistakes {
            self.error(
                Diagnostic::new("no-effect", span, "this statement does nothing")
                    .label("computes a value that nothing uses"),
            );
        }
        None
    }

    fn return_(&mut self, return_: &ast::ReturnStmt, span: Span) -> Option<StmtKind> {
        let value = return_.value().map(|value| self.expr(&value, None));
        match (value, self.result) {
            (_, Type::Error) => None,
            (None, Type::Void) => Some(StmtKind::Return(None)),
            (Some(value), Type::Void) => {
                if !value.is_error() {
                    self.error(
                        Diagnostic::new("return-value", value.expr.span, "there is no value to return here")
                            .label("a PPF, timer or void function returns nothing"),
                    );
                }
                None
            }
            (None, wanted) => {
                let wanted = self.checker.describe(wanted);
                self.error(
                    Diagnostic::new("return-value", span, format!("a `{wanted}` must be returned"))
                        .label("returns nothing"),
                );
                None
            }
            (Some(value), wanted) => Some(StmtKind::Return(Some(self.coerce(value, wanted)?))),
        }
    }
}

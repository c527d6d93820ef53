//! Critical sections: what may stand in one, and which tables' entries have a lock.
//!
//! In the kernel a critical section is one of `bpf_spin_lock`: nothing is called while the lock is held, and every path
//! releases it. So it can be left at its end only, and look-ups, changes of tables and whatever moves a packet stand
//! outside.

use super::code::CodeChecker;
use super::hir::{Code, Expr, ExprKind, FunctionId, LocalId, Program, Stmt, StmtKind, Type};
use super::names::Checker;
use crate::diag::Diagnostic;
use crate::ir::{Layout, LayoutField, LayoutId, TableId};
use crate::source::Span;
use crate::syntax::ast;

impl CodeChecker<'_, '_> {
    /// `critical (entry) { … }`
    pub(super) fn critical(&mut self, critical: &ast::CriticalStmt) -> Option<StmtKind> {
        let entry = critical.entry().map(|entry| self.expr(&entry, None));
        let body = critical.body().map(|body| self.block(&body)).unwrap_or_default();
        let entry = self.as_pointer(entry?);
        match entry.expr.ty {
            Type::Pointer(_) => Some(StmtKind::Critical(entry.expr, body)),
            Type::Error => None,
            _ => {
                self.error(
                    Diagnostic::new("not-an-entry", entry.expr.span, "a critical section locks an entry of a table")
                        .label("not a pointer to one")
                        .hint("look the entry up before: `state_t *s = states[key];`"),
                );
                None
            }
        }
    }
}

/// What can't be done while an entry is locked.
fn forbidden(statement: &StmtKind) -> Option<&'static str> {
    Some(match statement {
        StmtKind::Critical(..) => "locks a second entry",
        StmtKind::SetArrayField(..) => "looks an entry up",
        StmtKind::SetLocal(_, Expr { ty: Type::Packet(_), .. }) => "moves a packet",
        kind => kind.function()?.row().not_locked?,
    })
}

fn forbidden_value(expr: &Expr) -> Option<&'static str> {
    Some(match &expr.kind {
        ExprKind::Lookup(..) | ExprKind::ArrayValue(..) => "looks an entry up",
        ExprKind::Extern(..) => "calls a controller",
        kind => kind.function()?.row().not_locked?,
    })
}

/// Looks for what can't be done in critical sections.
struct Search<'p> {
    program: &'p Program,
    /// What each function does that can't be done, where that is known.
    functions: Vec<Option<Option<&'static str>>>,
    errors: Vec<Diagnostic>,
}

/// What encloses a statement in a critical section.
#[derive(Clone, Copy)]
struct Inside {
    /// The word `critical`.
    section: Span,
    /// There is a loop around it within the section.
    in_loop: bool,
    /// There is something that `break` leaves around it within the section.
    breakable: bool,
}

impl<'p> Search<'p> {
    /// Goes through statements outside of critical sections.
    fn outside(&mut self, statements: &'p [Stmt]) {
        for Stmt { kind, span } in statements {
            if let StmtKind::Critical(_, body) = kind {
                let section = Span { end: (span.start + 8).min(span.end), ..*span };
                self.inside(body, Inside { section, in_loop: false, breakable: false });
            } else {
                kind.nested().into_iter().for_each(|nested| self.outside(nested));
            }
        }
    }

    fn inside(&mut self, statements: &'p [Stmt], inside: Inside) {
        for Stmt { kind, span } in statements {
            let leaves = match kind {
                StmtKind::Return(_) => true,
                StmtKind::Break => !inside.breakable,
                StmtKind::Continue => !inside.in_loop,
                _ => false,
            };
            if leaves {
                self.errors.push(
                    Diagnostic::new("leaves-critical", *span, "a critical section is left at its end only")
                        .label("would leave it with the entry locked")
                        .also(inside.section, "this critical section")
                        .hint("keep in a variable what is to happen, and do it behind the section"),
                );
            }
            if let Some(what) = forbidden(kind) {
                self.refuse(what, *span, inside);
                continue;
            }
            kind.expressions().into_iter().for_each(|expr| self.value(expr, inside));
            let inner = Inside {
                in_loop: inside.in_loop || matches!(kind, StmtKind::For(_)),
                breakable: inside.breakable || matches!(kind, StmtKind::For(_) | StmtKind::Switch(..)),
                ..inside
            };
            kind.nested().into_iter().for_each(|nested| self.inside(nested, inner));
        }
    }

    fn value(&mut self, expr: &'p Expr, inside: Inside) {
        let called = match expr.kind {
            ExprKind::Call(function, _) => self.function(function),
            _ => None,
        };
        match forbidden_value(expr).or(called) {
            Some(what) => self.refuse(what, expr.span, inside),
            None => expr.for_each_operand(|operand| self.value(operand, inside)),
        }
    }

    fn refuse(&mut self, what: &str, span: Span, inside: Inside) {
        self.errors.push(
            Diagnostic::new("in-critical", span, "this can't be done while an entry is locked")
                .label(what)
                .also(inside.section, "locked from here on")
                .hint("look entries up before the critical section, and do the rest behind it"),
        );
    }

    /// What a function does that can't be done.
    fn function(&mut self, FunctionId(id): FunctionId) -> Option<&'static str> {
        if let Some(known) = self.functions[id as usize] {
            return known;
        }
        let found = self.found(&self.program.functions[id as usize].code.body);
        self.functions[id as usize] = Some(found);
        found
    }

    fn found(&mut self, statements: &'p [Stmt]) -> Option<&'static str> {
        statements.iter().find_map(|Stmt { kind, .. }| {
            let own = forbidden(kind);
            let own = own.or_else(|| kind.expressions().into_iter().find_map(|expr| self.found_in(expr)));
            own.or_else(|| kind.nested().into_iter().find_map(|nested| self.found(nested)))
        })
    }

    fn found_in(&mut self, expr: &'p Expr) -> Option<&'static str> {
        let called = match expr.kind {
            ExprKind::Call(function, _) => self.function(function),
            _ => None,
        };
        let mut found = forbidden_value(expr).or(called);
        expr.for_each_operand(|operand| found = found.or_else(|| self.found_in(operand)));
        found
    }
}

impl Checker<'_> {
    /// Checks what stands in critical sections. No function calls itself.
    pub(super) fn check_critical(&mut self) {
        let functions = vec![None; self.hir.functions.len()];
        let mut search = Search { program: &self.hir, functions, errors: Vec::new() };
        let functions = self.hir.functions.iter().map(|function| &function.code);
        let ppfs = self.hir.ppfs.iter().map(|ppf| &ppf.code);
        for code in functions.chain(ppfs).chain(self.hir.timers.iter().map(|timer| &timer.code)) {
            search.outside(&code.body);
        }
        self.errors.extend(search.errors);
    }

    /// Gives the entries of tables that are locked anywhere a lock, behind what else is in them. Tables that one
    /// variable may point into keep their values in one way, so they all have one, then.
    pub(super) fn lock_tables(&mut self) {
        let tables = self.hir.tables.len();
        let mut pointers = Pointers { sets: (0..tables).collect(), tables, locked: Vec::new() };
        // Where the locals of each body are numbered from.
        let mut firsts = Vec::new();
        for code in bodies(&mut self.hir) {
            firsts.push(pointers.sets.len());
            pointers.body(code);
        }
        // A timer's second parameter points into the table that it goes over.
        let timers = firsts.len() - self.hir.timers.len();
        for (timer, first) in self.hir.timers.iter().zip(&firsts[timers..]) {
            if let (Some(TableId(table)), 2) = (timer.table, timer.params) {
                pointers.join(&[first + 1, table as usize]);
            }
        }
        let locked: Vec<usize> = pointers.locked.clone().into_iter().map(|node| pointers.set(node)).collect();
        if locked.is_empty() {
            return;
        }
        let mut layouts: Vec<(LayoutId, LayoutId)> = Vec::new();
        for table in 0..tables {
            if locked.contains(&pointers.set(table)) {
                let plain = self.hir.tables[table].value;
                let known = layouts.iter().find(|(of, _)| *of == plain).map(|(_, with)| *with);
                let with = known.unwrap_or_else(|| {
                    let with = LayoutId(self.hir.layouts.len() as u32);
                    self.hir.layouts.push(with_lock(&self.hir.layouts[plain.0 as usize]));
                    layouts.push((plain, with));
                    with
                });
                let table = &mut self.hir.tables[table];
                (table.value, table.locked) = (with, true);
            }
        }
        let values: Vec<LayoutId> = self.hir.tables.iter().map(|table| table.value).collect();
        for (code, first) in bodies(&mut self.hir).zip(firsts) {
            for (index, local) in code.locals.iter_mut().enumerate() {
                if let Type::Pointer(layout) = &mut local.ty
                    && locked.contains(&pointers.set(first + index))
                    && let Some((_, with)) = layouts.iter().find(|(plain, _)| plain == layout)
                {
                    *layout = *with;
                }
            }
            let locals: Vec<Type> = code.locals.iter().map(|local| local.ty).collect();
            retype_all(&mut code.body, &locals, &values);
        }
    }
}

fn bodies(program: &mut Program) -> impl Iterator<Item = &mut Code> {
    let functions = program.functions.iter_mut().map(|function| &mut function.code);
    let ppfs = program.ppfs.iter_mut().map(|ppf| &mut ppf.code);
    functions.chain(ppfs).chain(program.timers.iter_mut().map(|timer| &mut timer.code))
}

/// A layout with a lock behind its fields.
fn with_lock(plain: &Layout) -> Layout {
    let offset = plain.size.next_multiple_of(4);
    let align = plain.align.max(4);
    let lock = LayoutField {
        name: "lock".into(),
        type_name: "u32".into(),
        width: 32,
        signed: false,
        names: Vec::new(),
        offset,
    };
    let fields = plain.fields.iter().cloned().chain([lock]).collect();
    Layout { name: plain.name.clone(), fields, size: (offset + 4).next_multiple_of(align), align }
}

/// Which tables and variables go together: sets of nodes, tables first, then the locals of one body after the other.
struct Pointers {
    /// Another node of each node's set, or itself (union-find).
    sets: Vec<usize>,
    tables: usize,
    /// Nodes whose entries are locked.
    locked: Vec<usize>,
}

impl Pointers {
    fn set(&mut self, node: usize) -> usize {
        let mut root = node;
        while self.sets[root] != root {
            root = self.sets[root];
        }
        self.sets[node] = root;
        root
    }

    fn join(&mut self, nodes: &[usize]) {
        for pair in nodes.windows(2) {
            let [a, b] = [self.set(pair[0]), self.set(pair[1])];
            self.sets[a] = b;
        }
    }

    fn body(&mut self, code: &Code) {
        let first = self.sets.len();
        self.sets.extend(first..first + code.locals.len());
        self.statements(&code.body, first);
    }

    fn statements(&mut self, statements: &[Stmt], first: usize) {
        for Stmt { kind, .. } in statements {
            match kind {
                StmtKind::Let(LocalId(local), Some(value)) | StmtKind::SetLocal(LocalId(local), value) => {
                    let mut nodes = vec![first + *local as usize];
                    sources(value, first, &mut nodes);
                    self.join(&nodes);
                }
                StmtKind::Critical(entry, _) => {
                    let mut nodes = Vec::new();
                    sources(entry, first, &mut nodes);
                    self.locked.extend(nodes.first());
                }
                _ => {}
            }
            kind.expressions().into_iter().for_each(|expr| self.expr(expr, first));
            kind.nested().into_iter().for_each(|nested| self.statements(nested, first));
        }
        debug_assert!(self.tables <= first);
    }

    fn expr(&mut self, expr: &Expr, first: usize) {
        if let ExprKind::Ternary(..) = expr.kind {
            let mut nodes = Vec::new();
            sources(expr, first, &mut nodes);
            self.join(&nodes);
        }
        expr.for_each_operand(|operand| self.expr(operand, first));
    }
}

/// The tables and variables that a pointer may come from.
fn sources(pointer: &Expr, first: usize, nodes: &mut Vec<usize>) {
    if !matches!(pointer.ty, Type::Pointer(_)) {
        return;
    }
    match &pointer.kind {
        ExprKind::Lookup(TableId(table), _) | ExprKind::Member(TableId(table), _) => nodes.push(*table as usize),
        ExprKind::Local(LocalId(local)) => nodes.push(first + *local as usize),
        ExprKind::Ternary(_, a, b) => {
            sources(a, first, nodes);
            sources(b, first, nodes);
        }
        _ => {}
    }
}

/// Brings the types of pointers up to date with those of variables and tables' values.
fn retype_all(statements: &mut [Stmt], locals: &[Type], values: &[LayoutId]) {
    for Stmt { kind, .. } in statements {
        kind.expressions_mut().into_iter().for_each(|expr| retype(expr, locals, values));
        kind.nested_mut().into_iter().for_each(|nested| retype_all(nested, locals, values));
    }
}

fn retype(expr: &mut Expr, locals: &[Type], values: &[LayoutId]) {
    expr.for_each_operand_mut(|operand| retype(operand, locals, values));
    if !matches!(expr.ty, Type::Pointer(_)) {
        return;
    }
    expr.ty = match &expr.kind {
        ExprKind::Lookup(TableId(table), _) | ExprKind::Member(TableId(table), _) => {
            Type::Pointer(values[*table as usize])
        }
        ExprKind::Local(LocalId(local)) => locals[*local as usize],
        // Of a null and a pointer the pointer says it.
        ExprKind::Ternary(_, a, b) if matches!(a.kind, ExprKind::Const(_)) => b.ty,
        ExprKind::Ternary(_, a, _) => a.ty,
        _ => expr.ty,
    };
}

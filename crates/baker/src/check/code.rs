//! Bodies of PPFs and functions: variables and their scopes.

use std::collections::HashMap;

use super::consts::Constant;
use super::expr::Typed;
use super::hir::{self, Code, Expr, ExprKind, FunctionId, Local, LocalId, Stmt, Type};
use super::names::{Checker, Scope};
use super::wiring::collect_calls;
use crate::diag::Diagnostic;
use crate::ir::ProtocolId;
use crate::source::{FileId, Span};
use crate::syntax::ast::{self, AstNode};

/// Checks one body, or one constant expression.
pub(super) struct CodeChecker<'c, 'a> {
    pub checker: &'c mut Checker<'a>,
    pub file: FileId,
    pub scope: Scope,
    pub locals: Vec<Local>,
    /// Names of the locals of each open scope.
    pub scopes: Vec<HashMap<String, LocalId>>,
    /// Those of the locals that are constants.
    pub constants: HashMap<LocalId, Constant>,
    /// What `return` returns: a function's result, or void in a PPF.
    pub result: Type,
    /// Variables that count the open loops: they can't be set in the loop.
    pub loop_counters: Vec<LocalId>,
    /// Number of open loops.
    pub loops: usize,
    /// Number of open `switch`es.
    pub switches: usize,
    /// In a demux: the protocol whose fields are names.
    pub header: Option<ProtocolId>,
    /// In a constant: nothing is run.
    pub constant: bool,
    /// Statements to come before the one that is being checked.
    pub before: Vec<Stmt>,
    /// See [`Code::unlabelled`].
    pub unlabelled: Vec<(Span, String)>,
}

impl<'c, 'a> CodeChecker<'c, 'a> {
    pub(super) fn new(checker: &'c mut Checker<'a>, file: FileId, scope: Scope) -> Self {
        CodeChecker {
            checker,
            file,
            scope,
            locals: Vec::new(),
            scopes: vec![HashMap::new()],
            constants: HashMap::new(),
            result: Type::Void,
            loop_counters: Vec::new(),
            loops: 0,
            switches: 0,
            header: None,
            constant: false,
            before: Vec::new(),
            unlabelled: Vec::new(),
        }
    }

    /// For an expression that must be constant.
    pub(super) fn constant(checker: &'c mut Checker<'a>, file: FileId, scope: Scope) -> Self {
        CodeChecker { constant: true, ..CodeChecker::new(checker, file, scope) }
    }

    pub(super) fn error(&mut self, diagnostic: Diagnostic) {
        self.checker.error(diagnostic);
    }

    pub(super) fn span<N: AstNode>(&self, node: &N) -> Span {
        ast::node_span(node.syntax(), self.file)
    }

    /// Declares a variable in the innermost scope.
    pub(super) fn declare(&mut self, name: &str, ty: Type, span: Span) -> LocalId {
        let id = LocalId(self.locals.len() as u32);
        self.locals.push(Local { name: name.to_string(), ty, span });
        self.checker.note_value(span, ty);
        let scope = self.scopes.last_mut().expect("a scope is open");
        if let Some(first) = scope.insert(name.to_string(), id) {
            let first = self.locals[first.0 as usize].span;
            self.error(
                Diagnostic::new("duplicate-name", span, format!("`{name}` is declared twice"))
                    .label("declared again here")
                    .also(first, "first declared here"),
            );
        }
        id
    }

    /// The innermost variable of a name.
    pub(super) fn local(&self, name: &str) -> Option<LocalId> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name)).copied()
    }

    pub(super) fn local_type(&self, local: LocalId) -> Type {
        self.locals[local.0 as usize].ty
    }

    /// Reports what can't stand in a constant.
    pub(super) fn not_constant(&mut self, span: Span) -> Typed {
        self.error(
            Diagnostic::new("not-constant", span, "this value must be known when the program is compiled")
                .label("not a constant"),
        );
        Typed::error(span)
    }

    /// The value of a constant expression.
    pub(super) fn evaluate(&mut self, expr: &ast::Expr) -> Option<Constant> {
        let outside = std::mem::replace(&mut self.constant, true);
        let value = self.expr(expr, None);
        self.constant = outside;
        match value.lit {
            Some(lit) => Some(Constant::Untyped(lit)),
            None => self.constant_of(value.expr),
        }
    }

    /// The value of an expression that must be constant.
    pub(super) fn constant_of(&mut self, expr: Expr) -> Option<Constant> {
        match (expr.kind, expr.ty) {
            (_, Type::Error) => None,
            (ExprKind::Const(bits), ty @ (Type::Int { .. } | Type::Bool)) => Some(Constant::Typed(ty, bits)),
            _ => {
                self.not_constant(expr.span);
                None
            }
        }
    }

    pub(super) fn body(mut self, block: &ast::Block) -> Code {
        let body = self.block(block);
        let end = block.r_brace().map(|token| ast::token_span(&token, self.file));
        Code { locals: self.locals, body, end, unlabelled: self.unlabelled }
    }
}

impl Checker<'_> {
    /// Checks all bodies, and then what must hold on every path of those that are right so far.
    pub(super) fn check_bodies(&mut self) {
        let wired = self.errors.is_empty();
        self.deadline_tables();
        for index in 0..self.functions.len() {
            let def = &self.functions[index];
            let (file, scope, item, result) = (def.file, def.scope, def.ast.clone(), def.result);
            let (params, name) = (def.params.clone(), def.name.clone());
            let mistakes = self.mistakes();
            let mut code = CodeChecker::new(self, file, scope);
            code.result = result;
            for param in &params {
                code.declare(&param.name, param.ty, param.span);
            }
            let code = match item.body() {
                Some(block) => code.body(&block),
                None => Code { locals: code.locals, ..Code::default() },
            };
            let function = hir::Function { name, params: params.len() as u32, result, code };
            if self.mistakes() == mistakes && self.facts.is_none() {
                let mut found = Vec::new();
                super::flow::check_function(&self.hir, &function, &mut found);
                self.errors.extend(found);
            }
            self.hir.functions.push(function);
        }
        if self.facts.is_none() {
            self.check_recursion();
        }
        for index in 0..self.ppfs.len() {
            self.ppf_body(index);
        }
        for index in 0..self.timers.len() {
            self.timer_body(index);
        }
        if self.facts.is_some() {
            return;
        }
        if self.errors.is_empty() {
            self.check_code();
            self.check_critical();
        }
        if self.errors.is_empty() {
            let mut found = Vec::new();
            super::sums::check(&self.hir, &mut found);
            self.errors.extend(found);
        }
        if wired && self.errors.is_empty() {
            self.expand_instances();
            self.check_cycles();
            self.check_pins();
        }
        if self.errors.is_empty() {
            self.lock_tables();
            self.check_limits();
        }
    }

    fn ppf_body(&mut self, index: usize) {
        let def = &self.ppfs[index];
        let (module, name, span) = (def.module, def.name.clone(), def.span);
        let (body, declared_file, param) = (def.body.clone(), def.file, def.param.clone());
        let (Some(protocol), Some(param), pin) = (def.protocol, param, def.pin) else {
            return self.look_at_ppf(index);
        };
        let full_name = format!("{}.{name}", self.modules[module.0].name);
        let Some((file, block, own_param)) = body else { return };
        let mistakes = self.mistakes();
        let mut param_file = declared_file;
        let mut param = param;
        if let Some(own) = own_param {
            // The out-of-body definition repeats the parameter, and may give it another name.
            let ty = own.ty().map(|ty| self.type_of(file, Some(module), &ty, own.star().is_some()));
            if let Some(Type::Packet(repeated)) = ty
                && repeated != protocol
            {
                let (own_span, first) = (self.span(file, &own), self.span(declared_file, &param));
                self.error(
                    Diagnostic::new("protocol-mismatch", own_span, "this PPF is declared with another protocol")
                        .label("differs from the declaration")
                        .also(first, "declared here"),
                );
            } else if let Some(other) = ty.filter(|ty| !matches!(ty, Type::Packet(_) | Type::Error)) {
                let own_span = self.span(file, &own);
                self.mismatch(own_span, Type::Packet(protocol), other);
            }
            (param_file, param) = (file, own);
        }
        let Some(param_name) = param.name() else { return };
        let mut code = CodeChecker::new(self, file, Some(module));
        code.declare(param_name.text(), Type::Packet(protocol), param_name.span(param_file));
        let code = code.body(&block);
        let ppf = hir::Ppf { name: full_name, protocol, pin, code, span };
        if self.mistakes() == mistakes && self.facts.is_none() {
            let mut found = Vec::new();
            super::flow::check_ppf(&self.hir, &ppf, &mut found);
            self.errors.extend(found);
        }
        self.hir.ppfs.push(ppf);
    }

    /// Functions are inlined, so none may call itself, directly or through others.
    fn check_recursion(&mut self) {
        let calls: Vec<Vec<FunctionId>> = self
            .hir
            .functions
            .iter()
            .map(|function| {
                let mut calls = Vec::new();
                collect_calls(&function.code.body, &mut calls);
                calls
            })
            .collect();
        let reached_from = |start: usize| {
            let mut reached = vec![false; calls.len()];
            let mut open = calls[start].clone();
            while let Some(next) = open.pop() {
                if !std::mem::replace(&mut reached[next.0 as usize], true) {
                    open.extend(&calls[next.0 as usize]);
                }
            }
            reached
        };
        // Functions of a circle that was reported: one report is enough.
        let mut reported = vec![false; calls.len()];
        for start in 0..calls.len() {
            let reached = reached_from(start);
            if reached[start] && !reported[start] {
                for function in 0..calls.len() {
                    reported[function] |= reached[function] && reached_from(function)[start];
                }
                let def = &self.functions[start];
                let error = Diagnostic::new("recursion", def.span, format!("`{}` calls itself", def.name))
                    .label("directly, or through the functions that it calls")
                    .hint("functions are inlined: write a `for` loop with a constant bound");
                self.error(error);
            }
        }
    }
}

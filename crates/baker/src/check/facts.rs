//! What the checker finds out about names and values, for tools that show programs while they are written.
//!
//! The checker goes over a program that is wrong, too, and over trees with holes. What it can't make sense of stands
//! for nothing. Then it looks at all expressions, also at those that no statement makes use of, and at modules with
//! parameters that have no instance. It stops where only whole programs can be checked.

use std::collections::{HashMap, HashSet};

use super::code::CodeChecker;
use super::hir::{LocalId, StructId, Type};
use super::load::Loaded;
use super::names::{Checker, Scope, Symbol};
use crate::ir::ProtocolId;
use crate::source::{FileId, Span};
use crate::syntax::ast::{self, AstNode};
use crate::syntax::{SyntaxKind, SyntaxNode};

/// A value of which something can be named. Places are those of the names in declarations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A handle of a packet of the protocol that is declared there.
    Packet(Span),
    /// A value of the struct that is declared there.
    Struct(Span),
    /// A pointer to one.
    Pointer(Span),
}

/// What is known of the names and expressions of a program, by their places.
#[derive(Debug, Default)]
pub struct Facts {
    names: HashMap<Span, Span>,
    values: HashMap<Span, Vec<Value>>,
    /// Expressions that were looked at, in each instance of a module.
    seen: HashSet<Span>,
}

impl Facts {
    /// Where that is declared which a name stands for; `None` for names of the language, and unknown ones.
    pub fn declaration(&self, name: Span) -> Option<Span> {
        self.names.get(&name).copied()
    }

    /// What an expression is, or a variable, by its name in the declaration: several where the instances of a module
    /// with parameters differ.
    pub fn values(&self, at: Span) -> &[Value] {
        self.values.get(&at).map_or(&[], Vec::as_slice)
    }
}

/// What is known of a program that was loaded as `name`, whatever is wrong with it.
pub fn examine(name: &str, loaded: Loaded) -> (Loaded, Facts) {
    let Loaded { sources, files, diagnostics } = loaded;
    let mut checker = Checker::new(name, &files, sources);
    checker.facts = Some(Facts::default());
    checker.run();
    let facts = checker.facts.take().unwrap_or_default();
    let (_, _, sources) = checker.finish();
    (Loaded { sources, files, diagnostics }, facts)
}

impl Checker<'_> {
    /// What a name stands for in a scope; noted.
    pub(super) fn meant(&mut self, file: FileId, scope: Scope, name: &ast::Name) -> Option<Symbol> {
        let (symbol, declared) = self.resolve_entry(scope, name.text())?;
        self.note(name.span(file), declared);
        Some(symbol)
    }

    /// Notes where that is declared which a name stands for. The first word on it counts.
    pub(super) fn note(&mut self, name: Span, declared: Span) {
        let [name, declared] = [name, declared].map(|span| self.original(span));
        // Names of the language are declared nowhere.
        if let (Some(facts), true) = (&mut self.facts, declared.start < declared.end) {
            facts.names.entry(name).or_insert(declared);
        }
    }

    /// Notes a name in a list of fields, which are declared in a file.
    pub(super) fn note_field(
        &mut self,
        name: Span,
        file: FileId,
        text: &str,
        mut fields: impl Iterator<Item = ast::Name>,
    ) {
        if self.facts.is_some()
            && let Some(declared) = fields.find(|field| field.text() == text)
        {
            self.note(name, declared.span(file));
        }
    }

    /// Notes the name of a header's field.
    pub(super) fn note_header_field(&mut self, name: Span, protocol: ProtocolId, text: &str) {
        if let Some((file, item)) = self.protocols.get(protocol.0 as usize).cloned() {
            self.note_field(name, file, text, item.fields().filter_map(|field| field.name()));
        }
    }

    /// Notes the name of a struct's field.
    pub(super) fn note_struct_field(&mut self, name: Span, id: StructId, text: &str) {
        if let Some((file, _, item)) = self.structs.get(id.0 as usize).cloned() {
            self.note_field(name, file, text, item.fields().filter_map(|field| field.name()));
        }
    }

    /// Notes what an expression or a variable is.
    pub(super) fn note_value(&mut self, at: Span, ty: Type) {
        if self.facts.is_none() {
            return;
        }
        let value = match ty {
            Type::Packet(id) => self
                .protocols
                .get(id.0 as usize)
                .and_then(|(file, item)| Some(Value::Packet(self.original(item.name()?.span(*file))))),
            Type::Struct(id) => self.struct_name(id).map(Value::Struct),
            Type::Pointer(layout) => match self.pointee(layout) {
                Type::Struct(id) => self.struct_name(id).map(Value::Pointer),
                _ => None,
            },
            _ => None,
        };
        let at = self.original(at);
        if let (Some(facts), Some(value)) = (&mut self.facts, value) {
            let known = facts.values.entry(at).or_default();
            if !known.contains(&value) {
                known.push(value);
            }
        }
    }

    fn struct_name(&self, id: StructId) -> Option<Span> {
        let (file, _, item) = self.structs.get(id.0 as usize)?;
        Some(self.original(item.name()?.span(*file)))
    }

    fn original(&self, span: Span) -> Span {
        Span { file: self.sources.original(span.file), ..span }
    }

    /// The body of a PPF whose packets are not known.
    pub(super) fn look_at_ppf(&mut self, index: usize) {
        if self.facts.is_none() {
            return;
        }
        let def = &self.ppfs[index];
        let (module, declared_file) = (def.module, def.file);
        let Some((file, block, own_param)) = def.body.clone() else { return };
        let param_file = if own_param.is_some() { file } else { declared_file };
        let name = own_param.or_else(|| def.param.clone()).and_then(|param| param.name());
        let mut code = CodeChecker::new(self, file, Some(module));
        if let Some(name) = name {
            code.declare(name.text(), Type::Error, name.span(param_file));
        }
        code.body(&block);
    }

    /// Modules with parameters that have no instance: their parameters stand for something that is not known.
    pub(super) fn declare_uninstantiated(&mut self) {
        if self.facts.is_none() {
            return;
        }
        for index in 0..self.generics.len() {
            if !self.modules_of(index).is_empty() {
                continue;
            }
            let generic = &self.generics[index];
            let (file, item, name, span) = (generic.file, generic.ast.clone(), generic.name.clone(), generic.span);
            let id = self.declare_module(file, &item, &name, span);
            for name in item.params().filter_map(|param| param.name()) {
                self.bind(file, Some(id), &name, Symbol::Reported);
            }
            self.declare_module_items(id);
        }
    }
}

impl CodeChecker<'_, '_> {
    /// Notes a variable by its name.
    pub(super) fn note_local(&mut self, name: Span, local: LocalId) {
        let declared = self.locals[local.0 as usize].span;
        self.checker.note(name, declared);
    }

    /// An expression was looked at: notes what it is, and looks at the parts that were not.
    pub(super) fn looked_at(&mut self, expr: &ast::Expr, ty: Type) {
        if self.checker.facts.is_some() {
            let span = self.span(expr);
            self.checker.note_value(span, ty);
            self.see(span);
            self.look_into(expr.syntax());
        }
    }

    /// Looks at the expressions of a statement, or of another expression, that were not looked at.
    pub(super) fn look_into(&mut self, node: &SyntaxNode) {
        if self.checker.facts.is_none() {
            return;
        }
        for part in node.children() {
            // Between an expression and its parts.
            if matches!(part.kind(), SyntaxKind::ArgList | SyntaxKind::StructValueField) {
                self.look_into(&part);
            } else if let Some(part) = ast::Expr::cast(part) {
                let span = self.span(&part);
                if self.see(span) {
                    self.expr(&part, None);
                }
            }
        }
    }

    /// Whether a place is seen for the first time.
    fn see(&mut self, span: Span) -> bool {
        self.checker.facts.as_mut().is_some_and(|facts| facts.seen.insert(span))
    }
}

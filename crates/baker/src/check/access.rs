//! Access: header fields, metadata, struct fields, table look-ups.

use super::code::CodeChecker;
use super::expr::Typed;
use super::hir::{Comparison, Expr, ExprKind, LocalId, Type};
use super::names::{ModuleId, Symbol};
use super::types::unsigned;
use crate::diag::Diagnostic;
use crate::ir::{MetaId, TableId, TableKind};
use crate::number::Number;
use crate::source::Span;
use crate::syntax::ast;

/// One of several counters or meters, or a single one, as it is written.
pub(super) struct Cell {
    pub base: ast::Expr,
    pub index: Option<ast::Expr>,
    pub span: Span,
}

impl CodeChecker<'_, '_> {
    pub(super) fn member(&mut self, member: &ast::MemberExpr, span: Span) -> Typed {
        let (Some(base), Some(field)) = (member.base(), member.field()) else { return Typed::error(span) };
        if let Some(metadata) = self.metadata_path(member) {
            return self.metadata(metadata, span);
        }
        if let Some(symbol) = self.qualified(&base, &field) {
            return self.module_item(symbol, &field, span);
        }
        if let Some(size) = self.protocol_size(member, &base, &field, span) {
            return size;
        }
        let value = self.expr(&base, None);
        if member.is_arrow() {
            match value.expr.ty {
                Type::Packet(_) => return self.header_field(value.expr, &field, span),
                Type::Error => return value,
                _ => {}
            }
            let pointer = self.as_pointer(value);
            return match pointer.expr.ty {
                Type::Pointer(layout) => match self.checker.pointee(layout) {
                    Type::Struct(_) => self.struct_field(pointer, &field, span),
                    other => self.not_a_struct(&base, &field, other, span),
                },
                other => self.not_a_struct(&base, &field, other, span),
            };
        }
        match value.expr.ty {
            Type::Struct(_) => self.struct_field(value, &field, span),
            Type::Error => value,
            other => self.not_a_struct(&base, &field, other, span),
        }
    }

    /// `protocol.size`: how many bytes its fixed header has.
    fn protocol_size(
        &mut self,
        member: &ast::MemberExpr,
        base: &ast::Expr,
        field: &ast::Name,
        span: Span,
    ) -> Option<Typed> {
        let ast::Expr::Name(name) = base else { return None };
        let name = name.name().filter(|name| !member.is_arrow() && self.local(name.text()).is_none())?;
        let protocol = self.checker.protocol_named(self.scope, name.text())?;
        self.checker.meant(self.file, self.scope, &name);
        if field.text() != "size" {
            let title = format!("the protocol `{}` has no `{}`", name.text(), field.text());
            let error = Diagnostic::new("unknown-name", field.span(self.file), title);
            let hint = "`PROTOCOL.size` is the number of bytes of its fixed header; a field is that of a packet: `->`";
            self.error(error.label("not known").hint(hint));
            return Some(Typed::error(span));
        }
        Some(match self.checker.protocol_size(protocol) {
            Some(bytes) => Typed::number(Number::from(u128::from(bytes)), span),
            None => Typed::error(span),
        })
    }

    pub(super) fn not_a_struct(&mut self, base: &ast::Expr, field: &ast::Name, found: Type, span: Span) -> Typed {
        let described = self.checker.describe(found);
        let error = Diagnostic::new(
            "no-fields",
            field.span(self.file),
            format!("`{described}` has no field `{}`", field.text()),
        )
        .label("not a field");
        let error = match found {
            Type::Packet(_) => error.hint("write `->`: a handle points to a packet"),
            Type::Pointer(_) => {
                error.hint("write `->` after a pointer to a struct, or `*` before a pointer to a number")
            }
            _ => error,
        };
        self.error(self.with_hidden(error, base));
        Typed::error(span)
    }

    /// A field of a struct value, or through a pointer to a struct.
    fn struct_field(&mut self, base: Typed, field: &ast::Name, span: Span) -> Typed {
        let (id, pointer) = match base.expr.ty {
            Type::Struct(id) => (id, false),
            Type::Pointer(layout) => match self.checker.pointee(layout) {
                Type::Struct(id) => (id, true),
                _ => return Typed::error(span),
            },
            _ => return Typed::error(span),
        };
        self.checker.note_struct_field(field.span(self.file), id, field.text());
        if self.array_without_index(id, field) {
            return Typed::error(span);
        }
        let declared = &self.checker.hir.structs[id.0 as usize];
        let Some(index) = declared.fields.iter().position(|f| f.0 == field.text()) else {
            let (name, known) = (declared.name.clone(), self.field_names(id));
            self.no_field(field, &name, known);
            return Typed::error(span);
        };
        let ty = declared.fields[index].1;
        let base = Box::new(base.expr);
        let kind = match pointer {
            true => ExprKind::EntryField(base, index as u32),
            false => ExprKind::StructField(base, index as u32),
        };
        Typed::new(kind, ty, span)
    }

    fn header_field(&mut self, packet: Expr, field: &ast::Name, span: Span) -> Typed {
        let (Type::Packet(protocol), ExprKind::Local(local)) = (packet.ty, &packet.kind) else {
            self.not_a_handle(&Typed::new(packet.kind, packet.ty, packet.span));
            return Typed::error(span);
        };
        self.checker.note_header_field(field.span(self.file), protocol, field.text());
        let declared = &self.checker.hir.protocols[protocol.0 as usize];
        let Some(index) = declared.fields.iter().position(|f| f.name == field.text()) else {
            let (name, known) = (declared.name.clone(), declared.fields.iter().map(|f| f.name.clone()).collect());
            self.no_field(field, &name, known);
            return Typed::error(span);
        };
        let declared = &declared.fields[index];
        let ty = if self.checker.names_bool(&declared.type_name) { Type::Bool } else { unsigned(declared.bits.width) };
        Typed::new(ExprKind::Field(*local, index as u32), ty, span)
    }

    /// For `pkt->metadata.a.b`: the handle's expression and the names `a`, `b`.
    fn metadata_path(&self, member: &ast::MemberExpr) -> Option<(ast::Expr, Vec<ast::Name>)> {
        let mut names = Vec::new();
        let mut at = member.clone();
        loop {
            let (base, field) = at.base().zip(at.field())?;
            if at.is_arrow() {
                return (field.text() == "metadata").then(|| (base, names.into_iter().rev().collect()));
            }
            names.push(field);
            let ast::Expr::Member(inner) = base else { return None };
            at = inner;
        }
    }

    fn metadata(&mut self, (base, names): (ast::Expr, Vec<ast::Name>), span: Span) -> Typed {
        let packet = self.expr(&base, None);
        let (Type::Packet(_), ExprKind::Local(local)) = (packet.expr.ty, &packet.expr.kind) else {
            self.not_a_handle(&packet);
            return Typed::error(span);
        };
        let path: Vec<_> = names.iter().map(|n| n.text()).collect();
        let path = path.join(".");
        let fields = &self.checker.hir.metadata;
        let Some(index) = fields.iter().position(|f| f.name == path) else {
            let known: Vec<_> = fields.iter().map(|f| &*f.name).collect();
            let error = match (path.is_empty(), known.iter().any(|k| k.starts_with(&format!("{path}.")))) {
                (true, _) => Diagnostic::new("unknown-metadata", span, "the metadata as a whole has no value"),
                (_, true) => Diagnostic::new("unknown-metadata", span, format!("`{path}` is only a part of a name")),
                _ => Diagnostic::new("unknown-metadata", span, format!("there is no metadata `{path}`")),
            };
            let error = if path.is_empty() { error.label("which field of it?") } else { error.label("not declared") };
            let error = error.hint(format!("the metadata is {}", known.join(", ")));
            self.checker.report_once(error);
            return Typed::error(span);
        };
        if let Some(name) = names.last().filter(|_| self.checker.facts.is_some()) {
            let files = self.checker.files;
            for file in files {
                for item in file.tree.items() {
                    let ast::Item::Metadata(item) = item else { continue };
                    let fields = item.fields().filter_map(|field| field.name());
                    self.checker.note_field(name.span(self.file), file.id, &path, fields);
                }
            }
        }
        let ty = self.checker.meta_type(&self.checker.hir.metadata[index]);
        Typed::new(ExprKind::Meta(*local, MetaId(index as u32)), ty, span)
    }

    /// What `module.name` stands for.
    pub(super) fn qualified(&mut self, base: &ast::Expr, field: &ast::Name) -> Option<Result<Symbol, ModuleId>> {
        let ast::Expr::Name(name) = base else { return None };
        let name = name.name()?;
        if self.local(name.text()).is_some() {
            return None;
        }
        let (module, instance) = match self.checker.resolve(self.scope, name.text())? {
            Symbol::Module(module) => (module, None),
            Symbol::Instance(id) => (self.checker.instances[id].module, Some(id)),
            _ => return None,
        };
        self.checker.meant(self.file, self.scope, &name);
        let declared = &self.checker.modules[module.0];
        let Some(&(symbol, at)) = declared.names.get(field.text()) else { return Some(Err(module)) };
        self.checker.note(field.span(self.file), at);
        let declared = &self.checker.modules[module.0];
        let own = matches!(
            symbol,
            Symbol::Table(_)
                | Symbol::Meter(_)
                | Symbol::Hold(_)
                | Symbol::Group(_)
                | Symbol::Queue(_)
                | Symbol::Counter(_)
                | Symbol::Port(_)
                | Symbol::Ppf(_)
        );
        let calls = matches!(symbol, Symbol::Function(_) | Symbol::Extern(_));
        let span = Span { end: field.span(self.file).end, ..name.span(self.file) };
        match instance {
            // It works on the tables of one of them.
            _ if calls && !declared.instances.is_empty() => {
                let title = format!("the functions of `{}` are those of each instance", declared.name);
                let error = Diagnostic::new("function-of-instances", span, title);
                self.checker.report_once(error.label("can be called within the module only"));
            }
            None if own && !declared.instances.is_empty() => self.checker.needs_instance(module, field.text(), span),
            Some(_) if !own => {
                let title = format!("`{}` belongs to the module `{}`", field.text(), declared.name);
                let hint = format!("write `{}.{}`", declared.name, field.text());
                let error = Diagnostic::new("not-of-instance", span, title);
                self.checker.report_once(error.label("not to one of its instances").hint(hint));
            }
            _ => {}
        }
        Some(Ok(instance.map_or(symbol, |id| self.checker.of_instance(id, symbol))))
    }

    pub(super) fn module_item(&mut self, symbol: Result<Symbol, ModuleId>, field: &ast::Name, span: Span) -> Typed {
        let symbol = match symbol {
            Ok(Symbol::Const(index)) => match self.checker.constant(index) {
                Some(super::consts::Constant::Untyped(value)) => return Typed::number(value, span),
                Some(super::consts::Constant::Typed(ty, bits)) => return Typed::new(ExprKind::Const(bits), ty, span),
                _ => return Typed::error(span),
            },
            Ok(symbol) => symbol,
            Err(module) => {
                let module = self.checker.modules[module.0].name.clone();
                self.error(
                    Diagnostic::new(
                        "unknown-name",
                        field.span(self.file),
                        format!("the module `{module}` has no `{}`", field.text()),
                    )
                    .label("not declared there"),
                );
                return Typed::error(span);
            }
        };
        self.error(
            Diagnostic::new("not-a-value", span, format!("`{}` is {}, not a value", field.text(), symbol.what()))
                .label("used as a value"),
        );
        Typed::error(span)
    }

    /// The table, counter or channel that an expression names: `name` or `module.name`.
    pub(super) fn named(&mut self, expr: &ast::Expr) -> Option<Symbol> {
        match expr {
            ast::Expr::Name(name) => {
                let name = name.name()?;
                if self.local(name.text()).is_some() {
                    return None;
                }
                self.checker.meant(self.file, self.scope, &name)
            }
            ast::Expr::Member(member) if !member.is_arrow() => self.qualified(&member.base()?, &member.field()?)?.ok(),
            ast::Expr::Paren(paren) => self.named(&paren.inner()?),
            _ => None,
        }
    }

    /// An error about a variable where something else was wanted, with a word on what the variable hides.
    pub(super) fn with_hidden(&self, error: Diagnostic, expr: &ast::Expr) -> Diagnostic {
        let ast::Expr::Name(name) = expr else { return error };
        let Some(name) = name.name().filter(|name| self.local(name.text()).is_some()) else { return error };
        match self.checker.resolve(self.scope, name.text()) {
            Some(hidden) => {
                error.hint(format!("here `{}` is a variable, which hides {} of that name", name.text(), hidden.what()))
            }
            None => error,
        }
    }

    /// The parts of `name` or `name[index]`, where a counter or meter is named.
    pub(super) fn cell(&self, expr: &ast::Expr) -> Option<Cell> {
        let span = self.span(expr);
        Some(match expr {
            ast::Expr::Index(index) => Cell { base: index.base()?, index: Some(index.index()?), span },
            other => Cell { base: other.clone(), index: None, span },
        })
    }

    /// Which of `size` counters or meters is meant.
    pub(super) fn cell_index(&mut self, what: &str, size: u32, index: Option<ast::Expr>, at: Span) -> Option<Expr> {
        match index {
            Some(index) => {
                let index = self.expr(&index, None);
                self.coerce(index, unsigned(32))
            }
            None if size == 1 => Some(Expr { kind: ExprKind::Const(0), ty: unsigned(32), span: at }),
            None => {
                self.error(
                    Diagnostic::new("cell-index", at, format!("this {what} has {size} cells"))
                        .label("which one?")
                        .hint(format!("write `{what}[index]`")),
                );
                None
            }
        }
    }

    pub(super) fn index(&mut self, index: &ast::IndexExpr, span: Span) -> Typed {
        if self.constant {
            return self.not_constant(span);
        }
        if index.base().is_some_and(|base| self.is_element(&base)) {
            return self.element(index, span);
        }
        let Some((table, key)) = self.table_and_key(index) else { return Typed::error(span) };
        let info = &self.checker.hir.tables[table.0 as usize];
        let (kind, layout, is_set) = (info.kind, info.value, info.is_set);
        if is_set {
            let found = Expr { kind: ExprKind::Lookup(table, vec![key]), ty: Type::Pointer(layout), span };
            let null = Expr { kind: ExprKind::Const(0), ty: Type::Null, span };
            let test = ExprKind::Compare(Comparison::Ne, Box::new(found), Box::new(null));
            return Typed::new(test, Type::Bool, span);
        }
        if kind == TableKind::Array {
            let ty = self.checker.pointee(layout);
            return Typed::new(ExprKind::ArrayValue(table, Box::new(key)), ty, span);
        }
        Typed::new(ExprKind::Lookup(table, vec![key]), Type::Pointer(layout), span)
    }

    /// The table and the checked key of `table[key]`.
    pub(super) fn table_and_key(&mut self, index: &ast::IndexExpr) -> Option<(TableId, Expr)> {
        let (base, key) = index.base().zip(index.index())?;
        let Some(Symbol::Table(table)) = self.named(&base) else {
            // Say what is wrong with the base itself, if anything is.
            let value = match self.named(&base) {
                None => self.expr(&base, None),
                Some(_) => Typed::error(self.span(&base)),
            };
            if !value.is_error() || self.named(&base).is_some() {
                let span = self.span(&base);
                let error = Diagnostic::new("not-a-table", span, "only a table has entries").label("not a table");
                self.error(self.with_hidden(error, &base));
            }
            self.expr(&key, None);
            return None;
        };
        let key = self.table_key(table, &key)?;
        Some((table, key))
    }

    /// A key of a table.
    pub(super) fn table_key(&mut self, table: TableId, key: &ast::Expr) -> Option<Expr> {
        let ty = self.checker.pointee(self.checker.hir.tables[table.0 as usize].key);
        let key = self.expr(key, None);
        self.coerce(key, ty)
    }

    /// Where a pointer is needed, an array's entry is looked up instead of read.
    pub(super) fn as_pointer(&mut self, value: Typed) -> Typed {
        match value.expr.kind {
            ExprKind::ArrayValue(table, index) => {
                let layout = self.checker.hir.tables[table.0 as usize].value;
                Typed::new(ExprKind::Lookup(table, vec![*index]), Type::Pointer(layout), value.expr.span)
            }
            _ => value,
        }
    }

    /// `*pointer`.
    pub(super) fn dereference(&mut self, pointer: Typed, span: Span) -> Typed {
        let pointer = self.as_pointer(pointer);
        match pointer.expr.ty {
            Type::Pointer(layout) => match self.checker.pointee(layout) {
                ty @ Type::Struct(_) => Typed::new(ExprKind::Entry(Box::new(pointer.expr)), ty, span),
                ty => Typed::new(ExprKind::EntryField(Box::new(pointer.expr), 0), ty, span),
            },
            Type::Loaded { width, signed } => {
                Typed::new(ExprKind::EntryField(Box::new(pointer.expr), 0), Type::Int { width, signed }, span)
            }
            Type::Error => pointer,
            other => {
                let described = self.checker.describe(other);
                self.error(
                    Diagnostic::new("not-a-pointer", span, format!("`{described}` is not a pointer"))
                        .label("nothing to follow"),
                );
                Typed::error(span)
            }
        }
    }

    /// The handle that an expression names.
    pub(super) fn handle(&mut self, expr: &ast::Expr) -> Option<(LocalId, crate::ir::ProtocolId)> {
        let value = self.expr(expr, None);
        if let (Type::Packet(protocol), ExprKind::Local(local)) = (value.expr.ty, &value.expr.kind) {
            return Some((*local, protocol));
        }
        self.not_a_handle(&value);
        None
    }

    /// Reports a value where a handle with a name is needed.
    pub(super) fn not_a_handle(&mut self, value: &Typed) {
        let span = value.expr.span;
        match value.expr.ty {
            Type::Error => {}
            Type::Packet(_) => self.error(
                Diagnostic::new("unnamed-packet", span, "this packet has no name")
                    .label("its handle would be lost")
                    .hint("give it a name first: `ipv4_packet_t *ip = packet_decap(pkt);`"),
            ),
            other => {
                let described = match value.lit {
                    Some(_) => "a number".to_string(),
                    None => format!("`{}`", self.checker.describe(other)),
                };
                self.error(
                    Diagnostic::new("not-a-packet", span, format!("{described} is not a packet"))
                        .label("a packet handle is needed here"),
                );
            }
        }
    }
}

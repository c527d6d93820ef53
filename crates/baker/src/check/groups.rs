//! Groups: members that each get a packet of their own.

use super::access::Cell;
use super::code::CodeChecker;
use super::expr::Typed;
use super::hir::{Expr, ExprKind, StmtKind, Type};
use super::names::{Checker, ModuleId, Symbol};
use super::types::unsigned;
use crate::diag::Diagnostic;
use crate::ir::{DropId, DropReason, GROUP_FIELDS, Group, MetaField, MetaId, Table, TableId, TableKind, storage_size};
use crate::source::{FileId, Span};
use crate::syntax::ast;

/// Groups of one declaration at most, and members in all of them.
const MAX_GROUPS: u32 = 1 << 20;
const MAX_MEMBERS: u32 = 1 << 20;

impl Checker<'_> {
    /// `group<value> name[groups] of members;`
    pub(super) fn group(&mut self, file: FileId, module: ModuleId, item: &ast::Table, name: &ast::Name) {
        let types: Vec<_> = item.types().collect();
        if types.len() != 1 {
            self.error(
                Diagnostic::new("table-types", name.span(file), "this table has the wrong number of types")
                    .label(format!("{} given, 1 needed", types.len()))
                    .hint("write `group<VALUE> NAME[GROUPS] of MEMBERS;`"),
            );
        }
        let value = types.first().and_then(|ty| self.entry_layout(file, module, ty));
        let mut number = |expr: Option<ast::Expr>, what: &str, most: u32| {
            expr.and_then(|expr| self.size(file, Some(module), &expr, what, (1, most)))
        };
        let groups = number(item.size(), "the number of groups", MAX_GROUPS);
        let members = number(item.most(), "the number of members", MAX_MEMBERS);
        if item.most().is_none() {
            self.error(
                Diagnostic::new("group-without-of", name.span(file), "how many members may these groups have?")
                    .label("in all of them together")
                    .hint(format!("write `{}[GROUPS] of MEMBERS`", name.text())),
            );
        }
        for other in [item.idle().map(|idle| self.span(file, &idle)), item.led_into().map(|into| into.span(file))] {
            self.errors.extend(other.map(|span| {
                Diagnostic::new("bad-group", span, "a group neither ages nor leads into a table")
                    .label("not for groups")
            }));
        }
        self.group_metadata(name.span(file));
        let [full, none] = [Group::FULL, Group::NONE].map(|reason| self.reason_of_language(reason));
        let fields = ["group", "member"].map(|field| (field.to_string(), "u32".to_string(), unsigned(32)));
        let known = self.hir.tables.iter().find(|table| table.group.is_some()).map(|table| table.key);
        let key = known.unwrap_or_else(|| self.struct_layout("group_member_t", &fields));
        let value = value.unwrap_or_else(|| self.layout("u32", unsigned(32)));
        let id = TableId(self.hir.tables.len() as u32);
        self.hir.tables.push(Table {
            name: self.full_name(module, name.text()),
            kind: TableKind::Hash,
            is_set: false,
            idle: None,
            meter: None,
            hold: None,
            group: Some(Group { groups: groups.unwrap_or(1), full, none }),
            locked: false,
            into: None,
            key,
            value,
            capacity: members.unwrap_or(1),
            span: Some(name.span(file)),
        });
        self.bind(file, Some(module), name, Symbol::Group(id));
    }

    /// What programs see of the metadata of groups, once.
    fn group_metadata(&mut self, at: Span) {
        if self.hir.tables.iter().any(|table| table.group.is_some()) {
            return;
        }
        for field in &GROUP_FIELDS[..2] {
            if self.hir.metadata.iter().any(|known| known.name == *field) {
                let title = format!("the metadata `{field}` is the language's where there are groups");
                let error = Diagnostic::new("reserved-name", at, title).label("says of which member a packet is");
                self.error(error.hint(format!("give the program's own metadata `{field}` another name")));
                continue;
            }
            let offset = self.hir.metadata_size.next_multiple_of(storage_size(32));
            let (name, type_name) = (field.to_string(), "u32".to_string());
            self.hir.metadata.push(MetaField { name, type_name, width: 32, offset });
            self.hir.metadata_size = offset + storage_size(32);
        }
    }

    /// A drop reason that the language has in some programs only.
    pub(super) fn reason_of_language(&mut self, name: &str) -> DropId {
        let reasons = &mut self.hir.reasons;
        let known = reasons.iter().position(|reason| reason.name == name).unwrap_or_else(|| {
            reasons.push(DropReason { name: name.into() });
            reasons.len() - 1
        });
        DropId(known as u32)
    }

    /// Packets say of which groups' table they are by a hash of its name. Each table has one of its own.
    pub(super) fn check_groups(&mut self) {
        let groups: Vec<&Table> = self.hir.tables.iter().filter(|table| table.group.is_some()).collect();
        for (index, table) in groups.iter().enumerate() {
            let other = groups[..index].iter().find(|other| other.mark() == table.mark());
            if let (Some(other), Some(span)) = (other, table.span) {
                let title = format!("the names {} and {} have the same hash", other.name, table.name);
                let error = Diagnostic::new("group-hash", span, title).label("give one of them another name");
                self.errors.push(error);
            }
        }
    }
}

impl CodeChecker<'_, '_> {
    /// `channel_put_all(channel, group[i], packet)`
    pub(super) fn channel_put_all(&mut self, args: &[ast::Expr]) -> Option<StmtKind> {
        let put = self.channel_put(&[args[0].clone(), args[2].clone()]);
        let which = self.which_group(&args[1]);
        let (StmtKind::Put(channel, packet), (groups, which)) = (put?, which?) else { return None };
        Some(StmtKind::PutAll(channel, groups, packet, which))
    }

    /// `group_member(group, packet)`
    pub(super) fn group_member(&mut self, args: &[ast::Expr], span: Span) -> Typed {
        let groups = match self.named(&args[0]) {
            Some(Symbol::Group(groups)) => Some(groups),
            _ => {
                let at = self.span(&args[0]);
                self.not_a_group(&args[0], at);
                None
            }
        };
        let packet = self.handle(&args[1]);
        let (Some(groups), Some((packet, _))) = (groups, packet) else { return Typed::error(span) };
        let value = self.checker.hir.tables[groups.0 as usize].value;
        Typed::new(ExprKind::Member(groups, packet), Type::Pointer(value), span)
    }

    /// Whether metadata is that of groups, which programs do not set.
    pub(super) fn is_of_groups(&self, field: MetaId) -> bool {
        let hir = &self.checker.hir;
        let name = &hir.metadata[field.0 as usize].name;
        GROUP_FIELDS.contains(&name.as_str()) && hir.tables.iter().any(|table| table.group.is_some())
    }

    /// A group, or one of several.
    fn which_group(&mut self, expr: &ast::Expr) -> Option<(TableId, Expr)> {
        let Cell { base, index, span } = self.cell(expr)?;
        let Some(Symbol::Group(groups)) = self.named(&base) else {
            self.not_a_group(&base, span);
            return None;
        };
        let count = self.checker.hir.tables[groups.0 as usize].group?.groups;
        Some((groups, self.cell_index("group", count, index, span)?))
    }

    fn not_a_group(&mut self, expr: &ast::Expr, span: Span) {
        let error = Diagnostic::new("not-a-group", span, "a group is needed here").label("not a group");
        self.error(self.with_hidden(error, expr));
    }
}

//! Structs, and the channels, tables and counters of modules; the signatures of PPFs and functions.

use std::collections::HashMap;

use super::arrays::element_names;
use super::hir::{self, Local, StructId, Type};
use super::names::{Checker, ModuleId, Port, Symbol};
use super::types::unsigned;
use crate::diag::Diagnostic;
use crate::ir::{
    Channel, ChannelId, Counter, CounterId, DeclaredKind, KindRow, LayoutId, PpfId, ProtocolId, Table, TableId,
    TableKind, Target,
};
use crate::source::{FileId, Span};
use crate::syntax::ast;

/// Entries of a table, or cells of a counter, at most.
const MAX_CAPACITY: u32 = 1 << 26;

/// Idle times of tables and periods of timers, in nanoseconds: from a millisecond to a year.
const TIMES: std::ops::RangeInclusive<u64> = 1_000_000..=8_760 * 3_600_000_000_000;

impl Checker<'_> {
    /// Checks all structs.
    pub(super) fn check_structs(&mut self) {
        for (index, (file, scope, item)) in self.structs.clone().into_iter().enumerate() {
            let name = item.name().expect("declared with a name");
            let mut fields: Vec<(String, String, Type)> = Vec::new();
            let mut arrays = Vec::new();
            let mut seen: HashMap<String, Span> = HashMap::new();
            for field in item.fields() {
                let Some((field_name, ty)) = field.name().zip(field.ty()) else { continue };
                let span = field_name.span(file);
                let text = field_name.text().to_string();
                if let Some(first) = seen.insert(text.clone(), span) {
                    self.error(
                        Diagnostic::new("duplicate-field", span, format!("the field `{text}` is declared twice"))
                            .label("declared again here")
                            .also(first, "first declared here"),
                    );
                    continue;
                }
                let type_name = ty.name().map(|n| n.text().to_string()).unwrap_or_default();
                let is_struct = matches!(self.resolve(scope, &type_name), Some(Symbol::Struct(_)));
                let resolved =
                    if is_struct { Type::Struct(StructId(0)) } else { self.type_of(file, scope, &ty, false) };
                match resolved {
                    Type::Int { .. } | Type::Bool | Type::Reason => {
                        let written = self.written_name(scope, &type_name);
                        let Some(length) = field.length() else {
                            fields.push((text, written, resolved));
                            continue;
                        };
                        let Some(count) = self.array_length(file, scope, &length) else { continue };
                        let first = fields.len() as u32;
                        fields.extend(element_names(&text, count).map(|name| (name, written.clone(), resolved)));
                        arrays.push((text, hir::Elements { first, count }));
                    }
                    Type::Error => {}
                    _ => {
                        let span = self.span(file, &ty);
                        self.error(
                            Diagnostic::new(
                                "bad-field-type",
                                span,
                                format!("a field of a struct can't be `{type_name}`"),
                            )
                            .label("not an integer type or bool"),
                        );
                    }
                }
            }
            if fields.is_empty() && seen.is_empty() {
                self.error(
                    Diagnostic::new("empty-struct", name.span(file), "a struct has at least one field")
                        .label("has none"),
                );
            }
            let layout = self.struct_layout(name.text(), &fields);
            debug_assert_eq!(self.hir.structs.len(), index);
            self.hir.structs.push(hir::Struct {
                name: name.text().to_string(),
                fields: fields.into_iter().map(|(name, _, ty)| (name, ty)).collect(),
                arrays,
                layout,
            });
        }
    }

    /// Declares channels, tables and counters of all modules. Channel 0 is `rx`.
    pub(super) fn check_modules(&mut self) {
        let (protocol, target) = (ProtocolId(0), Target::Host);
        self.hir.channels.push(Channel { name: "rx".into(), from: None, protocol, target, batch: None });
        for index in 0..self.modules.len() {
            let (module, file, item) = (ModuleId(index), self.modules[index].file, self.modules[index].ast.clone());
            let count = |hir: &hir::Program| {
                [hir.tables.len(), hir.counters.len(), hir.channels.len(), hir.queues.len()].map(|len| len as u32)
            };
            let before = count(&self.hir);
            for item in item.items() {
                match item {
                    ast::ModuleItem::Port(item) => self.port(file, module, &item),
                    ast::ModuleItem::Table(item) => self.table(file, module, &item),
                    ast::ModuleItem::Counter(item) => self.counter(file, module, &item),
                    ast::ModuleItem::Meter(item) => self.meter(file, module, &item),
                    ast::ModuleItem::Queue(item) => self.queue(file, module, &item),
                    _ => {}
                }
            }
            let after = count(&self.hir);
            let own = &mut self.modules[index].own;
            [own.tables, own.counters, own.channels, own.queues] = [0, 1, 2, 3].map(|kind| before[kind]..after[kind]);
        }
    }

    pub(super) fn full_name(&self, module: ModuleId, name: &str) -> String {
        format!("{}.{name}", self.modules[module.0].name)
    }

    fn port(&mut self, file: FileId, module: ModuleId, item: &ast::Port) {
        let (Some(kind), Some(protocol_name)) = (item.kind(), item.protocol()) else { return };
        let protocol = match self.meant(file, Some(module), &protocol_name) {
            Some(Symbol::Protocol(id)) => Some(id),
            found => {
                self.unknown(file, &protocol_name, "protocol", found);
                None
            }
        };
        for name in item.names() {
            let channel = (kind != ast::PortKind::In).then(|| {
                self.hir.channels.push(Channel {
                    name: self.full_name(module, name.text()),
                    from: None,
                    protocol: protocol.unwrap_or(ProtocolId(0)),
                    target: Target::Host,
                    batch: None,
                });
                ChannelId(self.hir.channels.len() as u32 - 1)
            });
            let index = self.modules[module.0].ports.len();
            self.modules[module.0].ports.push(Port {
                name: name.text().to_string(),
                span: name.span(file),
                kind,
                protocol,
                channel,
                reader: None,
            });
            self.bind(file, Some(module), &name, Symbol::Port(index));
        }
    }

    fn table(&mut self, file: FileId, module: ModuleId, item: &ast::Table) {
        let (Some(kind), Some(name)) = (item.kind(), item.name()) else { return };
        let Some(kind) = DeclaredKind::named(kind.text()) else { return };
        if kind == DeclaredKind::Hold {
            return self.hold(file, module, item, &name);
        }
        if kind == DeclaredKind::Group {
            return self.group(file, module, item, &name);
        }
        let types: Vec<_> = item.types().collect();
        let of_meters = types.len() == kind.row().types && self.is_meter(module, types.last());
        if of_meters && matches!(kind, DeclaredKind::Array | DeclaredKind::Hash | DeclaredKind::Lpm) {
            return self.meter_table(file, module, item, &name, kind.row().searched);
        }
        if let Some(rate) = item.rate() {
            let error = Diagnostic::new("bad-meter", self.span(file, &rate), "only meters have a rate");
            self.error(error.label("the values of this table are none").hint("such as `hash<ipv4_addr_t, meter>`"));
        }
        if let Some(packets) = item.most() {
            let span = self.span(file, &packets);
            self.error(
                Diagnostic::new("of-without-hold", span, "only a hold table has packets")
                    .label("`of` says how many packets a `hold` table has"),
            );
        }
        let row = kind.row();
        let (kind, wanted, is_set) = (row.searched, row.types, row.declared == DeclaredKind::Set);
        if types.len() != wanted {
            self.error(
                Diagnostic::new("table-types", name.span(file), "this table has the wrong number of types")
                    .label(format!("{} given, {wanted} needed", types.len()))
                    .hint("write array<VALUE>, hash<KEY, VALUE>, lpm<KEY, VALUE> or set<KEY>"),
            );
        }
        let capacity =
            item.size().and_then(|size| self.size(file, Some(module), &size, "the size of a table", (1, MAX_CAPACITY)));
        let layouts: Vec<_> = types.iter().map(|ty| self.entry_layout(file, module, ty)).collect();
        // The name is bound whatever is wrong with the table, so that its uses are not reported too.
        let id = TableId(self.hir.tables.len() as u32);
        let layout = |index: usize| layouts.get(index).copied().flatten();
        let key = match kind {
            TableKind::Array => Some(self.layout("u32", unsigned(32))),
            _ => layout(0),
        };
        if let Some(key) = key {
            self.check_lpm_key(file, item, kind, key);
        }
        let value = if is_set { Some(self.layout("bool", Type::Bool)) } else { layout(wanted - 1) };
        let fallback = self.layout("u32", unsigned(32));
        let idle = self.idle(file, module, row, item);
        let value = match (value, idle) {
            (Some(value), Some(_)) => Some(self.aging_layout(value)),
            (value, _) => value,
        };
        self.hir.tables.push(Table {
            name: self.full_name(module, name.text()),
            kind,
            is_set,
            idle,
            meter: None,
            hold: None,
            group: None,
            locked: false,
            into: None,
            key: key.unwrap_or(fallback),
            value: value.unwrap_or(fallback),
            capacity: capacity.unwrap_or(1),
            span: Some(name.span(file)),
        });
        self.bind(file, Some(module), &name, Symbol::Table(id));
    }

    /// Whether the values of a table are meters: no type of the program has this name.
    fn is_meter(&self, module: ModuleId, ty: Option<&ast::TypeRef>) -> bool {
        let name = ty.and_then(|ty| ty.name());
        name.is_some_and(|name| name.text() == "meter" && self.resolve(Some(module), "meter").is_none())
    }

    /// The key of an lpm table is a number.
    pub(super) fn check_lpm_key(&mut self, file: FileId, item: &ast::Table, kind: TableKind, key: LayoutId) {
        if kind == TableKind::Lpm
            && let Some(ty) = item.types().next()
            && !matches!(self.pointee(key), Type::Int { signed: false, .. } | Type::Error)
        {
            let span = self.span(file, &ty);
            self.error(
                Diagnostic::new("bad-lpm-key", span, "the key of an lpm table is an unsigned number")
                    .label("not one")
                    .hint("such as ipv4_addr_t or u128"),
            );
        }
    }

    /// The `into` clauses of tables, which may stand in front of the tables that they name.
    pub(super) fn check_into(&mut self) {
        for module in 0..self.modules.len() {
            let (file, item) = (self.modules[module].file, self.modules[module].ast.clone());
            for item in item.items() {
                let ast::ModuleItem::Table(item) = item else { continue };
                if let Some((name, into)) = item.name().zip(item.led_into()) {
                    self.lead_into(file, ModuleId(module), &name, &into);
                }
            }
        }
    }

    fn lead_into(&mut self, file: FileId, module: ModuleId, name: &ast::Name, into: &ast::Name) {
        let target = match self.meant(file, Some(module), into) {
            Some(Symbol::Table(target)) => target,
            found => return self.unknown(file, into, "table", found),
        };
        let Some(Symbol::Table(id)) = self.resolve(Some(module), name.text()) else { return };
        let [value, key] = {
            let [table, target] = [id, target].map(|id| &self.hir.tables[id.0 as usize]);
            let has_keys = target.kind_row().led_into && table.idle.is_none() && !table.is_set;
            [table.value, target.key].map(|layout| has_keys.then(|| self.pointee(layout)))
        };
        let number = |ty| matches!(ty, Some(Type::Int { signed: false, .. }));
        if !number(value) || !number(key) {
            return self.error(
                Diagnostic::new("bad-into", into.span(file), "these values are no keys of that table")
                    .label("needs to be an array or hash table, whose keys are numbers")
                    .also(name.span(file), "whose values need to be unsigned numbers, which do not age"),
            );
        }
        self.hir.tables[id.0 as usize].into = Some(target);
        for instance in self.modules[module.0].instances.clone() {
            let [id, target] = [id, target].map(|table| self.number_in(instance, table.0, |own| &own.tables));
            self.hir.tables[id as usize].into = Some(TableId(target));
        }
    }

    /// The `idle` clause of a table, in nanoseconds.
    pub(super) fn idle(&mut self, file: FileId, module: ModuleId, kind: &KindRow, item: &ast::Table) -> Option<u64> {
        let expr = item.idle()?;
        let span = self.span(file, &expr);
        if !kind.ages {
            self.error(
                Diagnostic::new("bad-idle", span, "entries of this table do not age")
                    .label("only those of hash tables and sets do"),
            );
            return None;
        }
        let error = Diagnostic::new("bad-idle", span, "this is no time after which an entry may go");
        self.duration(file, module, &expr, error.hint("such as `idle 60s`"))
    }

    /// A constant time in nanoseconds, or the error.
    pub(super) fn duration(
        &mut self,
        file: FileId,
        module: ModuleId,
        expr: &ast::Expr,
        error: Diagnostic,
    ) -> Option<u64> {
        let value = self.evaluate_expr(file, Some(module), expr)?;
        let time = value.bits().and_then(|ns| u64::try_from(ns).ok()).filter(|ns| TIMES.contains(ns));
        if time.is_none() {
            self.error(error.label("must be from 1ms to 8760h"));
        }
        time
    }

    pub(super) fn entry_layout(&mut self, file: FileId, module: ModuleId, ty: &ast::TypeRef) -> Option<LayoutId> {
        match self.type_of(file, Some(module), ty, false) {
            resolved @ (Type::Int { .. } | Type::Bool | Type::Reason | Type::Struct(_)) => {
                let name = ty.name().map(|n| self.written_name(Some(module), n.text())).unwrap_or_default();
                Some(self.layout(&name, resolved))
            }
            Type::Error => None,
            other => {
                let (span, other) = (self.span(file, ty), self.describe(other));
                self.error(
                    Diagnostic::new("bad-entry-type", span, format!("a table can't hold `{other}`"))
                        .label("not an integer type, bool or struct"),
                );
                None
            }
        }
    }

    fn counter(&mut self, file: FileId, module: ModuleId, item: &ast::Counter) {
        let Some(name) = item.name() else { return };
        let size = match item.size() {
            Some(size) => self.size(file, Some(module), &size, "the size of a counter", (1, MAX_CAPACITY)).unwrap_or(1),
            None => 1,
        };
        let id = CounterId(self.hir.counters.len() as u32);
        self.hir.counters.push(Counter { name: self.full_name(module, name.text()), size });
        self.bind(file, Some(module), &name, Symbol::Counter(id));
    }

    /// Checks what PPFs and functions take and return, and joins PPFs to the channels they read.
    pub(super) fn check_signatures(&mut self) {
        for index in 0..self.functions.len() {
            self.function_signature(index);
        }
        self.check_overloads();
        for index in 0..self.externs.len() {
            self.extern_signature(index);
        }
        for index in 0..self.ppfs.len() {
            self.ppf_signature(index);
        }
        for module in self.modules.iter().filter(|m| !m.unknown_reader) {
            for port in module.ports.iter().filter(|p| p.kind != ast::PortKind::Out && p.reader.is_none()) {
                self.errors.push(
                    Diagnostic::new("unread-channel", port.span, format!("no PPF takes packets from `{}`", port.name))
                        .label("packets put here would go nowhere")
                        .hint(format!("add a PPF with `from {}`", port.name)),
                );
            }
        }
    }

    fn function_signature(&mut self, index: usize) {
        let def = &self.functions[index];
        let (file, scope, item) = (def.file, def.scope, def.ast.clone());
        let result = item.ty().map_or(Type::Error, |ty| self.type_of(file, scope, &ty, item.star().is_some()));
        let result = match result {
            Type::Packet(_) | Type::Pointer(_) => {
                let span = self.span(file, &item.ty().expect("it has a type"));
                self.error(
                    Diagnostic::new("bad-result", span, "a function can't return this")
                        .label("a handle or pointer stays where it was made")
                        .hint("return a number, bool or struct"),
                );
                Type::Error
            }
            other => other,
        };
        let mut params = Vec::new();
        for param in item.params() {
            let (Some(ty), Some(name)) = (param.ty(), param.name()) else { continue };
            let mut resolved = self.type_of(file, scope, &ty, param.star().is_some());
            if matches!(resolved, Type::Pointer(_) | Type::Void) {
                let span = self.span(file, &param);
                self.error(
                    Diagnostic::new("bad-parameter", span, "a function can't take this")
                        .label("not a number, bool, struct or packet")
                        .hint("pass the value instead of a pointer to it"),
                );
                resolved = Type::Error;
            }
            params.push(Local { name: name.text().to_string(), ty: resolved, span: name.span(file) });
        }
        (self.functions[index].result, self.functions[index].params) = (result, params);
    }

    fn ppf_signature(&mut self, index: usize) {
        let def = &self.ppfs[index];
        let (file, module, name, span) = (def.file, def.module, def.name.clone(), def.span);
        let (from, param) = (def.from.clone(), def.param.clone());
        if def.body.is_none() {
            self.error(
                Diagnostic::new("missing-body", span, format!("the PPF `{name}` has no body"))
                    .label("declared here")
                    .hint(format!("write `{}.{name}.ppf(…) {{ … }}`", self.modules[module.0].name)),
            );
        }
        if let Some(param) = param {
            let ty = param.ty().map(|ty| self.type_of(file, Some(module), &ty, param.star().is_some()));
            match ty {
                Some(Type::Packet(protocol)) => self.ppfs[index].protocol = Some(protocol),
                Some(Type::Error) | None => {}
                Some(_) => {
                    let span = self.span(file, &param);
                    self.error(
                        Diagnostic::new("bad-ppf-parameter", span, "a PPF takes one packet handle")
                            .label("not a handle")
                            .hint("such as `ether_packet_t *pkt`"),
                    );
                }
            }
        }
        let Some(from) = from else { return };
        let port = match self.meant(file, Some(module), &from) {
            Some(Symbol::Port(port)) => port,
            found => {
                self.modules[module.0].unknown_reader = true;
                return self.unknown(file, &from, "channel", found);
            }
        };
        let port_info = &self.modules[module.0].ports[port];
        if port_info.kind == ast::PortKind::Out {
            let declared = port_info.span;
            return self.error(
                Diagnostic::new("reads-output", from.span(file), format!("`{}` leads out of the module", from.text()))
                    .label("a PPF can't take packets from it")
                    .also(declared, "declared here"),
            );
        }
        if let Some(first) = port_info.reader {
            let first = self.ppfs[first.0 as usize].span;
            return self.error(
                Diagnostic::new("two-readers", span, format!("two PPFs take packets from `{}`", from.text()))
                    .label("the second one")
                    .also(first, "the first one"),
            );
        }
        let (wanted, given) = (port_info.protocol, self.ppfs[index].protocol);
        let channel = port_info.channel;
        if let (Some(wanted), Some(given)) = (wanted, given)
            && wanted != given
        {
            let declared = port_info.span;
            let names = [given, wanted].map(|p| self.hir.protocols[p.0 as usize].name.clone());
            self.error(
                Diagnostic::new(
                    "protocol-mismatch",
                    from.span(file),
                    format!("the PPF takes {} packets, but the channel carries {}", names[0], names[1]),
                )
                .label(format!("carries {}", names[1]))
                .also(declared, "declared here"),
            );
        }
        let ppf = PpfId(index as u32);
        self.modules[module.0].ports[port].reader = Some(ppf);
        if let Some(channel) = channel {
            self.hir.channels[channel.0 as usize].target = Target::Ppf(ppf);
        }
    }
}

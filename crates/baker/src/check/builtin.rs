//! Calls: the language's own functions, and the program's.

use super::access::Cell;
use super::code::CodeChecker;
use super::expr::Typed;
use super::hints::{article, import_of, nearest};
use super::hir::{Expr, ExprKind, Stmt, StmtKind, Type};
use super::names::Symbol;
use super::types::unsigned;
use crate::builtin::{self, Function, Returns};
use crate::diag::Diagnostic;
use crate::ir::{ChannelId, DropId, ProtocolId, TableId};
use crate::source::Span;
use crate::syntax::ast;

impl CodeChecker<'_, '_> {
    /// A call whose value is used.
    pub(super) fn call(&mut self, call: &ast::CallExpr, wanted: Option<Type>, span: Span) -> Typed {
        let callee = match call.callee() {
            Some(ast::Expr::Name(callee)) => callee,
            Some(ast::Expr::Member(callee)) if !callee.is_arrow() => return self.call_elsewhere(call, &callee, span),
            _ => {
                self.error(
                    Diagnostic::new("bad-call", span, "only a function can be called")
                        .label("not the name of a function"),
                );
                return Typed::error(span);
            }
        };
        let Some(name) = callee.name() else { return Typed::error(span) };
        let args: Vec<_> = call.args().collect();
        if self.constant {
            return self.not_constant(span);
        }
        let Some(builtin) = builtin::find(name.text()) else {
            return self.function_call(self.checker.resolve(self.scope, name.text()), &name, &args, span);
        };
        if builtin.returns == Returns::Nothing {
            self.error(
                Diagnostic::new("no-result", span, format!("`{}` has no value", name.text()))
                    .label("stands where a value is needed")
                    .hint("write it as a statement of its own"),
            );
            return Typed::error(span);
        }
        // How many arguments others take depends on their first one.
        let (least, most) = builtin.arguments;
        if least == most && !self.arity(&name, args.len(), least, span) {
            return Typed::error(span);
        }
        let function = builtin.function;
        match function {
            Function::PacketCopy => self.packet(&name, &args, span, ExprKind::Copy, None),
            Function::PacketEncap => self.packet(&name, &args, span, ExprKind::Encap, Some(wanted)),
            Function::PacketReplace => self.packet(&name, &args, span, ExprKind::Replace, Some(wanted)),
            Function::PacketDecap | Function::PacketPeek => self.inner_packet(function, &name, &args, wanted, span),
            Function::PacketCreate => self.packet_create(&name, wanted, span),
            Function::PacketLoad => self.packet_load(&args, wanted, span),
            Function::PacketStore => self.packet_store(&args, span),
            Function::PacketTrimHead
            | Function::PacketTrimTail
            | Function::PacketGrowHead
            | Function::PacketGrowTail => self.packet_resize(function, &args, span),
            Function::ChecksumOk | Function::ChecksumSet | Function::ChecksumPayload => {
                self.checksum_sum(function, &name, &args, span)
            }
            Function::ChecksumAdjust => self.checksum_adjust(&args, span),
            Function::ChecksumNone => self.checksum_none(&args, span),
            Function::PacketLength => match self.handle(&args[0]) {
                Some((local, _)) => Typed::new(ExprKind::Length(local), unsigned(32), span),
                None => Typed::error(span),
            },
            Function::NowNs => Typed::new(ExprKind::Now, unsigned(64), span),
            Function::TableInsert | Function::TableInsertNew => self.table_insert(function, &name, &args, span),
            Function::TableRemove => self.table_remove(&name, &args, span),
            Function::TimerSet => self.timer_set(&args, span),
            Function::TimerCancel => self.timer_cancel(&args, span),
            Function::MeterTake => self.meter_take(&args, span),
            Function::PortMtu => self.port_mtu(&args, span),
            Function::HoldGet => self.hold_get(&args, span),
            Function::GroupMember => self.group_member(&args, span),
            Function::ChannelPut
            | Function::ChannelPutAt
            | Function::ChannelPutAll
            | Function::PacketDrop
            | Function::PacketEnd
            | Function::PacketRequire
            | Function::HoldPut
            | Function::Fence
            | Function::CounterAdd => {
                unreachable!("they have no value, as their rows say")
            }
        }
    }

    fn table_insert(&mut self, function: Function, name: &ast::Name, args: &[ast::Expr], span: Span) -> Typed {
        // A member of a set has no value.
        let is_set = args.first().and_then(|table| self.named(table)).is_some_and(|symbol| self.is_set(symbol));
        let count = if is_set { 2 } else { 3 };
        let Some((table, key)) = self.table_args(name, args, count, span) else { return Typed::error(span) };
        let value = match args.get(2) {
            Some(value) => self.expr(value, None),
            None => Typed::new(ExprKind::Const(1), Type::Bool, span),
        };
        let new = function == Function::TableInsertNew;
        if new && !self.checker.hir.tables[table.0 as usize].kind_row().removes {
            return self.wrong_table(&args[0], "only hash tables and sets take new entries");
        }
        self.insert(table, key, (value, new), span)
    }

    fn table_remove(&mut self, name: &ast::Name, args: &[ast::Expr], span: Span) -> Typed {
        if let Some(Symbol::Meter(table)) = args.first().and_then(|table| self.named(table))
            && self.checker.hir.tables[table.0 as usize].kind_row().removes
            && self.arity(name, args.len(), 2, span)
        {
            return match self.table_key(table, &args[1]) {
                Some(key) => Typed::new(ExprKind::Remove(table, vec![key]), Type::Bool, span),
                None => Typed::error(span),
            };
        }
        let Some((table, key)) = self.table_args(name, args, 2, span) else { return Typed::error(span) };
        if !self.checker.hir.tables[table.0 as usize].kind_row().removes {
            return self.wrong_table(&args[0], "entries are removed from hash tables only");
        }
        Typed::new(ExprKind::Remove(table, vec![key]), Type::Bool, span)
    }

    pub(super) fn arity(&mut self, name: &ast::Name, given: usize, wanted: usize, span: Span) -> bool {
        if given != wanted {
            self.error(
                Diagnostic::new(
                    "wrong-arguments",
                    span,
                    format!("`{}` takes {wanted} argument{}", name.text(), if wanted == 1 { "" } else { "s" }),
                )
                .label(format!("{given} given")),
            );
        }
        given == wanted
    }

    /// `packet_copy`, `packet_encap` and `packet_replace`. The latter two change the protocol to the one that is
    /// wanted.
    fn packet(
        &mut self,
        name: &ast::Name,
        args: &[ast::Expr],
        span: Span,
        make: impl Fn(super::hir::LocalId) -> ExprKind,
        wanted: Option<Option<Type>>,
    ) -> Typed {
        let Some((local, protocol)) = self.handle(&args[0]) else { return Typed::error(span) };
        let ty = match wanted {
            None => Type::Packet(protocol),
            Some(wanted) => match self.made_packet(name, wanted, span) {
                Some(ty) => ty,
                None => return Typed::error(span),
            },
        };
        Typed::new(make(local), ty, span)
    }

    fn table_args(
        &mut self,
        name: &ast::Name,
        args: &[ast::Expr],
        count: usize,
        span: Span,
    ) -> Option<(TableId, Expr)> {
        if !self.arity(name, args.len(), count, span) {
            return None;
        }
        let Some(Symbol::Table(table)) = self.named(&args[0]) else {
            self.wrong_table(&args[0], "a table is needed here");
            return None;
        };
        let key = self.table_key(table, &args[1])?;
        Some((table, key))
    }

    fn is_set(&self, symbol: Symbol) -> bool {
        matches!(symbol, Symbol::Table(table) if self.checker.hir.tables[table.0 as usize].is_set)
    }

    fn wrong_table(&mut self, expr: &ast::Expr, title: &str) -> Typed {
        let span = self.span(expr);
        self.error(Diagnostic::new("wrong-table", span, title).label("not such a table"));
        Typed::error(span)
    }

    /// `table[key] = value` and `table_insert`, or, where the entry is to be new, `table_insert_new`.
    pub(super) fn insert(&mut self, table: TableId, key: Expr, (value, new): (Typed, bool), span: Span) -> Typed {
        let info = &self.checker.hir.tables[table.0 as usize];
        if !info.kind_row().inserts {
            self.error(
                Diagnostic::new("wrong-table", span, "packets can't add routes to an lpm table")
                    .label("an lpm table is filled by the control plane"),
            );
            return Typed::error(span);
        }
        let ty = self.checker.pointee(info.value);
        let Some(value) = self.coerce(value, ty) else { return Typed::error(span) };
        Typed::new(ExprKind::Insert(table, vec![key], Box::new(value), new), Type::Bool, span)
    }

    pub(super) fn function_call(
        &mut self,
        symbol: Option<Symbol>,
        name: &ast::Name,
        args: &[ast::Expr],
        span: Span,
    ) -> Typed {
        let symbol = match symbol {
            Some(Symbol::Function(first)) => match self.overload(first, name, args, span) {
                Some(id) => Some(Symbol::Function(id)),
                None => return Typed::error(span),
            },
            other => other,
        };
        let (params, result) = match symbol {
            Some(Symbol::Function(id)) => {
                let def = &self.checker.functions[id.0 as usize];
                (def.params.clone(), def.result)
            }
            Some(Symbol::Extern(id)) => {
                let def = &self.checker.externs[id.0 as usize];
                (def.params.clone(), def.result)
            }
            found => {
                self.checker.unknown(self.file, name, "function", found);
                return Typed::error(span);
            }
        };
        let declared = match symbol {
            Some(Symbol::Function(id)) => self.checker.functions[id.0 as usize].span,
            Some(Symbol::Extern(id)) => self.checker.externs[id.0 as usize].span,
            _ => span,
        };
        self.checker.note(name.span(self.file), declared);
        if !self.arity(name, args.len(), params.len(), span) {
            return Typed::error(span);
        }
        let mut values = Vec::new();
        let mut failed = result == Type::Error;
        for (arg, param) in args.iter().zip(&params) {
            if let Type::Packet(wanted) = param.ty {
                match self.handle(arg) {
                    Some((local, given)) if given == wanted => {
                        let span = self.span(arg);
                        values.push(Expr { kind: ExprKind::Local(local), ty: param.ty, span });
                    }
                    Some((_, given)) => {
                        let span = self.span(arg);
                        self.checker.mismatch(span, param.ty, Type::Packet(given));
                        failed = true;
                    }
                    None => failed = true,
                }
                continue;
            }
            let value = self.expr(arg, None);
            match self.coerce(value, param.ty) {
                Some(value) => values.push(value),
                None => failed = true,
            }
        }
        if failed {
            return Typed::error(span);
        }
        let kind = match symbol {
            Some(Symbol::Extern(id)) => ExprKind::Extern(id, values),
            Some(Symbol::Function(id)) => ExprKind::Call(id, values),
            _ => return Typed::error(span),
        };
        Typed::new(kind, result, span)
    }

    /// A call as a statement.
    pub(super) fn call_statement(&mut self, call: &ast::CallExpr, span: Span) -> Option<Stmt> {
        let name = match call.callee() {
            Some(ast::Expr::Name(callee)) => callee.name(),
            _ => None,
        };
        let args: Vec<_> = call.args().collect();
        let builtin = name.as_ref().and_then(|name| builtin::find(name.text()));
        let Some(builtin) = builtin.filter(|builtin| builtin.returns == Returns::Nothing) else {
            let value = self.call(call, None, span);
            if value.is_error() {
                return None;
            }
            if builtin.is_some_and(|builtin| builtin.returns == Returns::Checked) {
                self.result_unused(name.as_ref()?, span);
                return None;
            }
            return Some(Stmt { kind: StmtKind::Expr(value.expr), span });
        };
        if !self.arity(name.as_ref()?, args.len(), builtin.arguments.0, span) {
            return None;
        }
        let kind = match builtin.function {
            Function::ChannelPut => self.channel_put(&args)?,
            Function::ChannelPutAt => self.channel_put_at(&args)?,
            Function::ChannelPutAll => self.channel_put_all(&args)?,
            Function::PacketDrop => self.packet_drop(&args)?,
            Function::PacketEnd => self.packet_end(&args)?,
            Function::PacketRequire => self.packet_require(&args)?,
            Function::Fence => StmtKind::Fence,
            Function::CounterAdd => self.counter_add(&args)?,
            Function::HoldPut => self.hold_put(&args)?,
            _ => unreachable!("the others have a value, as their rows say"),
        };
        Some(Stmt { kind, span })
    }

    pub(super) fn channel_put(&mut self, args: &[ast::Expr]) -> Option<StmtKind> {
        let Some((channel, protocol)) = self.channel(&args[0]) else {
            self.expr(&args[1], Some(Type::Error));
            return None;
        };
        let packet = self.expr(&args[1], Some(Type::Packet(protocol)));
        let at = packet.expr.span;
        match packet.expr.ty {
            Type::Packet(given) if given == protocol => Some(StmtKind::Put(channel, packet.expr)),
            Type::Packet(given) => {
                let [given, wanted] = [given, protocol].map(|p| self.checker.hir.protocols[p.0 as usize].name.clone());
                self.error(
                    Diagnostic::new("protocol-mismatch", at, format!("the channel carries {wanted} packets"))
                        .label(format!("this is {} {given} packet", article(&given)))
                        .hint("use packet_decap or packet_encap first"),
                );
                None
            }
            Type::Error => None,
            other => {
                self.checker.mismatch(at, Type::Packet(protocol), other);
                None
            }
        }
    }

    fn channel(&mut self, expr: &ast::Expr) -> Option<(ChannelId, ProtocolId)> {
        let span = self.span(expr);
        let module = self.scope;
        match (self.named(expr), module, expr) {
            (Some(Symbol::Port(index)), Some(module), ast::Expr::Name(_)) => {
                let port = &self.checker.modules[module.0].ports[index];
                let (declared, name) = (port.span, port.name.clone());
                match (port.channel, port.protocol) {
                    (Some(channel), Some(protocol)) => return Some((channel, protocol)),
                    (None, _) => self.error(
                        Diagnostic::new("wrong-direction", span, format!("`{name}` leads into the module"))
                            .label("packets can't be put there")
                            .also(declared, "declared here"),
                    ),
                    _ => {}
                }
            }
            (None, _, ast::Expr::Name(name)) if name.name().is_some_and(|n| self.local(n.text()).is_none()) => {
                let text = self.checker_text(expr);
                let error = Diagnostic::new("unknown-name", span, format!("there is no channel `{text}`"))
                    .label("not declared in this module");
                let ports = module.map(|m| &self.checker.modules[m.0].ports[..]).unwrap_or_default();
                let puts = ports.iter().filter(|p| p.channel.is_some()).map(|p| p.name.as_str());
                let hint = nearest(&text, puts).map(|near| format!("did you mean `{near}`?"));
                self.checker.report_once(Diagnostic { hint, ..error });
            }
            _ => {
                let error = Diagnostic::new("not-a-channel", span, "this is not a channel of the module")
                    .label("a channel is needed here");
                self.error(self.with_hidden(error, expr));
            }
        }
        None
    }

    fn checker_text(&self, expr: &ast::Expr) -> String {
        use crate::syntax::ast::AstNode;
        expr.syntax().text().to_string().trim().to_string()
    }

    fn packet_drop(&mut self, args: &[ast::Expr]) -> Option<StmtKind> {
        let packet = self.expr(&args[0], None);
        let reason = self.drop_reason(&args[1]);
        match packet.expr.ty {
            Type::Packet(_) => Some(StmtKind::Drop(packet.expr, reason?)),
            _ => {
                self.not_a_handle(&packet);
                None
            }
        }
    }

    fn packet_end(&mut self, args: &[ast::Expr]) -> Option<StmtKind> {
        let packet = self.expr(&args[0], None);
        if !matches!(packet.expr.ty, Type::Packet(_)) {
            self.not_a_handle(&packet);
            return None;
        }
        let ended = self.checker.hir.reasons[DropId::ENDED.0 as usize].value();
        let reason = Expr { kind: ExprKind::Const(ended.into()), ty: Type::Reason, span: packet.expr.span };
        Some(StmtKind::Drop(packet.expr, reason))
    }

    fn packet_require(&mut self, args: &[ast::Expr]) -> Option<StmtKind> {
        let condition = self.expr(&args[0], None);
        let condition = self.condition(condition);
        let reason = self.drop_reason(&args[1]);
        Some(StmtKind::Require(condition?, reason?))
    }

    /// The reason of a drop: its name, or an expression.
    fn drop_reason(&mut self, expr: &ast::Expr) -> Option<Expr> {
        let (span, text) = (self.span(expr), self.checker_text(expr));
        let error = match self.named(expr) {
            Some(symbol) if !matches!(symbol, Symbol::Reason(_)) => {
                let title = format!("`{text}` is {}, not a drop reason", symbol.what());
                Diagnostic::new("wrong-kind-of-name", span, title)
            }
            None if matches!(expr, ast::Expr::Name(_)) && self.local(&text).is_none() => {
                let error = Diagnostic::new("unknown-reason", span, format!("there is no drop reason `{text}`"));
                let near = nearest(&text, self.checker.hir.reasons.iter().map(|reason| reason.name.as_str()));
                let hint = import_of(&text).or(near.map(|near| format!("did you mean `{near}`?")));
                error.hint(hint.unwrap_or_else(|| format!("declare it: `drop_reason {text};`")))
            }
            _ => {
                let reason = self.expr(expr, None);
                return self.coerce(reason, Type::Reason);
            }
        };
        self.checker.report_once(error.label("a drop reason is needed here"));
        None
    }

    /// `counter_add(counter, n)` or `counter_add(counter[i], n)`.
    fn counter_add(&mut self, args: &[ast::Expr]) -> Option<StmtKind> {
        let Cell { base, index, span: at } = self.cell(&args[0])?;
        let Some(Symbol::Counter(counter)) = self.named(&base) else {
            let error = Diagnostic::new("not-a-counter", at, "a counter is needed here").label("not a counter");
            self.error(self.with_hidden(error, &base));
            return None;
        };
        let size = self.checker.hir.counters[counter.0 as usize].size;
        let index = self.cell_index("counter", size, index, at);
        let amount = self.expr(&args[1], None);
        let amount = self.coerce(amount, unsigned(64));
        Some(StmtKind::Count(counter, index?, amount?))
    }
}

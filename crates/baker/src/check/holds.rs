//! Hold tables: packets that are kept, by number.

use super::code::CodeChecker;
use super::expr::Typed;
use super::hints::article;
use super::hir::{Expr, ExprKind, StmtKind, Type};
use super::names::{Checker, ModuleId, Symbol};
use super::types::unsigned;
use crate::diag::Diagnostic;
use crate::ir::{Hold, ProtocolId, Table, TableId, TableKind};
use crate::source::{FileId, Span};
use crate::syntax::ast;

/// Places of a hold table at most, and packets in it.
const MAX_PLACES: u32 = 1 << 20;

impl Checker<'_> {
    /// `hold<protocol> name[places] of packets;`
    pub(super) fn hold(&mut self, file: FileId, module: ModuleId, item: &ast::Table, name: &ast::Name) {
        let types: Vec<_> = item.types().collect();
        let protocol = match &types[..] {
            [ty] => ty.name().and_then(|ty| match self.meant(file, None, &ty) {
                Some(Symbol::Protocol(id)) => Some(id),
                found => {
                    self.unknown(file, &ty, "protocol", found);
                    None
                }
            }),
            _ => {
                self.error(
                    Diagnostic::new("table-types", name.span(file), "this table has the wrong number of types")
                        .label(format!("{} given, 1 needed", types.len()))
                        .hint("write `hold<PROTOCOL> NAME[PLACES] of PACKETS;`"),
                );
                None
            }
        };
        let mut number = |expr: Option<ast::Expr>, what: &str| {
            expr.and_then(|expr| self.size(file, Some(module), &expr, what, (1, MAX_PLACES)))
        };
        let places = number(item.size(), "the size of a hold table");
        let packets = number(item.most(), "the packets of a hold table");
        if item.most().is_none() {
            self.error(
                Diagnostic::new("hold-without-of", name.span(file), "how many packets may this table hold?")
                    .label("the frames that they take are set aside")
                    .hint(format!("write `{}[PLACES] of PACKETS`", name.text())),
            );
        }
        for other in [item.idle().map(|idle| self.span(file, &idle)), item.led_into().map(|into| into.span(file))] {
            self.errors.extend(other.map(|span| {
                Diagnostic::new("bad-hold", span, "a hold table neither ages nor leads into another one")
                    .label("not for packets")
            }));
        }
        let unused = self.layout("u32", unsigned(32));
        let id = TableId(self.hir.tables.len() as u32);
        self.hir.tables.push(Table {
            name: self.full_name(module, name.text()),
            kind: TableKind::Array,
            is_set: false,
            idle: None,
            meter: None,
            group: None,
            hold: Some(Hold { protocol: protocol.unwrap_or(ProtocolId(0)), packets: packets.unwrap_or(1) }),
            locked: false,
            into: None,
            key: unused,
            value: unused,
            capacity: places.unwrap_or(1),
            span: Some(name.span(file)),
        });
        self.bind(file, Some(module), name, Symbol::Hold(id));
    }
}

impl CodeChecker<'_, '_> {
    /// A hold table and a number.
    fn held(&mut self, args: &[ast::Expr]) -> Option<(TableId, ProtocolId, Expr)> {
        let Some(Symbol::Hold(table)) = self.named(&args[0]) else {
            let span = self.span(&args[0]);
            self.error(Diagnostic::new("not-a-hold", span, "a hold table is needed here").label("not a hold table"));
            return None;
        };
        let key = self.expr(&args[1], None);
        let key = self.coerce(key, unsigned(64))?;
        let hold = self.checker.hir.tables[table.0 as usize].hold?;
        Some((table, hold.protocol, key))
    }

    /// `hold_get(table, number)`
    pub(super) fn hold_get(&mut self, args: &[ast::Expr], span: Span) -> Typed {
        match self.held(args) {
            Some((table, protocol, key)) => {
                Typed::new(ExprKind::HoldGet(table, Box::new(key)), Type::Packet(protocol), span)
            }
            None => Typed::error(span),
        }
    }

    /// `hold_put(table, number, pkt)`
    pub(super) fn hold_put(&mut self, args: &[ast::Expr]) -> Option<StmtKind> {
        let held = self.held(args);
        let wanted = held.as_ref().map(|(_, protocol, _)| Type::Packet(*protocol));
        let packet = self.expr(&args[2], wanted.or(Some(Type::Error)));
        let (table, protocol, key) = held?;
        match packet.expr.ty {
            Type::Packet(given) if given == protocol => Some(StmtKind::HoldPut(table, key, packet.expr)),
            Type::Packet(given) => {
                let [given, wanted] = [given, protocol].map(|p| self.checker.hir.protocols[p.0 as usize].name.clone());
                self.error(
                    Diagnostic::new("protocol-mismatch", packet.expr.span, format!("the table holds {wanted} packets"))
                        .label(format!("this is {} {given} packet", article(&given)))
                        .hint("use packet_decap or packet_encap first"),
                );
                None
            }
            Type::Error => None,
            other => {
                self.checker.mismatch(packet.expr.span, Type::Packet(protocol), other);
                None
            }
        }
    }
}

//! What programs may ask of ports: kept as a table of the language's own, which the data plane fills.

use super::code::CodeChecker;
use super::expr::Typed;
use super::hir::ExprKind;
use super::names::Checker;
use super::types::unsigned;
use crate::ir::{PORT_MTU, PORT_MTU_TYPE, PORTS, Table, TableId, TableKind};
use crate::source::Span;
use crate::syntax::ast;

impl Checker<'_> {
    /// The table of the ports' MTUs. It is there where a program asks for one.
    fn port_mtus(&mut self) -> TableId {
        let tables = &self.hir.tables;
        let id = tables.iter().position(|table| table.name == PORT_MTU).unwrap_or(tables.len());
        if id == tables.len() {
            let layout = self.layout("u32", unsigned(32));
            // A layout of its own, so that entries of this table are known from others.
            let value = self.layout(PORT_MTU_TYPE, unsigned(32));
            self.hir.tables.push(Table {
                name: PORT_MTU.into(),
                kind: TableKind::Array,
                is_set: false,
                idle: None,
                meter: None,
                hold: None,
                group: None,
                locked: false,
                into: None,
                key: layout,
                value,
                capacity: PORTS,
                span: None,
            });
        }
        TableId(id as u32)
    }
}

impl CodeChecker<'_, '_> {
    /// `port_mtu(port)`
    pub(super) fn port_mtu(&mut self, args: &[ast::Expr], span: Span) -> Typed {
        let port = self.expr(&args[0], None);
        let Some(port) = self.coerce(port, unsigned(32)) else { return Typed::error(span) };
        let mtus = self.checker.port_mtus();
        Typed::new(ExprKind::ArrayValue(mtus, Box::new(port)), unsigned(32), span)
    }
}

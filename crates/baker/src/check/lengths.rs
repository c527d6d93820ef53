//! How far what a header holds reaches: a `length` clause, or a field that the compiler keeps.

use super::arith::convert;
use super::hir::{Counts, Expr, ExprKind, LocalId};
use super::names::Checker;
use super::protocols::not_arithmetic;
use super::types::unsigned;
use crate::diag::Diagnostic;
use crate::ir::{BinOp, BitRange, ProtocolId};
use crate::source::FileId;
use crate::syntax::ast;

/// Bits of a declared length at most.
const MAX_WIDTH: u32 = 32;

impl Checker<'_> {
    /// Whether a declared length counts the fixed header, too.
    pub(super) fn counts_header(&mut self, file: FileId, counts: &ast::Counts, bits: BitRange) -> Option<bool> {
        let names: Vec<_> = counts.names().collect();
        if let Some(bad) = names.iter().find(|name| !["header", "payload"].contains(&name.text())) {
            self.error(
                Diagnostic::new("bad-counts", bad.span(file), format!("a length can't count `{}`", bad.text()))
                    .label("not a part of a packet that has a length")
                    .hint("write `counts { header, payload }` or `counts { payload }`"),
            );
            return None;
        }
        if !names.is_empty() && !names.iter().any(|name| name.text() == "payload") {
            self.error(
                Diagnostic::new("bad-counts", self.span(file, counts), "a length reaches to the end of the payload")
                    .label("`payload` is missing")
                    .hint("a header's own length is its demux: `demux { ihl << 2 };`"),
            );
            return None;
        }
        if bits.width > MAX_WIDTH {
            self.error(
                Diagnostic::new("bad-counts", self.span(file, counts), "a length has 32 bits at most")
                    .label(format!("of a field of {} bits", bits.width)),
            );
            return None;
        }
        (!names.is_empty()).then(|| names.iter().any(|name| name.text() == "header"))
    }

    /// Bytes from the header to the end of what it holds.
    pub(super) fn length(&mut self, file: FileId, item: &ast::Protocol, protocol: ProtocolId) -> Option<Expr> {
        let name = item.name().expect("declared with a name").span(file);
        let clauses: Vec<_> = item.lengths().collect();
        if let Some(counts) = self.hir.counts[protocol.0 as usize] {
            if let Some(clause) = clauses.first() {
                let error = Diagnostic::new("duplicate-length", self.span(file, clause), "a protocol has one length");
                self.error(error.label("the second one").also(counts.span, "the first one: what a field counts"));
            }
            return Some(self.counted(counts, protocol));
        }
        let size = clauses.first()?.size()?;
        if let Some(second) = clauses.get(1) {
            let span = self.span(file, second);
            self.error(
                Diagnostic::new("duplicate-length", span, "a protocol has one length")
                    .label("the second one")
                    .also(self.span(file, &clauses[0]), "the first one"),
            );
        }
        let bytes = self.header_bytes(file, &size, protocol, name)?;
        if let Some(bad) = not_arithmetic(&bytes) {
            self.error(
                Diagnostic::new("bad-length", bad, "the length of what a header holds is computed from its fields")
                    .label("neither a field nor a constant")
                    .hint("such as `length { total_length };`"),
            );
        }
        self.not_by_checksum("bad-length", &bytes, protocol);
        Some(bytes)
    }

    /// Where the field of a declared length says that what the header holds ends.
    fn counted(&self, counts: Counts, protocol: ProtocolId) -> Expr {
        let span = counts.span;
        let width = self.hir.protocols[protocol.0 as usize].fields[counts.field as usize].bits.width;
        let field = Expr { kind: ExprKind::Field(LocalId(0), counts.field), ty: unsigned(width), span };
        let field = convert(field, unsigned(32));
        match counts.but {
            0 => field,
            but => {
                let but = Expr { kind: ExprKind::Const(but.into()), ty: unsigned(32), span };
                let kind = ExprKind::Binary(BinOp::Add, Box::new(field), Box::new(but));
                Expr { kind, ty: unsigned(32), span }
            }
        }
    }
}

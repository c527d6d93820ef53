//! The language's functions that look into packets, make them, or change their length and checksums.

use super::code::CodeChecker;
use super::expr::Typed;
use super::hir::{Expr, ExprKind, Type};
use super::types::unsigned;
use crate::builtin::Function;
use crate::diag::Diagnostic;
use crate::ir::{Checksum, ProtocolId};
use crate::source::Span;
use crate::syntax::ast;

impl CodeChecker<'_, '_> {
    /// The type of the packet that a function makes, where the place that takes it says so.
    pub(super) fn made_packet(&mut self, name: &ast::Name, wanted: Option<Type>, span: Span) -> Option<Type> {
        match wanted {
            Some(ty @ Type::Packet(_)) => return Some(ty),
            Some(Type::Error) => {}
            _ => self.error(
                Diagnostic::new("unknown-target", span, format!("it is not clear what `{}` makes", name.text()))
                    .label("of which protocol?")
                    .hint(format!("give the packet a name: `ipv4_packet_t *ip = {}(…);`", name.text())),
            ),
        }
        None
    }

    /// `packet_decap` and `packet_peek`, with the header's length or without.
    pub(super) fn inner_packet(
        &mut self,
        function: Function,
        name: &ast::Name,
        args: &[ast::Expr],
        wanted: Option<Type>,
        span: Span,
    ) -> Typed {
        if args.len() != 2 && !self.arity(name, args.len(), 1, span) {
            return Typed::error(span);
        }
        let bytes = match args.get(1) {
            Some(bytes) => match self.number(bytes, 32) {
                Some(bytes) => Some(Box::new(bytes)),
                None => return Typed::error(span),
            },
            None => None,
        };
        let Some((local, _)) = self.handle(&args[0]) else { return Typed::error(span) };
        let Some(ty) = self.made_packet(name, wanted, span) else { return Typed::error(span) };
        let kind = match function {
            Function::PacketDecap => ExprKind::Decap(local, bytes),
            _ => ExprKind::Peek(local, bytes),
        };
        Typed::new(kind, ty, span)
    }

    pub(super) fn packet_create(&mut self, name: &ast::Name, wanted: Option<Type>, span: Span) -> Typed {
        match self.made_packet(name, wanted, span) {
            Some(ty) => Typed::new(ExprKind::Create, ty, span),
            None => Typed::error(span),
        }
    }

    /// `packet_load(packet, offset)`: as many bytes as the variable's type has.
    pub(super) fn packet_load(&mut self, args: &[ast::Expr], wanted: Option<Type>, span: Span) -> Typed {
        let (handle, offset) = (self.handle(&args[0]), self.number(&args[1], 32));
        let Some(((local, _), offset)) = handle.zip(offset) else { return Typed::error(span) };
        let pointee = match wanted {
            Some(Type::Pointer(layout)) => self.checker.pointee(layout),
            Some(Type::Loaded { width, signed }) => Type::Int { width, signed },
            Some(Type::Error) => return Typed::error(span),
            _ => {
                self.error(
                    Diagnostic::new("unknown-target", span, "it is not clear how many bytes are loaded")
                        .label("of which type?")
                        .hint("declare a variable: `u32 *word = packet_load(packet, offset);`"),
                );
                return Typed::error(span);
            }
        };
        let Some((width, signed)) = self.whole_bytes(pointee, span) else { return Typed::error(span) };
        Typed::new(ExprKind::Packet(Function::PacketLoad, local, vec![offset]), Type::Loaded { width, signed }, span)
    }

    pub(super) fn packet_store(&mut self, args: &[ast::Expr], span: Span) -> Typed {
        let (handle, offset) = (self.handle(&args[0]), self.number(&args[1], 32));
        let value = self.expr(&args[2], None);
        let Some(((local, _), offset)) = handle.zip(offset) else { return Typed::error(span) };
        if value.is_error() || !self.has_type(&value) || self.whole_bytes(value.expr.ty, value.expr.span).is_none() {
            return Typed::error(span);
        }
        Typed::new(ExprKind::Packet(Function::PacketStore, local, vec![offset, value.expr]), Type::Bool, span)
    }

    /// Whether a number's width is known; reports it where it is not.
    fn has_type(&mut self, value: &Typed) -> bool {
        if value.lit.is_some() {
            self.error(
                Diagnostic::new("untyped-number", value.expr.span, "the type of this number is not known here")
                    .label("how many bytes?")
                    .hint("give it a type: `(u16) 1`"),
            );
        }
        value.lit.is_none()
    }

    /// Width and sign of a number of 1 to 16 bytes.
    fn whole_bytes(&mut self, ty: Type, at: Span) -> Option<(u32, bool)> {
        if let Type::Int { width, signed } = ty
            && width.is_multiple_of(8)
        {
            return Some((width, signed));
        }
        let found = self.checker.describe(ty);
        self.error(
            Diagnostic::new("partial-byte", at, "only whole bytes are loaded and stored here")
                .label(format!("`{found}` is no number of 8, 16, … 128 bits"))
                .hint("load the bytes around it, then shift and mask"),
        );
        None
    }

    /// `packet_trim_head`, `packet_trim_tail`, `packet_grow_head`, `packet_grow_tail`.
    pub(super) fn packet_resize(&mut self, call: Function, args: &[ast::Expr], span: Span) -> Typed {
        let (handle, bytes) = (self.handle(&args[0]), self.number(&args[1], 32));
        let Some(((local, _), bytes)) = handle.zip(bytes) else { return Typed::error(span) };
        Typed::new(ExprKind::Packet(call, local, vec![bytes]), Type::Bool, span)
    }

    /// `checksum_ok`, `checksum_set` and `checksum_payload`. Where the checksum covers a pseudo header, its sum is the
    /// second argument. The last one, the payload's sum or a number of bytes, may be missing.
    pub(super) fn checksum_sum(&mut self, call: Function, name: &ast::Name, args: &[ast::Expr], span: Span) -> Typed {
        let ty = match call {
            Function::ChecksumOk => Type::Bool,
            Function::ChecksumPayload => unsigned(16),
            _ => Type::Void,
        };
        let Some(first) = args.first() else {
            self.arity(name, 0, 1, span);
            return Typed::error(span);
        };
        let Some((local, protocol)) = self.handle(first) else { return Typed::error(span) };
        let Some(checksum) = self.declared_checksum(protocol, self.span(first)) else { return Typed::error(span) };
        if call == Function::ChecksumPayload && !checksum.payload {
            let title = format!("the checksum of `{}` does not cover its payload", self.protocol_name(protocol));
            let error = Diagnostic::new("no-payload-checksum", span, title);
            self.error(error.label("says nothing of what is behind the header"));
            return Typed::error(span);
        }
        let least = 1 + usize::from(checksum.pseudo);
        let more = checksum.payload && args.len() == least + 1;
        if !more && !self.arity(name, args.len(), least, span) {
            return Typed::error(span);
        }
        let mut operands = Vec::new();
        for arg in &args[1..] {
            match self.number(arg, 32) {
                Some(sum) => operands.push(sum),
                None => return Typed::error(span),
            }
        }
        Typed::new(ExprKind::Packet(call, local, operands), ty, span)
    }

    /// `checksum_adjust(packet, old, new)`: two values of one type.
    pub(super) fn checksum_adjust(&mut self, args: &[ast::Expr], span: Span) -> Typed {
        let handle = self.handle(&args[0]);
        let (old, new) = (self.expr(&args[1], None), self.expr(&args[2], None));
        let Some((local, protocol)) = handle else { return Typed::error(span) };
        let declared = self.declared_checksum(protocol, self.span(&args[0]));
        if declared.is_none() || old.is_error() || new.is_error() || !self.has_type(&old) {
            return Typed::error(span);
        }
        if !matches!(old.expr.ty, Type::Int { .. }) {
            self.checker.mismatch(old.expr.span, unsigned(32), old.expr.ty);
            return Typed::error(span);
        }
        let Some(new) = self.coerce(new, old.expr.ty) else { return Typed::error(span) };
        Typed::new(ExprKind::Packet(Function::ChecksumAdjust, local, vec![old.expr, new]), Type::Void, span)
    }

    /// `checksum_none(packet)`: of a header whose fields checksums behind it cover.
    pub(super) fn checksum_none(&mut self, args: &[ast::Expr], span: Span) -> Typed {
        let Some((local, protocol)) = self.handle(&args[0]) else { return Typed::error(span) };
        let declared = &self.checker.hir.protocols[protocol.0 as usize];
        if declared.pseudo.is_empty() {
            let title = format!("no checksum behind `{}` covers any of its fields", declared.name);
            let at = self.span(&args[0]);
            self.error(
                Diagnostic::new("no-pseudo-header", at, title)
                    .label("a packet of this protocol")
                    .hint("`checksum_none` is for headers with a `pseudo { … }` clause, such as those of IP"),
            );
            return Typed::error(span);
        }
        Typed::new(ExprKind::Packet(Function::ChecksumNone, local, Vec::new()), Type::Void, span)
    }

    fn protocol_name(&self, protocol: ProtocolId) -> &str {
        &self.checker.hir.protocols[protocol.0 as usize].name
    }

    /// The checksum that the protocol declares; `None`, reported, where it declares none.
    fn declared_checksum(&mut self, protocol: ProtocolId, at: Span) -> Option<Checksum> {
        let checksum = self.checker.hir.protocols[protocol.0 as usize].checksum;
        if checksum.is_none() {
            let title = format!("`{}` declares no checksum", self.protocol_name(protocol));
            self.error(
                Diagnostic::new("no-checksum", at, title)
                    .label("a packet of this protocol")
                    .hint("a checksum field is declared like `checksum : 16 covers { header, payload };`"),
            );
        }
        checksum
    }

    /// An unsigned number of at most `width` bits.
    fn number(&mut self, expr: &ast::Expr, width: u32) -> Option<Expr> {
        let value = self.expr(expr, None);
        self.coerce(value, unsigned(width))
    }

    /// Reports that the answer of a function is thrown away.
    pub(super) fn result_unused(&mut self, name: &ast::Name, span: Span) {
        self.error(
            Diagnostic::new("unused-result", span, format!("`{}` may fail", name.text()))
                .label("its answer is not looked at")
                .hint(format!("test it: `if (!{}(…)) {{ … }}`", name.text())),
        );
    }
}

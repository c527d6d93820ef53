//! Protocols: fields, where they lie, declared checksums, demux; and the metadata.

use std::collections::HashMap;

use super::code::CodeChecker;
use super::consts::MAX_CHAIN;
use super::hints::nearest;
use super::hir::{Counts, Expr, ExprKind, Local, Type};
use super::names::{Checker, Lazy, Symbol};
use super::types::{builtin, unsigned};
use crate::diag::Diagnostic;
use crate::ir::{BitRange, Checksum, DropReason, Field, MetaField, Protocol, ProtocolId, storage_size};
use crate::source::{FileId, Span};
use crate::syntax::ast;

/// Bytes of a fixed header at most.
const MAX_HEADER: u32 = 512;

/// The first part of an expression that is more than arithmetic on constants and header fields.
pub(super) fn not_arithmetic(expr: &Expr) -> Option<Span> {
    match expr.kind {
        ExprKind::Const(_)
        | ExprKind::Field(..)
        | ExprKind::Binary(..)
        | ExprKind::Compare(..)
        | ExprKind::And(..)
        | ExprKind::Or(..)
        | ExprKind::Not(_)
        | ExprKind::Ternary(..)
        | ExprKind::Cast(_) => {}
        _ => return Some(expr.span),
    }
    let mut bad = None;
    expr.for_each_operand(|operand| bad = bad.or_else(|| not_arithmetic(operand)));
    bad
}

impl Checker<'_> {
    /// How many bytes a protocol's fixed header has, also while constants are worked out of which protocols are made.
    pub(super) fn protocol_size(&mut self, id: ProtocolId) -> Option<u32> {
        if let Some(protocol) = self.hir.protocols.get(id.0 as usize) {
            return Some(protocol.size);
        }
        match self.sizes.get(&id) {
            Some(Lazy::Done(size)) => return *size,
            Some(_) => {
                let (file, item) = &self.protocols[id.0 as usize];
                let name = item.name()?;
                let title = format!("the size of `{}` depends on itself", name.text());
                let error = Diagnostic::new("constant-cycle", name.span(*file), title);
                self.report_once(error.label("the width of one of its fields leads back to here"));
                return None;
            }
            None => {}
        }
        let (file, item) = self.protocols[id.0 as usize].clone();
        if self.depth >= MAX_CHAIN {
            self.too_deep(self.span(file, &item));
            return None;
        }
        self.sizes.insert(id, Lazy::Computing);
        self.depth += 1;
        let widths = item.fields().filter_map(|field| field.width());
        let bits = widths.map(|width| Some(self.field_width(file, &width)?.0)).sum::<Option<u32>>();
        self.depth -= 1;
        let size = bits.map(|bits| bits.div_ceil(8));
        self.sizes.insert(id, Lazy::Done(size));
        size
    }

    /// Lays out all protocols. Their demux is checked once all fields are known.
    pub(super) fn check_protocols(&mut self) {
        for (file, protocol) in self.protocols.clone() {
            let checked = self.protocol(file, &protocol);
            self.hir.protocols.push(checked);
        }
    }

    fn protocol(&mut self, file: FileId, item: &ast::Protocol) -> Protocol {
        let name = item.name().expect("declared with a name");
        let mut fields: Vec<Field> = Vec::new();
        let mut seen: HashMap<String, Span> = HashMap::new();
        let mut checksum: Option<Checksum> = None;
        let mut counted: Option<(Counts, bool)> = None;
        let (mut offset, mut failed) = (0, false);
        for field in item.fields() {
            let Some((field_name, width)) = field.name().zip(field.width()) else { continue };
            let span = field_name.span(file);
            let text = field_name.text().to_string();
            if text == "metadata" {
                self.error(
                    Diagnostic::new("reserved-name", span, "`metadata` can't be a field")
                        .label("`->metadata` names the packet's metadata"),
                );
                continue;
            }
            if let Some(first) = seen.insert(text.clone(), span) {
                self.error(
                    Diagnostic::new("duplicate-field", span, format!("the field `{text}` is declared twice"))
                        .label("declared again here")
                        .also(first, "first declared here"),
                );
                continue;
            }
            let Some((width, type_name)) = self.field_width(file, &width) else {
                failed = true;
                continue;
            };
            let bits = BitRange { offset, width };
            offset += width;
            let default = self.field_default(file, &field, width).unwrap_or(0);
            let covers = field.covers();
            let found = covers.and_then(|covers| self.covers(file, &covers, fields.len(), bits, span));
            if found.is_some() && checksum.is_some() {
                self.error(
                    Diagnostic::new("duplicate-checksum", span, "a header has one checksum")
                        .label("the second one that covers this header"),
                );
            }
            checksum = checksum.or(found);
            let found = field.counts().and_then(|counts| self.counts_header(file, &counts, bits));
            if let (Some(_), Some((first, _))) = (found, counted) {
                let error = Diagnostic::new("duplicate-length", span, "a protocol has one length");
                self.error(error.label("the second one").also(first.span, "the first one"));
            }
            counted = counted.or(found.map(|header| (Counts { field: fields.len() as u32, but: 0, span }, header)));
            fields.push(Field { name: text, type_name, bits, default });
        }
        let size = offset.div_ceil(8);
        if !failed && (!offset.is_multiple_of(8) || size > MAX_HEADER || size == 0) {
            let error = match offset {
                0 => Diagnostic::new("empty-protocol", name.span(file), "a protocol has at least one field")
                    .label("has none"),
                _ if size > MAX_HEADER => {
                    Diagnostic::new("header-too-long", name.span(file), "this header is too long")
                        .label(format!("{size} bytes, of at most {MAX_HEADER}"))
                }
                _ => Diagnostic::new("partial-byte", name.span(file), "a header consists of whole bytes")
                    .label(format!("its fields add up to {offset} bits"))
                    .hint(format!("{} bits are missing to the next byte", size * 8 - offset)),
            };
            self.error(error);
        }
        let counts = counted.map(|(counts, header)| Counts { but: if header { 0 } else { size }, ..counts });
        self.hir.counts.push(counts);
        let pseudo = self.pseudo(file, item, &fields);
        Protocol { name: name.text().to_string(), size, fields, checksum, pseudo }
    }

    /// Bits of a field, and the name of its type: a width such as `48`, or a type such as `mac_addr_t`.
    fn field_width(&mut self, file: FileId, width: &ast::Expr) -> Option<(u32, String)> {
        if let ast::Expr::Name(expr) = width
            && let Some(name) = expr.name()
            && (builtin(name.text()).is_some()
                || matches!(self.resolve(None, name.text()), Some(Symbol::Alias(_) | Symbol::Struct(_))))
        {
            return match self.named_type(file, None, &name) {
                Type::Int { width, signed: false } => Some((width, name.text().to_string())),
                Type::Bool => Some((1, name.text().to_string())),
                Type::Error => None,
                _ => {
                    self.error(
                        Diagnostic::new("bad-field-type", name.span(file), "a field is an unsigned number")
                            .label("not an unsigned integer type")
                            .hint("give its width in bits, such as `16`, or a type such as `u16`"),
                    );
                    None
                }
            };
        }
        let width = self.size(file, None, width, "the width of a field in bits", (1, 128))?;
        Some((width, format!("u{width}")))
    }

    fn field_default(&mut self, file: FileId, field: &ast::Field, width: u32) -> Option<u128> {
        let value = field.value()?;
        let mut code = CodeChecker::constant(self, file, None);
        let value = code.expr(&value, None);
        let value = code.coerce(value, unsigned(width))?;
        code.constant_of(value)?.bits()
    }

    /// What the field is a checksum of.
    fn covers(
        &mut self,
        file: FileId,
        covers: &ast::Covers,
        field: usize,
        bits: BitRange,
        span: Span,
    ) -> Option<Checksum> {
        let names: Vec<_> = covers.names().collect();
        let known = ["header", "payload", "pseudo", "optional"];
        if let Some(bad) = names.iter().find(|n| !known.contains(&n.text())) {
            self.error(
                Diagnostic::new("bad-covers", bad.span(file), format!("a checksum can't cover `{}`", bad.text()))
                    .label("not a part of a packet")
                    .hint("write `covers { header }`, `covers { header, payload }` or `covers { pseudo, header, payload }`"),
            );
            return None;
        }
        let covered = |part: &str| names.iter().any(|n| n.text() == part);
        let (payload, pseudo, optional) = (covered("payload"), covered("pseudo"), covered("optional"));
        if !names.is_empty() && (!covered("header") || (pseudo && !payload)) {
            let (missing, why) = match covered("header") {
                false => ("header", "a checksum covers the header that it is in"),
                true => ("payload", "a checksum with a pseudo header covers the payload, too"),
            };
            self.error(
                Diagnostic::new("bad-covers", self.span(file, covers), why).label(format!("`{missing}` is missing")),
            );
            return None;
        }
        if bits.width != 16 || !bits.offset.is_multiple_of(16) {
            self.error(
                Diagnostic::new("bad-checksum", span, "a checksum has 16 bits at an even byte")
                    .label(format!("{} bits at bit {}", bits.width, bits.offset)),
            );
            return None;
        }
        (!names.is_empty()).then_some(Checksum { field, payload, pseudo, optional })
    }

    /// The fields that are parts of a pseudo header.
    fn pseudo(&mut self, file: FileId, item: &ast::Protocol, fields: &[Field]) -> Vec<usize> {
        let mut found = Vec::new();
        for name in item.pseudos().flat_map(|clause| clause.names().collect::<Vec<_>>()) {
            match fields.iter().position(|field| field.name == name.text()) {
                Some(field) => found.push(field),
                None => {
                    let known = fields.iter().map(|field| field.name.as_str());
                    let title = format!("the header has no field `{}`", name.text());
                    let hint = nearest(name.text(), known).map(|near| format!("did you mean `{near}`?"));
                    let error = Diagnostic::new("unknown-field", name.span(file), title).label("not a field");
                    self.error(Diagnostic { hint, ..error });
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Checks the demux and the length of all protocols.
    pub(super) fn check_demux(&mut self) {
        for (index, (file, item)) in self.protocols.clone().into_iter().enumerate() {
            let protocol = ProtocolId(index as u32);
            let demux = self.demux(file, &item, protocol);
            self.hir.demux.push(demux);
            let length = self.length(file, &item, protocol);
            self.hir.length.push(length);
        }
    }

    fn demux(&mut self, file: FileId, item: &ast::Protocol, protocol: ProtocolId) -> Expr {
        let name = item.name().expect("declared with a name").span(file);
        let failed = Expr { kind: ExprKind::Const(0), ty: Type::Error, span: name };
        let clauses: Vec<_> = item.demuxes().collect();
        let Some(size) = clauses.first().and_then(|d| d.size()) else {
            if clauses.is_empty() {
                self.error(
                    Diagnostic::new("missing-demux", name, "a protocol says how long its header is")
                        .label("has no demux")
                        .hint("add `demux { BYTES };`"),
                );
            }
            return failed;
        };
        if let Some(second) = clauses.get(1) {
            let span = self.span(file, second);
            self.error(
                Diagnostic::new("duplicate-demux", span, "a protocol has one demux")
                    .label("the second one")
                    .also(self.span(file, &clauses[0]), "the first one"),
            );
        }
        let Some(bytes) = self.header_bytes(file, &size, protocol, name) else { return failed };
        let fixed = self.hir.protocols[protocol.0 as usize].size;
        if let ExprKind::Const(value) = bytes.kind
            && fixed <= MAX_HEADER
            && (value < fixed as u128 || value > MAX_HEADER as u128)
        {
            self.error(
                Diagnostic::new("bad-demux", bytes.span, format!("the header can't be {value} bytes long"))
                    .label(format!("its fields take {fixed} bytes; at most {MAX_HEADER} are possible"))
                    .also(name, "this header"),
            );
        }
        if let Some(bad) = not_arithmetic(&bytes) {
            self.error(
                Diagnostic::new("bad-demux", bad, "a header's length is computed from its fields")
                    .label("neither a field nor a constant")
                    .hint("such as `demux { ihl << 2 };`"),
            );
        }
        self.not_by_checksum("bad-demux", &bytes, protocol);
        bytes
    }

    /// A number of bytes that is computed from the fields of a header.
    pub(super) fn header_bytes(
        &mut self,
        file: FileId,
        size: &ast::Expr,
        protocol: ProtocolId,
        name: Span,
    ) -> Option<Expr> {
        let mut code = CodeChecker::new(self, file, None);
        code.locals.push(Local { name: "the header".into(), ty: Type::Packet(protocol), span: name });
        code.header = Some(protocol);
        let value = code.expr(size, None);
        code.coerce(value, unsigned(32))
    }

    /// A length must be known before a checksum over so many bytes can be.
    pub(super) fn not_by_checksum(&mut self, code: &'static str, bytes: &Expr, protocol: ProtocolId) {
        let declared = &self.hir.protocols[protocol.0 as usize];
        let Some(checksum) = declared.checksum.as_ref().filter(|checksum| bytes.reads(checksum.field as u32)) else {
            return;
        };
        let title =
            format!("`{}` is a checksum, and no length is computed from it", declared.fields[checksum.field].name);
        self.error(
            Diagnostic::new(code, bytes.span, title).label("how much the checksum covers would depend on the checksum"),
        );
    }

    /// Lays out the metadata of all files.
    pub(super) fn check_metadata(&mut self) {
        let port = |name: &str, offset| MetaField { name: name.into(), type_name: "port_t".into(), width: 8, offset };
        self.hir.metadata = vec![port("rx.port", 0), port("tx.port", 1)];
        let mut end = 2;
        let mut seen: HashMap<String, Span> = HashMap::new();
        let files = self.files;
        for file in files {
            for item in file.tree.items() {
                let ast::Item::Metadata(item) = item else { continue };
                for field in item.fields() {
                    let Some((name, ty)) = field.name().zip(field.ty()) else { continue };
                    let span = name.span(file.id);
                    let text = name.text().to_string();
                    if let Some(first) = seen.insert(text.clone(), span) {
                        self.error(
                            Diagnostic::new(
                                "duplicate-field",
                                span,
                                format!("the metadata `{text}` is declared twice"),
                            )
                            .label("declared again here")
                            .also(first, "first declared here"),
                        );
                        continue;
                    }
                    if text == "rx" || text == "tx" {
                        self.error(
                            Diagnostic::new("reserved-name", span, format!("the metadata `{text}` is the language's"))
                                .label("holds `rx.port` or `tx.port`"),
                        );
                        continue;
                    }
                    let found = self.type_of(file.id, None, &ty, false);
                    if let Some(length) = field.length() {
                        let span = self.span(file.id, &length);
                        let error = Diagnostic::new("bad-field-type", span, "metadata can't be an array");
                        self.error(error.label("of so many elements"));
                        continue;
                    }
                    let width = match found {
                        Type::Int { width, signed: false } => width,
                        Type::Bool => 1,
                        Type::Reason => DropReason::WIDTH,
                        Type::Error => continue,
                        other => {
                            let (span, other) = (self.span(file.id, &ty), self.describe(other));
                            self.error(
                                Diagnostic::new("bad-field-type", span, format!("metadata can't be `{other}`"))
                                    .label("not an unsigned integer type or bool"),
                            );
                            continue;
                        }
                    };
                    let size = storage_size(width);
                    let offset = u32::next_multiple_of(end, size);
                    end = offset + size;
                    let type_name = match found {
                        Type::Reason => DropReason::TYPE.to_string(),
                        _ => ty.name().map(|n| n.text().to_string()).unwrap_or_default(),
                    };
                    self.hir.metadata.push(MetaField { name: text, type_name, width, offset });
                }
            }
        }
        self.hir.metadata_size = end;
    }

    /// The type of a metadata field.
    pub(super) fn meta_type(&self, field: &MetaField) -> Type {
        match () {
            _ if field.type_name == DropReason::TYPE => Type::Reason,
            _ if self.names_bool(&field.type_name) => Type::Bool,
            _ => unsigned(field.width),
        }
    }
}

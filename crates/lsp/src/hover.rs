//! What is shown for the name under the pointer: its declaration, what it means, what an access costs.

use std::collections::HashSet;

use baker::builtin::Function;
use baker::ir::{DeclaredKind, DropReason};
use baker::syntax::ast::{self, AstNode};
use baker::syntax::{SyntaxElement, SyntaxKind, SyntaxNode, SyntaxToken};

use crate::layout::HeaderField;
use crate::model::{Kind, Model, Symbol};
use crate::scope::{Local, Type};
use crate::target::Target;

/// Lines of a declaration that are shown at most.
const MAX_LINES: usize = 24;

/// What is said of a declared length.
const COUNTED: &str = "The compiler writes this length into headers that the program makes; writing it makes it the \
                       program's own business for that handle.";

impl Model {
    /// Markdown for a name.
    pub fn hover(&self, token: &SyntaxToken) -> Option<String> {
        Some(match self.target(token)? {
            Target::Symbol(symbol) => self.symbol_hover(&symbol),
            Target::Local(local) => self.local_hover(&local),
            Target::HeaderField { protocol, field } => self.field_hover(&protocol, &field),
            Target::StructField { owner, field } => {
                let type_name = field.ty().and_then(|ty| ty.name()).map(|n| n.text().to_string()).unwrap_or_default();
                let module = owner.module.as_deref();
                let bytes = self
                    .stored_bytes(module, &type_name)
                    .and_then(|bytes| bytes.checked_mul(self.elements(module, &field)?))
                    .map(|b| format!("{} of the entry.", count(b)));
                page(&line(field.syntax()), [format!("A field of `{}`.", owner.name.text())].into_iter().chain(bytes))
            }
            Target::Metadata { field, .. } => self.metadata_hover(&field),
            Target::Builtin(builtin) => page(builtin.form, [builtin.text.to_string()]),
            Target::Reason(name, meaning) => {
                page(&format!("drop_reason {name};"), [format!("A drop reason of the language: {meaning}.")])
            }
            Target::Type(name) => page(&name, [type_text(&name)]),
            Target::AllMetadata => {
                let declared = self.metadata.iter().map(|(_, field)| line(field.syntax()));
                let known = crate::builtin::METADATA.iter().filter(|b| b.name.contains('.') || self.has_groups());
                let builtin = known.map(|b| b.form.to_string());
                let fields: Vec<_> = builtin.chain(declared).map(|f| format!("    {f}\n")).collect();
                let text = "It travels with the packet between PPFs, not in it; zero at `rx` but for `rx.port`.";
                page(&format!("metadata {{\n{}}}", fields.concat()), [text.to_string()])
            }
            Target::File(name) => page(&format!("// {name}"), []),
        })
    }

    fn symbol_hover(&self, symbol: &Symbol) -> String {
        let mut text = Vec::new();
        text.extend(comment_above(&symbol.node));
        match symbol.kind {
            Kind::Const | Kind::Enumerator => {
                text.extend(self.value(symbol).map(|value| match value.bits(128) {
                    bits if value.is_negative() || bits < 10 => format!("= {value}"),
                    bits => format!("= {value} = {bits:#x}"),
                }));
            }
            Kind::Alias | Kind::Enum => {
                let width = self.type_width(symbol.module.as_deref(), symbol.name.text());
                text.extend(width.map(|(bits, signed)| integer_text(bits, signed)));
            }
            Kind::Struct => {
                let bytes = self.stored_bytes(symbol.module.as_deref(), symbol.name.text());
                text.extend(bytes.map(|bytes| format!("{} in a table.", count(bytes))));
            }
            Kind::Protocol => text.extend(self.handle_text(symbol)),
            Kind::Reason => text.push("A drop reason.".to_string()),
            Kind::Table => text.push(self.table_text(symbol)),
            Kind::Counter => text.push("64 bits, kept per worker and summed when it is read.".to_string()),
            Kind::Queue => text.push("Packets wait here for their time, each line in order.".to_string()),
            Kind::Meter => text.push(
                "A token bucket: `rate` tokens per second come in, `burst` are in it at most. All workers share it."
                    .to_string(),
            ),
            Kind::Port => text.extend(self.wires(symbol)),
            Kind::Ppf => text.push(self.reasons_text(symbol)),
            Kind::Extern => {
                text.push("A controller has it: see its documentation. It runs on the worker that calls it.".into())
            }
            Kind::Timer => {
                let at_deadline = ast::Timer::cast(symbol.node.clone()).is_some_and(|timer| timer.is_at_deadline());
                text.push(match at_deadline {
                    true => "It runs once for an entry, on the worker that has set the entry's deadline.".into(),
                    false => "One worker runs it, a few calls at a time between its batches.".into(),
                });
            }
            Kind::Instance => {
                let module = ast::Instances::cast(symbol.node.clone()).and_then(|item| item.module());
                text.extend(module.map(|module| format!("An instance of the module `{}`.", module.text())));
            }
            Kind::Parameter => {
                let args: Vec<String> = self.arguments(symbol).iter().map(|arg| format!("`{arg}`")).collect();
                text.push(match args.is_empty() {
                    true => "A parameter: the program has no instance of the module.".to_string(),
                    false => format!("A parameter. In its instances: {}.", args.join(", ")),
                });
            }
            Kind::Module | Kind::Function => {}
        }
        let within = symbol.module.as_ref().map(|module| format!("Of the module `{module}`."));
        page(&declaration(symbol), text.into_iter().chain(within))
    }

    fn local_hover(&self, local: &Local) -> String {
        let ty = local.ty.as_ref().map_or(String::new(), |ty| ty.syntax().text().to_string());
        let form = format!("{ty} {}{}", if local.star { "*" } else { "" }, local.name.text());
        let ty = match self.local_type(local) {
            Type::Pointer(inner) => *inner,
            other => other,
        };
        let text = match ty {
            Type::Packet(protocol, _) => self.handle_text(&protocol),
            Type::Struct(owner) => Some(format!("```baker\n{}\n```", declaration(&owner))),
            _ => None,
        };
        page(&form, text)
    }

    /// What a handle of a protocol promises.
    fn handle_text(&self, protocol: &Symbol) -> Option<String> {
        let bytes = self.header_bytes(protocol)?;
        Some(format!("A handle promises that {} are there; so access to the fields needs no check.", count(bytes)))
    }

    fn field_hover(&self, protocol: &Symbol, field: &ast::Field) -> String {
        let header = self.header(protocol);
        let form = line(field.syntax());
        let of = format!("A field of `{}`.", protocol.name.text());
        let Some(laid_out) = header.iter().find(|f| f.field == *field) else { return page(&form, [of]) };
        let bits = laid_out.bits;
        let bit = if bits.offset.is_multiple_of(8) { String::new() } else { format!(", bit {}", bits.offset % 8) };
        let width = if bits.width == 1 { "1 bit".to_string() } else { format!("{} bits", bits.width) };
        let place = format!(
            "At byte {}{bit} of the `{}` header, {width}: `{}`.",
            bits.offset / 8,
            protocol.name.text(),
            laid_out.type_name
        );
        let mut text = vec![place, access_text(laid_out, &header)];
        text.extend(self.checksum_text(&header, field));
        text.extend(field.counts().map(|_| COUNTED.to_string()));
        page(&form, text)
    }

    /// What a write does to the header's checksum.
    fn checksum_text(&self, header: &[HeaderField], field: &ast::Field) -> Option<String> {
        let covers_header =
            |f: &&HeaderField| f.field.covers().is_some_and(|c| c.names().any(|n| n.text() == "header"));
        let checksum = header.iter().find(covers_header)?;
        let name = checksum.field.name()?;
        Some(match checksum.field == *field {
            true => "The compiler keeps this checksum; writing it makes it the program's own business for that handle."
                .into(),
            false => format!("Writing it updates `{}` (RFC 1624), once for all writes through a handle.", name.text()),
        })
    }

    fn metadata_hover(&self, field: &ast::StructField) -> String {
        let type_name = field.ty().and_then(|ty| ty.name()).map(|n| n.text().to_string()).unwrap_or_default();
        let bytes = self
            .stored_bytes(None, &type_name)
            .map(|bytes| format!("{} of the packet's metadata: not in packet memory.", count(bytes)));
        page(
            &format!("metadata {{ {} }}", line(field.syntax())),
            bytes.into_iter().chain(comment_above(field.syntax())),
        )
    }

    fn table_text(&self, symbol: &Symbol) -> String {
        let Some(table) = ast::Table::cast(symbol.node.clone()) else { return String::new() };
        let Some(kind) = table.kind().and_then(|kind| DeclaredKind::named(kind.text())) else { return String::new() };
        if kind == DeclaredKind::Hold {
            return kind.row().text.into();
        }
        let (text, last) = (kind.row().text, if kind == DeclaredKind::Set { "key" } else { "value" });
        let name = table.types().last().and_then(|ty| ty.name());
        let bytes = name.and_then(|name| self.stored_bytes(symbol.module.as_deref(), name.text()));
        let bytes = bytes.map_or(String::new(), |bytes| format!(" A {last} has {}.", count(bytes)));
        format!("{text}{bytes}")
    }

    /// Where a channel leads and where it comes from.
    fn wires(&self, symbol: &Symbol) -> Option<String> {
        let bases = self.known_as(symbol.module.as_deref()?);
        let full: Vec<String> = bases.iter().map(|base| format!("{base}.{}", symbol.name.text())).collect();
        let items = self.files.iter().flat_map(|file| file.tree.items());
        let wires = items.filter_map(|item| if let ast::Item::Program(p) = item { Some(p) } else { None });
        let text = |end: Option<ast::WireEnd>| end.map_or(String::new(), |end| end.syntax().text().to_string());
        let wires = wires.flat_map(|program| program.wires()).map(|wire| (text(wire.from()), text(wire.to())));
        let found: Vec<_> =
            wires.filter(|(a, b)| full.contains(a) || full.contains(b)).map(|(a, b)| format!("`{a} -> {b}`")).collect();
        (!found.is_empty()).then(|| format!("Wired: {}.", found.join(", ")))
    }

    /// The drop reasons that a PPF can give.
    fn reasons_text(&self, ppf: &Symbol) -> String {
        let body = ast::Ppf::cast(ppf.node.clone()).and_then(|p| p.body());
        let body = body.or_else(|| self.body_elsewhere(ppf));
        let mut reasons = Vec::new();
        if let Some(body) = body {
            self.collect_reasons(body.syntax(), &mut reasons, &mut HashSet::new());
        }
        match reasons.is_empty() {
            true => "Drops no packet itself.".to_string(),
            false => format!("Drops packets as {}.", reasons.join(", ")),
        }
    }

    fn body_elsewhere(&self, ppf: &Symbol) -> Option<ast::Block> {
        let items = self.files.iter().flat_map(|file| file.tree.items());
        let mut bodies = items.filter_map(|item| if let ast::Item::OutOfBody(b) = item { Some(b) } else { None });
        let is_it = |b: &ast::OutOfBody| {
            let names = b.path().and_then(|path| path.module().zip(path.ppf()));
            names.is_some_and(|(m, p)| Some(m.text()) == ppf.module.as_deref() && p.text() == ppf.name.text())
        };
        bodies.find(is_it)?.body()
    }

    /// The reasons named in a body and in the functions that it calls.
    fn collect_reasons(&self, body: &SyntaxNode, reasons: &mut Vec<String>, seen: &mut HashSet<SyntaxNode>) {
        // A list of work instead of recursion: functions may call each other without end while they are being typed.
        let mut open = vec![body.clone()];
        while let Some(body) = open.pop().filter(|body| seen.insert(body.clone())) {
            for call in body.descendants().filter_map(ast::CallExpr::cast) {
                let Some(ast::Expr::Name(callee)) = call.callee() else { continue };
                let Some(name) = callee.name() else { continue };
                let found: Vec<String> = match baker::builtin::find(name.text()) {
                    Some(builtin) if matches!(builtin.function, Function::PacketDrop | Function::PacketRequire) => {
                        call.args().nth(1).map(|reason| reason.syntax().text().to_string()).into_iter().collect()
                    }
                    Some(builtin) => builtin.drops.iter().map(|reason| reason.to_string()).collect(),
                    None => {
                        if let Some(Target::Symbol(function)) = self.target(name.syntax()) {
                            let function = ast::Function::cast(function.node).and_then(|f| f.body());
                            open.extend(function.map(|body| body.syntax().clone()).filter(|body| !seen.contains(body)));
                        }
                        Vec::new()
                    }
                };
                for reason in found.into_iter().map(|reason| format!("`{reason}`")) {
                    if !reasons.contains(&reason) {
                        reasons.push(reason);
                    }
                }
            }
        }
    }
}

/// What reading and writing a field touches.
fn access_text(field: &HeaderField, header: &[HeaderField]) -> String {
    let bits = field.bits;
    let (first, end) = (bits.first_byte(), bits.end_byte());
    let bytes = match end - first {
        1 => format!("1 byte ({first})"),
        count => format!("{count} bytes ({first} to {})", end - 1),
    };
    let whole = bits.offset.is_multiple_of(8) && bits.width.is_multiple_of(8);
    if whole {
        return format!("An access touches {bytes}.");
    }
    let others =
        header.iter().filter(|f| f.field != field.field && f.bits.first_byte() < end && f.bits.end_byte() > first);
    let others: Vec<_> = others.filter_map(|f| Some(format!("`{}`", f.field.name()?.text()))).collect();
    format!("An access touches {bytes}, shared with {}: a write reads them first.", others.join(", "))
}

/// The code of a declaration: a head for what has a body.
fn declaration(symbol: &Symbol) -> String {
    let node = &symbol.node;
    let named = |word: &str| format!("{word} {}", symbol.name.text());
    match symbol.kind {
        Kind::Module => {
            let parts = node.children_with_tokens().take_while(|e| e.kind() != SyntaxKind::LBrace);
            one_line(&parts.map(|part| part.to_string()).collect::<String>())
        }
        Kind::Reason => named("drop_reason") + ";",
        Kind::Port => {
            let port = ast::Port::cast(node.clone());
            let word = port.as_ref().and_then(|p| p.kind()).map_or("channel", |kind| match kind {
                ast::PortKind::In => "in",
                ast::PortKind::Out => "out",
                ast::PortKind::Channel => "channel",
            });
            let protocol = port.and_then(|p| p.protocol()).map_or(String::new(), |p| p.text().to_string());
            format!("{word} {protocol} {};", symbol.name.text())
        }
        Kind::Ppf | Kind::Function | Kind::Timer => {
            let parts = node.children_with_tokens().take_while(|e| e.kind() != SyntaxKind::Block);
            one_line(&parts.map(|part| part.to_string()).collect::<String>())
        }
        Kind::Protocol | Kind::Struct | Kind::Enum => {
            let text = node.text().to_string();
            let mut lines: Vec<&str> = text.lines().take(MAX_LINES).collect();
            if text.lines().nth(MAX_LINES).is_some() {
                lines.push("    …");
            }
            lines.join("\n")
        }
        _ => line(node),
    }
}

/// A node's code on one line, without comments.
fn line(node: &SyntaxNode) -> String {
    let tokens = node.descendants_with_tokens().filter_map(SyntaxElement::into_token);
    let tokens = tokens.filter(|t| !matches!(t.kind(), SyntaxKind::LineComment | SyntaxKind::BlockComment));
    one_line(&tokens.map(|t| t.text().to_string()).collect::<String>())
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The `//` comments right above a declaration.
fn comment_above(node: &SyntaxNode) -> Option<String> {
    let mut lines = Vec::new();
    let mut at = node.prev_sibling_or_token();
    while let Some(SyntaxElement::Token(token)) = at {
        match token.kind() {
            SyntaxKind::Whitespace if token.text().matches('\n').count() < 2 => {}
            SyntaxKind::LineComment if begins_line(&token) => {
                lines.push(token.text().trim_start_matches('/').trim().to_string());
            }
            _ => break,
        }
        at = token.prev_sibling_or_token();
    }
    lines.reverse();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Whether a comment stands on a line of its own.
fn begins_line(comment: &SyntaxToken) -> bool {
    comment
        .prev_token()
        .is_none_or(|t| t.kind() == SyntaxKind::Whitespace && (t.text().contains('\n') || t.prev_token().is_none()))
}

fn type_text(name: &str) -> String {
    match (name, crate::builtin::type_width(name)) {
        ("bool", _) => "`true` or `false`.".to_string(),
        (DropReason::TYPE, _) => "A drop reason; `no_reason` where none was set.".to_string(),
        (_, Some((bits, signed))) => integer_text(bits, signed),
        _ => "Nothing: for functions without a result.".to_string(),
    }
}

fn integer_text(bits: u32, signed: bool) -> String {
    let kind = if signed { "signed, two's complement" } else { "unsigned" };
    format!("{bits} {}, {kind}.", if bits == 1 { "bit" } else { "bits" })
}

fn count(bytes: u32) -> String {
    if bytes == 1 { "1 byte".to_string() } else { format!("{bytes} bytes") }
}

/// Code, and paragraphs below it.
fn page(code: &str, text: impl IntoIterator<Item = String>) -> String {
    let paragraphs = text.into_iter().filter(|text| !text.is_empty()).map(|text| format!("\n\n{text}"));
    format!("```baker\n{code}\n```{}", paragraphs.collect::<String>())
}

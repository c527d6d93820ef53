//! What can stand at the cursor.

use baker::builtin::FUNCTIONS;
use baker::ir::{BUILTIN_DROP_REASONS, Pin};
use baker::library;
use baker::syntax::ast::{self, AstNode};
use baker::syntax::{SyntaxElement, SyntaxKind, SyntaxNode, SyntaxToken};
use lsp_types::{CompletionItem, CompletionItemKind};
use rowan::TextSize;

use crate::builtin;
use crate::model::{Kind, Model, Symbol};
use crate::scope::{Type, locals, module_of};
use crate::target::{Target, metadata_path};

use SyntaxKind::*;

/// Words that begin what stands in a file.
const FILE_WORDS: [&str; 10] =
    ["import", "const", "type", "enum", "struct", "protocol", "metadata", "drop_reason", "module", "program"];
/// Words that begin what stands in a module.
const MODULE_WORDS: [&str; 31] = [
    "in",
    "out",
    "channel",
    "array",
    "hash",
    "lpm",
    "set",
    "hold",
    "group",
    "of",
    "idle",
    "into",
    "counter",
    "meter",
    "rate",
    "burst",
    "ppf",
    "from",
    "extern",
    "timer",
    "over",
    "every",
    "at",
    "deadline",
    "queue",
    "drop",
    "const",
    "type",
    "enum",
    "struct",
    "drop_reason",
];
/// Words in the parameters of a module.
const PARAMETER_WORDS: [&str; 4] = ["protocol", "type", "const", "table"];
/// Words in a protocol.
const PROTOCOL_WORDS: [&str; 7] = ["demux", "length", "covers", "counts", "pseudo", "header", "payload"];
/// Words behind a controller that packets go to.
const WIRE_WORDS: [&str; 2] = ["batch", "within"];
/// Words in a body.
const BODY_WORDS: [&str; 13] = [
    "critical", "if", "else", "switch", "case", "default", "for", "return", "break", "continue", "true", "false",
    "null",
];

impl Model {
    /// What can stand at a byte offset of the document, sorted; the editor narrows it to what is typed already.
    pub fn completion(&self, offset: usize) -> Vec<CompletionItem> {
        let mut items = self.candidates(offset);
        items.sort_by(|a, b| a.label.cmp(&b.label));
        items.dedup_by(|a, b| a.label == b.label);
        items
    }

    fn candidates(&self, offset: usize) -> Vec<CompletionItem> {
        let root = self.tree().syntax();
        let at = TextSize::try_from(offset).unwrap_or_default().min(root.text_range().end());
        let left = root.token_at_offset(at).left_biased().filter(|token| token.text_range().start() < at);
        if let Some(token) = &left
            && matches!(token.kind(), LineComment | BlockComment)
            && (token.kind() == LineComment || token.text_range().end() > at)
        {
            return Vec::new();
        }
        // The word at the cursor is what is being typed; what stands before it decides.
        let typed = |t: &SyntaxToken| t.kind() == Name || t.kind().is_reserved_word();
        let before = match &left {
            Some(token) if typed(token) => previous(token),
            Some(token) if token.kind() == String && token.parent().is_some_and(|p| p.kind() == Import) => {
                return library::paths().iter().map(|path| item(path, CompletionItemKind::FILE)).collect();
            }
            Some(token) if token.kind().is_trivia() => previous(token),
            other => other.clone(),
        };
        let Some(before) = before else { return words(&FILE_WORDS) };
        match before.kind() {
            Arrow | Dot => self.after_dot(&before),
            At => words(&Pin::ALL.map(|(_, name)| name)),
            Int | Mac | Ipv4 | Ipv6 | String => Vec::new(),
            _ => self.in_place(&before, at),
        }
    }

    /// Behind `->` or `.`.
    fn after_dot(&self, dot: &SyntaxToken) -> Vec<CompletionItem> {
        let Some(parent) = dot.parent() else { return Vec::new() };
        if parent.kind() == Wire {
            return self.wire_ends();
        }
        if let Some(member) = ast::MemberExpr::cast(parent.clone())
            && let Some(base) = member.base()
        {
            return self.after_base(&base);
        }
        // A path, or what the parser could not make sense of: the name before it may be a module.
        let name = previous(dot).filter(|t| t.kind() == Name);
        let Some(name) = name else { return Vec::new() };
        self.members(name.text()).map(|symbol| self.symbol_item(symbol)).collect()
    }

    fn after_base(&self, base: &ast::Expr) -> Vec<CompletionItem> {
        if let ast::Expr::Member(member) = base
            && let Some(path) = metadata_path(member)
        {
            let names: Vec<_> = path.iter().map(ast::Name::text).collect();
            return match names.as_slice() {
                [] => self.metadata_items(),
                ["rx" | "tx"] => vec![item("port", CompletionItemKind::FIELD)],
                _ => Vec::new(),
            };
        }
        if let ast::Expr::Name(name) = base
            && let Some(Target::Symbol(module)) = name.name().and_then(|name| self.target(name.syntax()))
            && matches!(module.kind, Kind::Module | Kind::Instance)
        {
            return self.members(module.name.text()).map(|symbol| self.symbol_item(symbol)).collect();
        }
        if let ast::Expr::Name(name) = base
            && let Some(Target::Symbol(protocol)) = name.name().and_then(|name| self.target(name.syntax()))
            && matches!(protocol.kind, Kind::Protocol | Kind::Parameter)
        {
            return vec![item("size", CompletionItemKind::CONSTANT)];
        }
        self.fields(&self.expr_type(base))
    }

    fn fields(&self, ty: &Type) -> Vec<CompletionItem> {
        match ty {
            Type::Packet(protocol, others) => {
                // Of a parameter: what all that stand for it have.
                let others: Vec<_> = others.iter().map(|other| self.header(other)).collect();
                let in_all = |name: &ast::Name| {
                    others
                        .iter()
                        .all(|fields| fields.iter().any(|f| f.field.name().is_some_and(|n| n.text() == name.text())))
                };
                let fields = self.header(protocol).into_iter().filter_map(|f| {
                    f.field.name().filter(in_all)?;
                    Some(CompletionItem {
                        detail: Some(f.type_name),
                        ..item(f.field.name()?.text(), CompletionItemKind::FIELD)
                    })
                });
                fields.chain([item("metadata", CompletionItemKind::FIELD)]).collect()
            }
            Type::Struct(owner) => {
                let declared = ast::Struct::cast(owner.node.clone());
                declared.iter().flat_map(ast::Struct::fields).filter_map(|field| struct_field(&field)).collect()
            }
            Type::Pointer(inner) if matches!(**inner, Type::Struct(_)) => self.fields(inner),
            _ => Vec::new(),
        }
    }

    fn metadata_items(&self) -> Vec<CompletionItem> {
        let declared = self.metadata.iter().filter_map(|(_, field)| struct_field(field));
        let groups: &[_] = if self.has_groups() { &["group", "member"] } else { &[] };
        let own = ["rx", "tx"].iter().chain(groups).map(|name| item(name, CompletionItemKind::FIELD));
        declared.chain(own).collect()
    }

    fn wire_ends(&self) -> Vec<CompletionItem> {
        let modules =
            self.globals().filter(|s| matches!(s.kind, Kind::Module | Kind::Instance)).map(|s| self.symbol_item(s));
        let ends = builtin::ENDS.iter().map(|b| item(b.name, CompletionItemKind::KEYWORD));
        modules.chain(ends).chain(words(&WIRE_WORDS)).collect()
    }

    /// Anywhere else: by what the cursor stands in.
    fn in_place(&self, before: &SyntaxToken, at: TextSize) -> Vec<CompletionItem> {
        let Some(place) = surroundings(before) else { return words(&FILE_WORDS) };
        let holder =
            place.ancestors().find(|n| matches!(n.kind(), Block | Module | Program | Protocol | Struct | Metadata));
        let own = module_of(&place);
        let types = || {
            let declared = self.globals().filter(|s| matches!(s.kind, Kind::Alias | Kind::Enum | Kind::Struct));
            let parameters = own.iter().flat_map(|m| self.members(m)).filter(|s| s.kind == Kind::Parameter);
            let handles = self.globals().filter(|s| s.kind == Kind::Protocol).chain(parameters.collect::<Vec<_>>());
            let handles = handles.map(|s| item(&format!("{}_packet_t", s.name.text()), CompletionItemKind::STRUCT));
            words(&builtin::TYPES).into_iter().chain(declared.map(|s| self.symbol_item(s))).chain(handles)
        };
        match holder.as_ref().map(SyntaxNode::kind) {
            _ if place.ancestors().any(|n| n.kind() == ModuleParams) => {
                words(&PARAMETER_WORDS).into_iter().chain(types()).collect()
            }
            Some(Program) if place.ancestors().any(|n| n.kind() == ArgList) => {
                let named = self.globals().filter(|s| s.kind != Kind::Instance).map(|s| self.symbol_item(s));
                words(&builtin::TYPES).into_iter().chain(named).collect()
            }
            Some(Block) => self.in_body(&place, at).into_iter().chain(types()).collect(),
            Some(Module) => {
                let names =
                    self.globals().chain(module_of(&place).iter().flat_map(|m| self.members(m)).collect::<Vec<_>>());
                words(&MODULE_WORDS).into_iter().chain(types()).chain(names.map(|s| self.symbol_item(s))).collect()
            }
            Some(Program) => self.wire_ends(),
            Some(Protocol) => {
                let consts = self.globals().filter(|s| s.kind == Kind::Const).map(|s| self.symbol_item(s));
                let fields =
                    holder.and_then(ast::Protocol::cast).into_iter().flat_map(|p| p.fields().collect::<Vec<_>>());
                let fields = fields.filter_map(|f| Some(item(f.name()?.text(), CompletionItemKind::FIELD)));
                words(&PROTOCOL_WORDS).into_iter().chain(types()).chain(consts).chain(fields).collect()
            }
            Some(_) => types().collect(),
            None => words(&FILE_WORDS).into_iter().chain(types()).collect(),
        }
    }

    fn in_body(&self, place: &SyntaxNode, at: TextSize) -> Vec<CompletionItem> {
        let module = module_of(place);
        let mut items = words(&BODY_WORDS);
        items.extend(locals(place, at).iter().map(|local| item(local.name.text(), CompletionItemKind::VARIABLE)));
        items.extend(module.iter().flat_map(|module| self.members(module)).map(|symbol| self.symbol_item(symbol)));
        items.extend(self.globals().map(|symbol| self.symbol_item(symbol)));
        items.extend(FUNCTIONS.iter().map(|b| CompletionItem {
            detail: Some(b.form.to_string()),
            ..item(b.name, CompletionItemKind::FUNCTION)
        }));
        items.extend(BUILTIN_DROP_REASONS.iter().map(|(name, _)| item(name, CompletionItemKind::EVENT)));
        items
    }

    fn symbol_item(&self, symbol: &Symbol) -> CompletionItem {
        let kind = match symbol.kind {
            Kind::Const => CompletionItemKind::CONSTANT,
            Kind::Alias => CompletionItemKind::CLASS,
            Kind::Enum => CompletionItemKind::ENUM,
            Kind::Enumerator => CompletionItemKind::ENUM_MEMBER,
            Kind::Struct => CompletionItemKind::STRUCT,
            Kind::Protocol => CompletionItemKind::INTERFACE,
            Kind::Module | Kind::Instance => CompletionItemKind::MODULE,
            Kind::Function | Kind::Extern | Kind::Ppf | Kind::Timer => CompletionItemKind::FUNCTION,
            Kind::Reason => CompletionItemKind::EVENT,
            Kind::Table | Kind::Meter | Kind::Queue | Kind::Counter => CompletionItemKind::VARIABLE,
            Kind::Port => CompletionItemKind::REFERENCE,
            Kind::Parameter => CompletionItemKind::TYPE_PARAMETER,
        };
        item(symbol.name.text(), kind)
    }
}

fn struct_field(field: &ast::StructField) -> Option<CompletionItem> {
    let detail = field.ty().map(|ty| ty.syntax().text().to_string());
    Some(CompletionItem { detail, ..item(field.name()?.text(), CompletionItemKind::FIELD) })
}

fn item(label: &str, kind: CompletionItemKind) -> CompletionItem {
    CompletionItem { label: label.to_string(), kind: Some(kind), ..CompletionItem::default() }
}

fn words(words: &[&str]) -> Vec<CompletionItem> {
    words.iter().map(|word| item(word, CompletionItemKind::KEYWORD)).collect()
}

/// The token before one, without blanks and comments.
fn previous(token: &SyntaxToken) -> Option<SyntaxToken> {
    std::iter::successors(token.prev_token(), SyntaxToken::prev_token).find(|t| !t.kind().is_trivia())
}

/// The node in which stands what follows a token.
fn surroundings(before: &SyntaxToken) -> Option<SyntaxNode> {
    let mut node = before.parent()?;
    // Behind what it ends.
    while matches!(before.kind(), RBrace | Semicolon) && node.last_token().as_ref() == Some(before) {
        node = node.parent()?;
    }
    Some(node)
        .filter(|n| n.kind() != SourceFile || n.children_with_tokens().any(|e| matches!(e, SyntaxElement::Node(_))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_the_grammar_is_offered() {
        let reference = include_str!("../../../docs/grammar.md");
        let rules = reference.split("```").nth(1).unwrap();
        let quoted = rules.split('\'').skip(1).step_by(2);
        let quoted: Vec<_> = quoted.filter(|text| text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')).collect();
        assert!(quoted.len() > 25, "{quoted:?}");
        let ends = builtin::ENDS.map(|end| end.name);
        let in_modules = [&MODULE_WORDS[..], &PROTOCOL_WORDS, &BODY_WORDS, &PARAMETER_WORDS].concat();
        let offered = [&FILE_WORDS[..], &in_modules, &WIRE_WORDS, &ends].concat();
        let missing: Vec<_> = quoted.into_iter().filter(|word| !offered.contains(word)).collect();
        assert_eq!(missing, [] as [&str; 0]);
    }
}

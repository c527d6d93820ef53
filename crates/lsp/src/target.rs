//! What a name in the text stands for.

use std::string::String;

use baker::ir::BUILTIN_DROP_REASONS;
use baker::source::FileId;
use baker::syntax::ast::{self, AstNode};
use baker::syntax::{SyntaxKind, SyntaxNode, SyntaxToken};
use rowan::TextRange;

use crate::builtin::{self, Builtin};
use crate::model::{Kind, Model, Symbol};
use crate::scope::{Local, Type, handle_protocol, locals, module_of};

use SyntaxKind::*;

/// What a name stands for.
#[derive(Clone, Debug)]
pub enum Target {
    /// Something declared in a file or module.
    Symbol(Symbol),
    /// A parameter or variable of the same file.
    Local(Local),
    /// A header field.
    HeaderField {
        /// Its protocol.
        protocol: Symbol,
        /// Its declaration.
        field: ast::Field,
    },
    /// A field of a structure.
    StructField {
        /// Its structure.
        owner: Symbol,
        /// Its declaration.
        field: ast::StructField,
    },
    /// Declared metadata.
    Metadata {
        /// The file that declares it.
        file: FileId,
        /// Its declaration.
        field: ast::StructField,
    },
    /// A function, end of wires or metadata of the language.
    Builtin(Builtin),
    /// A drop reason of the language, with its meaning.
    Reason(&'static str, &'static str),
    /// A type of the language.
    Type(String),
    /// All metadata of a packet.
    AllMetadata,
    /// An imported file, by its name.
    File(String),
}

impl Target {
    /// The file and place of its declaration; `None` for the language's own, and for a variable: it is in the same
    /// file.
    pub fn declaration(&self) -> Option<(FileId, TextRange)> {
        let range = |name: Option<ast::Name>| name.map(|name| name.syntax().text_range());
        match self {
            Target::Symbol(symbol) => Some((symbol.file, symbol.name.syntax().text_range())),
            Target::HeaderField { protocol, field } => Some((protocol.file, range(field.name())?)),
            Target::StructField { owner, field } => Some((owner.file, range(field.name())?)),
            Target::Metadata { file, field } => Some((*file, range(field.name())?)),
            _ => None,
        }
    }
}

impl Model {
    /// What a name or string stands for. The token is one of a tree of this model.
    pub fn target(&self, token: &SyntaxToken) -> Option<Target> {
        let parent = token.parent()?;
        let text = token.text();
        match parent.kind() {
            Import if token.kind() == SyntaxKind::String => self.imported(&parent),
            TypeRef => self.named_type_target(&parent, text),
            NameExpr => self.name_target(&parent, token),
            MemberExpr => self.member_target(&ast::MemberExpr::cast(parent)?),
            StructValueField => {
                let value = ast::StructValue::cast(parent.parent()?)?;
                let owner = self.symbol(&parent, value.name()?.text())?;
                self.struct_field(&owner, text)
            }
            Field => self.field_target(&parent),
            DropClause => {
                let by = parent.parent().and_then(ast::Queue::cast)?.drops_by()?;
                if by.text() == text { self.metadata_target(&[by]) } else { None }
            }
            StructField => self.struct_field_target(&parent),
            // Parts of a packet such as `header` are no fields.
            Covers | Counts | Pseudo => {
                let protocol = parent.ancestors().find_map(ast::Protocol::cast)?;
                let symbol = self.protocol(protocol.name()?.text())?.clone();
                self.field_of(&Type::Packet(symbol, Vec::new()), text)
            }
            WireEnd | Path => self.dotted_target(&parent, token),
            LetStmt | Param | Const if parent.kind() != Const || is_in_body(&parent) => {
                let own = |local: &Local| local.name.syntax() == token;
                locals(&parent, token.text_range().start()).into_iter().find(own).map(Target::Local)
            }
            // Declarations, and names that can only be those of symbols.
            _ if is_name(token) => self.symbol(&parent, text).map(Target::Symbol).or_else(|| builtin_reason(text)),
            _ => None,
        }
    }

    /// What a name stands for in the module of a node.
    fn symbol(&self, node: &SyntaxNode, name: &str) -> Option<Symbol> {
        self.lookup(module_of(node).as_deref(), name).cloned()
    }

    fn imported(&self, import: &SyntaxNode) -> Option<Target> {
        let path = ast::Import::cast(import.clone())?.path()?;
        let root = import.ancestors().last()?;
        let from = self.files.iter().find(|f| f.tree.syntax() == &root)?;
        let from = &self.sources.file(from.id).name;
        self.imports.get(&(from.clone(), path)).cloned().map(Target::File)
    }

    fn named_type_target(&self, node: &SyntaxNode, name: &str) -> Option<Target> {
        if builtin::type_width(name).is_some() || name == "void" {
            return Some(Target::Type(name.to_string()));
        }
        let protocol = || self.symbol(node, handle_protocol(name)?).filter(is_protocol);
        self.symbol(node, name).or_else(protocol).map(Target::Symbol)
    }

    /// A name in an expression.
    fn name_target(&self, node: &SyntaxNode, token: &SyntaxToken) -> Option<Target> {
        let name = token.text();
        let named = |local: &Local| local.name.text() == name;
        if let Some(local) = locals(node, token.text_range().start()).into_iter().find(named) {
            return Some(Target::Local(local));
        }
        // In a demux or length the header's fields are names.
        let protocol = node.ancestors().find(|n| n.kind() == Protocol).and_then(ast::Protocol::cast);
        if let Some(protocol) = protocol
            && let Some(field) = protocol.fields().find(|f| f.name().is_some_and(|n| n.text() == name))
            && node.ancestors().any(|n| matches!(n.kind(), Demux | Length))
        {
            let protocol = self.protocol(protocol.name()?.text())?.clone();
            return Some(Target::HeaderField { protocol, field });
        }
        if let Some(symbol) = self.symbol(node, name) {
            let call = node.parent().and_then(ast::CallExpr::cast);
            return Some(Target::Symbol(match call.filter(|_| symbol.kind == Kind::Function) {
                Some(call) => self.overload(symbol, &call),
                None => symbol,
            }));
        }
        let function = builtin::function(name).map(Target::Builtin);
        function.or_else(|| builtin_reason(name)).or_else(|| {
            // A field's width may be a type.
            builtin::type_width(name).map(|_| Target::Type(name.to_string()))
        })
    }

    fn member_target(&self, member: &ast::MemberExpr) -> Option<Target> {
        let field = member.field()?;
        if let Some(path) = metadata_path(member) {
            return self.metadata_target(&path);
        }
        let base = member.base()?;
        if let ast::Expr::Name(name) = &base
            && let Some(Target::Symbol(module)) = name.name().and_then(|name| self.target(name.syntax()))
            && matches!(module.kind, Kind::Module | Kind::Instance)
        {
            return self.member(module.name.text(), field.text()).cloned().map(Target::Symbol);
        }
        self.field_of(&self.expr_type(&base), field.text())
    }

    /// A field of a value of a type.
    fn field_of(&self, ty: &Type, name: &str) -> Option<Target> {
        match ty {
            Type::Packet(first, others) => [first].into_iter().chain(others).find_map(|protocol| {
                let declared = ast::Protocol::cast(protocol.node.clone())?;
                let field = declared.fields().find(|f| f.name().is_some_and(|n| n.text() == name))?;
                Some(Target::HeaderField { protocol: protocol.clone(), field })
            }),
            Type::Struct(owner) => self.struct_field(owner, name),
            Type::Pointer(inner) => match &**inner {
                Type::Struct(owner) => self.struct_field(owner, name),
                _ => None,
            },
            _ => None,
        }
    }

    fn struct_field(&self, owner: &Symbol, name: &str) -> Option<Target> {
        let declared = ast::Struct::cast(owner.node.clone())?;
        let field = declared.fields().find(|f| f.name().is_some_and(|n| n.text() == name))?;
        Some(Target::StructField { owner: owner.clone(), field })
    }

    /// Metadata by the names behind `->metadata`.
    fn metadata_target(&self, path: &[ast::Name]) -> Option<Target> {
        let name = path.iter().map(ast::Name::text).collect::<Vec<_>>().join(".");
        if name.is_empty() {
            return Some(Target::AllMetadata);
        }
        let declared = self.metadata.iter().find(|(_, f)| f.name().is_some_and(|n| n.text() == name));
        let declared = declared.map(|(file, field)| Target::Metadata { file: *file, field: field.clone() });
        declared.or_else(|| builtin::find(&builtin::METADATA, &name).map(Target::Builtin))
    }

    /// The declared field itself.
    fn field_target(&self, node: &SyntaxNode) -> Option<Target> {
        let protocol = ast::Protocol::cast(node.parent()?)?;
        let protocol = self.protocol(protocol.name()?.text())?.clone();
        Some(Target::HeaderField { protocol, field: ast::Field::cast(node.clone())? })
    }

    /// The declared field itself, of a structure or the metadata.
    fn struct_field_target(&self, node: &SyntaxNode) -> Option<Target> {
        let field = ast::StructField::cast(node.clone())?;
        if let Some((file, field)) = self.metadata.iter().find(|(_, f)| *f == field) {
            return Some(Target::Metadata { file: *file, field: field.clone() });
        }
        let owner = ast::Struct::cast(node.parent()?)?;
        Some(Target::StructField { owner: self.symbol(node, owner.name()?.text())?, field })
    }

    /// A part of `module.port` in a wire, or of `module.ppf`.
    fn dotted_target(&self, node: &SyntaxNode, token: &SyntaxToken) -> Option<Target> {
        let names = node.children_with_tokens().filter_map(|e| e.into_token()).filter(is_name);
        let names: Vec<_> = names.collect();
        let [first, ..] = names.as_slice() else { return None };
        if ast::WireEnd::cast(node.clone()).is_some_and(|end| end.controller().is_some()) {
            return builtin::find(&builtin::ENDS, "controller").map(Target::Builtin);
        }
        if first != token {
            return self.member(first.text(), token.text()).cloned().map(Target::Symbol);
        }
        let module = self.lookup(None, token.text()).cloned().map(Target::Symbol);
        module.or_else(|| builtin::find(&builtin::ENDS, token.text()).map(Target::Builtin))
    }
}

/// Whether a constant is one of a block.
pub fn is_in_body(constant: &SyntaxNode) -> bool {
    constant.parent().is_some_and(|outer| matches!(outer.kind(), Block | SwitchArm))
}

/// Whether a symbol is a protocol, or may be one that stands for a parameter.
fn is_protocol(symbol: &Symbol) -> bool {
    matches!(symbol.kind, Kind::Protocol | Kind::Parameter)
}

/// Whether a token is a name, or a word in the place of one.
pub fn is_name(token: &SyntaxToken) -> bool {
    token.kind() == Name
}

fn builtin_reason(name: &str) -> Option<Target> {
    BUILTIN_DROP_REASONS.iter().find(|(n, _)| *n == name).map(|(name, meaning)| Target::Reason(name, meaning))
}

/// The names behind `->metadata`; `None` where the field is no metadata.
pub fn metadata_path(member: &ast::MemberExpr) -> Option<Vec<ast::Name>> {
    let mut names = Vec::new();
    let mut at = member.clone();
    loop {
        let field = at.field()?;
        if at.is_arrow() {
            names.reverse();
            return (field.text() == "metadata").then_some(names);
        }
        names.push(field);
        let ast::Expr::Member(inner) = at.base()? else { return None };
        at = inner;
    }
}

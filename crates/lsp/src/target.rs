//! What a name in the text stands for.

use std::string::String;

use baker::ir::BUILTIN_DROP_REASONS;
use baker::source::{FileId, Span};
use baker::syntax::ast::{self, AstNode};
use baker::syntax::{SyntaxKind, SyntaxNode, SyntaxToken};
use rowan::TextRange;

use crate::builtin::{self, Builtin};
use crate::model::{Model, Symbol};
use crate::scope::Local;

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
            DropClause => {
                let by = parent.parent().and_then(ast::Queue::cast)?.drops_by()?;
                if by.text() == text { self.metadata_target(&[by]) } else { None }
            }
            // Parts of a packet such as `header` are no fields.
            Covers | Counts | Pseudo => {
                let protocol = parent.ancestors().find_map(ast::Protocol::cast)?;
                let field = protocol.fields().find(|f| f.name().is_some_and(|n| n.text() == text))?;
                self.field_target(field.syntax())
            }
            WireEnd if ast::WireEnd::cast(parent.clone()).is_some_and(|end| end.controller().is_some()) => {
                builtin::find(&builtin::ENDS, "controller").map(Target::Builtin)
            }
            MemberExpr if let Some(path) = ast::MemberExpr::cast(parent.clone()).and_then(|m| metadata_path(&m)) => {
                self.metadata_target(&path)
            }
            // A field may have the name of a reserved word.
            _ if is_name(token) || matches!(parent.kind(), MemberExpr | Field | StructField | StructValueField) => {
                let file = self.file_of(&parent)?;
                let declared = self.facts.declaration(ast::token_span(token, file));
                let used = declared.and_then(|at| self.declaration(&self.token_at(at)?));
                used.or_else(|| self.declaration(token)).or_else(|| of_language(parent.kind(), text))
            }
            _ => None,
        }
    }

    /// What a name declares where it stands.
    fn declaration(&self, token: &SyntaxToken) -> Option<Target> {
        let parent = token.parent()?;
        match parent.kind() {
            Field => self.field_target(&parent),
            StructField => self.struct_field_target(&parent),
            LetStmt | Param => Local::declared_by(token).map(Target::Local),
            Const if is_in_body(&parent) => Local::declared_by(token).map(Target::Local),
            _ => self.declared(ast::token_span(token, self.file_of(&parent)?)).cloned().map(Target::Symbol),
        }
    }

    /// The name at a place.
    fn token_at(&self, at: Span) -> Option<SyntaxToken> {
        let file = self.files.iter().find(|file| file.id == at.file)?;
        file.tree.syntax().token_at_offset(at.start.into()).right_biased()
    }

    fn imported(&self, import: &SyntaxNode) -> Option<Target> {
        let path = ast::Import::cast(import.clone())?.path()?;
        let root = import.ancestors().last()?;
        let from = self.files.iter().find(|f| f.tree.syntax() == &root)?;
        let from = &self.sources.file(from.id).name;
        self.imports.get(&(from.clone(), path)).cloned().map(Target::File)
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
        let owner = self.declared(owner.name()?.span(self.file_of(node)?))?.clone();
        Some(Target::StructField { owner, field })
    }
}

/// Whether a constant is one of a block.
pub fn is_in_body(constant: &SyntaxNode) -> bool {
    constant.parent().is_some_and(|outer| matches!(outer.kind(), Block | SwitchArm))
}

/// Whether a token is a name, or a word in the place of one.
pub fn is_name(token: &SyntaxToken) -> bool {
    token.kind() == Name
}

/// What a name of the language stands for.
fn of_language(place: SyntaxKind, name: &str) -> Option<Target> {
    let ty = || (builtin::type_width(name).is_some() || name == "void").then(|| Target::Type(name.to_string()));
    match place {
        TypeRef => ty(),
        WireEnd => builtin::find(&builtin::ENDS, name).map(Target::Builtin),
        // A field's width may be a type.
        NameExpr => builtin::function(name).map(Target::Builtin).or_else(|| builtin_reason(name)).or_else(ty),
        _ => builtin_reason(name),
    }
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

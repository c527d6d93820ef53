//! What surrounds a place: its module, the variables that can be named there; and what expressions are, as the checker
//! says.

use baker::check::Value;
use baker::source::Span;
use baker::syntax::ast::{self, AstNode};
use baker::syntax::{SyntaxKind, SyntaxNode, SyntaxToken};
use rowan::TextSize;

use crate::model::{Model, Symbol};

/// A parameter or variable.
#[derive(Clone, Debug)]
pub struct Local {
    /// Its name where it is declared.
    pub name: ast::Name,
    /// Its type as written.
    pub ty: Option<ast::TypeRef>,
    /// With `*`.
    pub star: bool,
}

/// A type, as far as it matters for what can be named in a value.
#[derive(Clone, Debug)]
pub enum Type {
    /// A handle of a packet of this protocol; behind it those of a module's further instances, where the protocol is
    /// its parameter.
    Packet(Symbol, Vec<Symbol>),
    /// A structure.
    Struct(Symbol),
    /// A pointer to an entry.
    Pointer(Box<Type>),
    /// A number, or not known: nothing can be named in it.
    Unknown,
}

/// The module that a node belongs to: that it stands in, or whose PPF's body it stands in.
pub fn module_of(node: &SyntaxNode) -> Option<String> {
    node.ancestors().find_map(|n| match n.kind() {
        SyntaxKind::Module => Some(ast::Module::cast(n)?.name()?.text().to_string()),
        SyntaxKind::OutOfBody => Some(ast::OutOfBody::cast(n)?.path()?.module()?.text().to_string()),
        _ => None,
    })
}

/// The variables that can be named at a byte offset within `node`, the innermost first. One that is being declared
/// there is among them.
pub fn locals(node: &SyntaxNode, at: TextSize) -> Vec<Local> {
    let mut locals = Vec::new();
    for outer in node.ancestors() {
        match outer.kind() {
            SyntaxKind::Block | SyntaxKind::SwitchArm => {
                let before = outer.children().take_while(|n| n.text_range().start() <= at);
                let mut own: Vec<_> = before.filter_map(|n| variable(&n)).collect();
                own.reverse();
                locals.extend(own.into_iter().filter(|local| start(&local.name) <= at));
            }
            SyntaxKind::ForStmt => {
                let init = ast::ForStmt::cast(outer).and_then(|f| f.init());
                let init = init.filter(|init| init.syntax().text_range().start() <= at);
                locals.extend(init.and_then(|init| variable(init.syntax())));
            }
            SyntaxKind::Function => {
                locals.extend(ast::Function::cast(outer).iter().flat_map(ast::Function::params).filter_map(param));
            }
            SyntaxKind::Extern => {
                locals.extend(ast::Extern::cast(outer).iter().flat_map(ast::Extern::params).filter_map(param));
            }
            SyntaxKind::Timer => {
                locals.extend(ast::Timer::cast(outer).iter().flat_map(ast::Timer::params).filter_map(param));
            }
            SyntaxKind::Ppf => locals.extend(ast::Ppf::cast(outer).and_then(|p| p.param()).and_then(param)),
            SyntaxKind::OutOfBody => locals.extend(ast::OutOfBody::cast(outer).and_then(|p| p.param()).and_then(param)),
            _ => {}
        }
    }
    locals
}

fn start(name: &ast::Name) -> TextSize {
    name.syntax().text_range().start()
}

/// The variable that a statement declares.
fn variable(node: &SyntaxNode) -> Option<Local> {
    if let Some(constant) = ast::Const::cast(node.clone()) {
        return Some(Local { name: constant.name()?, ty: constant.ty(), star: false });
    }
    let declared = ast::LetStmt::cast(node.clone())?;
    Some(Local { name: declared.name()?, ty: declared.ty(), star: declared.star().is_some() })
}

fn param(param: ast::Param) -> Option<Local> {
    Some(Local { name: param.name()?, ty: param.ty(), star: param.star().is_some() })
}

impl Local {
    /// The variable that is declared by a name.
    pub fn declared_by(name: &SyntaxToken) -> Option<Local> {
        let node = name.parent()?;
        let local = variable(&node).or_else(|| param(ast::Param::cast(node)?))?;
        (local.name.syntax() == name).then_some(local)
    }
}

impl Model {
    /// What a variable is.
    pub fn local_type(&self, local: &Local) -> Type {
        self.type_at(local.name.syntax())
    }

    /// What an expression is.
    pub fn expr_type(&self, expr: &ast::Expr) -> Type {
        match self.file_of(expr.syntax()) {
            Some(file) => self.type_of(ast::node_span(expr.syntax(), file)),
            None => Type::Unknown,
        }
    }

    fn type_at(&self, name: &SyntaxToken) -> Type {
        match name.parent().and_then(|node| self.file_of(&node)) {
            Some(file) => self.type_of(ast::token_span(name, file)),
            None => Type::Unknown,
        }
    }

    fn type_of(&self, at: Span) -> Type {
        let values = self.facts.values(at);
        let symbol = |at: &Span| self.declared(*at).cloned();
        let packets = values.iter().filter_map(|value| if let Value::Packet(at) = value { symbol(at) } else { None });
        let found = match values.first() {
            Some(Value::Packet(first)) => symbol(first).map(|first| Type::Packet(first, packets.skip(1).collect())),
            Some(Value::Struct(at)) => symbol(at).map(Type::Struct),
            Some(Value::Pointer(at)) => symbol(at).map(|to| Type::Pointer(Box::new(Type::Struct(to)))),
            None => None,
        };
        found.unwrap_or(Type::Unknown)
    }
}

//! What surrounds a place: its module, the variables that can be named there; and the types of expressions.

use baker::ir::DeclaredKind;
use baker::syntax::ast::{self, AstNode};
use baker::syntax::{SyntaxKind, SyntaxNode};
use rowan::TextSize;

use crate::model::{Kind, Model, Symbol};
use crate::{builtin, target::Target};

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
    /// An integer, `bool` or an enumeration.
    Scalar,
    /// Not known.
    Unknown,
}

/// How many types a type may be an alias of, one after the other.
const MAX_ALIASES: usize = 64;

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

/// The protocol's name in the handle type `P_packet_t` or `P_pkt_t`.
pub fn handle_protocol(type_name: &str) -> Option<&str> {
    type_name.strip_suffix("_packet_t").or_else(|| type_name.strip_suffix("_pkt_t"))
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

impl Model {
    /// The type that a written type stands for in a module.
    pub fn type_of(&self, module: Option<&str>, ty: Option<&ast::TypeRef>, star: bool) -> Type {
        let Some(name) = ty.and_then(ast::TypeRef::name) else { return Type::Unknown };
        match self.named_type(module, name.text()) {
            Type::Unknown => Type::Unknown,
            packet @ Type::Packet(..) => packet,
            value if star => Type::Pointer(Box::new(value)),
            value => value,
        }
    }

    fn named_type(&self, module: Option<&str>, name: &str) -> Type {
        let (mut module, mut name) = (module.map(str::to_owned), name.to_string());
        for _ in 0..MAX_ALIASES {
            if builtin::type_width(&name).is_some() {
                return Type::Scalar;
            }
            let Some(symbol) = self.lookup(module.as_deref(), &name) else {
                return self.handle_type(module.as_deref(), &name);
            };
            match symbol.kind {
                Kind::Struct => return Type::Struct(symbol.clone()),
                Kind::Enum => return Type::Scalar,
                Kind::Alias => {}
                Kind::Parameter => match self.type_argument(module.as_deref(), &name) {
                    Some(argument) => {
                        (module, name) = (None, argument);
                        continue;
                    }
                    None => return Type::Unknown,
                },
                _ => return Type::Unknown,
            }
            let target = ast::Alias::cast(symbol.node.clone()).and_then(|a| a.ty()).and_then(|ty| ty.name());
            let Some(target) = target else { return Type::Unknown };
            (module, name) = (symbol.module.clone(), target.text().to_string());
        }
        Type::Unknown
    }

    /// The type `P_packet_t` or `P_pkt_t` in a module.
    fn handle_type(&self, module: Option<&str>, type_name: &str) -> Type {
        let mut protocols =
            handle_protocol(type_name).map_or(Vec::new(), |name| self.protocols(module, name)).into_iter();
        protocols.next().map_or(Type::Unknown, |first| Type::Packet(first, protocols.collect()))
    }

    /// The type of a variable.
    pub fn local_type(&self, local: &Local) -> Type {
        let module = module_of_name(&local.name);
        self.type_of(module.as_deref(), local.ty.as_ref(), local.star)
    }

    /// The type of an expression.
    pub fn expr_type(&self, expr: &ast::Expr) -> Type {
        let module = || module_of(expr.syntax());
        match expr {
            ast::Expr::Name(name) => match name.name().and_then(|name| self.target(name.syntax())) {
                Some(target) => self.target_type(&target),
                None => Type::Unknown,
            },
            ast::Expr::Member(member) => match member.field().and_then(|field| self.target(field.syntax())) {
                Some(target) => self.target_type(&target),
                None => Type::Unknown,
            },
            ast::Expr::Paren(paren) => paren.inner().map_or(Type::Unknown, |inner| self.expr_type(&inner)),
            ast::Expr::Cast(cast) => self.type_of(module().as_deref(), cast.ty().as_ref(), false),
            ast::Expr::Unary(unary) if unary.op() == Some(ast::UnaryOp::Deref) => {
                match unary.operand().map(|operand| self.expr_type(&operand)) {
                    Some(Type::Pointer(inner)) => *inner,
                    _ => Type::Unknown,
                }
            }
            ast::Expr::Index(index) => index.base().map_or(Type::Unknown, |base| self.entry_type(&base)),
            ast::Expr::Ternary(ternary) => ternary.then_value().map_or(Type::Unknown, |value| self.expr_type(&value)),
            ast::Expr::StructValue(value) => match value.name() {
                Some(name) => self.named_type(module().as_deref(), name.text()),
                None => Type::Unknown,
            },
            ast::Expr::Call(call) => self.call_type(call),
            ast::Expr::Literal(_) | ast::Expr::Unary(_) | ast::Expr::Binary(_) => Type::Unknown,
        }
    }

    /// The type of what a name stands for.
    fn target_type(&self, target: &Target) -> Type {
        match target {
            Target::Local(local) => self.local_type(local),
            Target::StructField { owner, field } => self.type_of(owner.module.as_deref(), field.ty().as_ref(), false),
            Target::Metadata { field, .. } => self.type_of(None, field.ty().as_ref(), false),
            _ => Type::Unknown,
        }
    }

    /// The type of `table[key]`, and of `group_member(table, pkt)`: the value of an array, a pointer to that of another
    /// table.
    fn entry_type(&self, table: &ast::Expr) -> Type {
        let name = match table {
            ast::Expr::Name(name) => name.name(),
            ast::Expr::Member(member) => member.field(),
            _ => None,
        };
        let Some(Target::Symbol(symbol)) = name.and_then(|name| self.target(name.syntax())) else {
            return Type::Unknown;
        };
        let Some((symbol, table)) = self.table(symbol) else { return Type::Unknown };
        let kind = table.kind().and_then(|kind| DeclaredKind::named(kind.text()));
        if kind == Some(DeclaredKind::Set) {
            return Type::Scalar;
        }
        let is_array = kind == Some(DeclaredKind::Array);
        self.type_of(symbol.module.as_deref(), table.types().last().as_ref(), !is_array)
    }

    fn call_type(&self, call: &ast::CallExpr) -> Type {
        let name = match call.callee() {
            Some(ast::Expr::Name(callee)) => callee.name(),
            Some(ast::Expr::Member(callee)) => callee.field(),
            _ => None,
        };
        match name.and_then(|name| self.target(name.syntax())) {
            Some(Target::Builtin(b)) if b.name == "packet_copy" => {
                call.args().next().map_or(Type::Unknown, |packet| self.expr_type(&packet))
            }
            Some(Target::Builtin(b)) if b.name == "group_member" => {
                call.args().next().map_or(Type::Unknown, |groups| self.entry_type(&groups))
            }
            Some(Target::Symbol(symbol)) if symbol.kind == Kind::Function => {
                let Some(function) = ast::Function::cast(symbol.node) else { return Type::Unknown };
                self.type_of(symbol.module.as_deref(), function.ty().as_ref(), function.star().is_some())
            }
            _ => Type::Unknown,
        }
    }
}

fn module_of_name(name: &ast::Name) -> Option<String> {
    name.syntax().parent().and_then(|node| module_of(&node))
}

//! Modules with parameters: what stands for the parameters in each instance, and which of several functions of a name
//! is called.

use baker::syntax::ast::{self, AstNode, ModuleParamKind};

use crate::model::{Kind, Model, Symbol};
use crate::scope::Type;

impl Model {
    /// What stands for a parameter in each instance, each once, as written.
    pub fn arguments(&self, param: &Symbol) -> Vec<&str> {
        let Some(module) = param.module.as_deref() else { return Vec::new() };
        let list = param.node.parent();
        let index = list.and_then(|list| {
            list.children().filter_map(ast::ModuleParam::cast).position(|p| p.syntax() == &param.node)
        });
        let instances = self.arguments.get(module).into_iter().flatten();
        let mut found: Vec<&str> = Vec::new();
        for arg in instances.filter_map(|args| args.get(index?)) {
            if !found.contains(&arg.as_str()) {
                found.push(arg);
            }
        }
        found
    }

    /// The parameter of a module.
    fn param(&self, module: Option<&str>, name: &str, kind: ModuleParamKind) -> Option<&Symbol> {
        let symbol = self.lookup(module, name).filter(|symbol| symbol.kind == Kind::Parameter)?;
        (ast::ModuleParam::cast(symbol.node.clone())?.kind() == Some(kind)).then_some(symbol)
    }

    /// The protocols that a name stands for in a module: several for a parameter.
    pub fn protocols(&self, module: Option<&str>, name: &str) -> Vec<Symbol> {
        match self.param(module, name, ModuleParamKind::Protocol) {
            Some(param) => self.arguments(param).into_iter().filter_map(|arg| self.protocol(arg)).cloned().collect(),
            None => self.protocol(name).into_iter().cloned().collect(),
        }
    }

    /// The type that stands for a parameter of a module: that of the first instance.
    pub fn type_argument(&self, module: Option<&str>, name: &str) -> Option<String> {
        let param = self.param(module, name, ModuleParamKind::Type)?;
        self.arguments(param).first().map(|arg| arg.to_string())
    }

    /// The declaration of a table: that of the first instance's, where it is a parameter.
    pub fn table(&self, symbol: Symbol) -> Option<(Symbol, ast::Table)> {
        if symbol.kind != Kind::Parameter {
            let table = ast::Table::cast(symbol.node.clone())?;
            return Some((symbol, table));
        }
        let (module, name) = self.arguments(&symbol).first()?.split_once('.')?;
        let found = self.member(module, name)?.clone();
        let table = ast::Table::cast(found.node.clone())?;
        Some((found, table))
    }

    /// Of functions of one name, the one that is called with these arguments.
    pub fn overload(&self, symbol: Symbol, call: &ast::CallExpr) -> Symbol {
        let scoped = (symbol.module.clone(), symbol.name.text().to_string());
        let Some([_, _, ..]) = self.overloads.get(&scoped).map(Vec::as_slice) else { return symbol };
        let Some(Type::Packet(given, _)) = call.args().next().map(|packet| self.expr_type(&packet)) else {
            return symbol;
        };
        let takes = |function: &&Symbol| {
            let param = ast::Function::cast(function.node.clone()).and_then(|function| function.params().next());
            let taken =
                param.and_then(|param| param.ty()).map(|ty| self.type_of(function.module.as_deref(), Some(&ty), true));
            matches!(taken, Some(Type::Packet(protocol, _)) if protocol.name == given.name)
        };
        self.overloads[&scoped].iter().find(takes).cloned().unwrap_or(symbol)
    }
}

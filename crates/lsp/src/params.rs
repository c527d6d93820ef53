//! Modules with parameters: what stands for the parameters in each instance.

use baker::syntax::ast::{self, AstNode, ModuleParamKind};

use crate::model::{Kind, Model, Symbol};

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
}

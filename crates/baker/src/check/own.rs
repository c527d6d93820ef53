//! Checksums that are the program's own business: it writes the field itself.

use std::collections::HashSet;

use super::hir::{Code, Expr, ExprKind, LocalId, Program, Stmt, StmtKind, Type};

/// Handles whose checksum field the program itself writes: keeping it is then the program's own business.
pub(crate) struct OwnChecksum(HashSet<LocalId>);

impl OwnChecksum {
    /// Finds the handles of a PPF, and of the functions they are lent to, whose checksum field is written.
    pub fn find(program: &Program, code: &Code) -> OwnChecksum {
        let mut found = HashSet::new();
        visit(program, code, &code.body, &mut found);
        OwnChecksum(found)
    }

    pub fn has(&self, local: LocalId) -> bool {
        self.0.contains(&local)
    }
}

fn visit(program: &Program, code: &Code, statements: &[Stmt], found: &mut HashSet<LocalId>) {
    let mut exprs: Vec<&Expr> = Vec::new();
    for statement in statements {
        if let StmtKind::SetField(local, field, _) = &statement.kind
            && let Type::Packet(protocol) = code.locals[local.0 as usize].ty
            && program.protocols[protocol.0 as usize].checksum.is_some_and(|c| c.field == *field as usize)
        {
            found.insert(*local);
        }
        exprs.extend(statement.kind.expressions());
        for nested in statement.kind.nested() {
            visit(program, code, nested, found);
        }
    }
    while let Some(expr) = exprs.pop() {
        if let ExprKind::Call(function, arguments) = &expr.kind {
            let callee = &program.functions[function.0 as usize].code;
            let mut inside = HashSet::new();
            visit(program, callee, &callee.body, &mut inside);
            for (i, argument) in arguments.iter().enumerate() {
                if let ExprKind::Local(local) = argument.kind
                    && inside.contains(&LocalId(i as u32))
                {
                    found.insert(local);
                }
            }
        }
        expr.for_each_operand(|operand| exprs.push(operand));
    }
}

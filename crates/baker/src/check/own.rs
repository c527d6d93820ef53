//! Fields that are the program's own business, though the compiler keeps them elsewhere: checksums and lengths that the
//! program writes itself.

use std::collections::HashSet;

use super::hir::{Code, Expr, ExprKind, LocalId, Program, Stmt, StmtKind, Type};

/// Handles whose checksum or declared length the program itself writes: keeping it is then the program's own business.
pub(crate) struct OwnFields(HashSet<(LocalId, Kept)>);

/// What the compiler keeps of a header where the program does not.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Kept {
    Checksum,
    Length,
}

impl OwnFields {
    /// Finds the handles of a PPF, and of the functions they are lent to, of which such a field is written.
    pub fn find(program: &Program, code: &Code) -> OwnFields {
        let mut found = HashSet::new();
        visit(program, code, &code.body, &mut found);
        OwnFields(found)
    }

    /// Whether the program writes the handle's checksum.
    pub fn checksum(&self, local: LocalId) -> bool {
        self.0.contains(&(local, Kept::Checksum))
    }

    /// Whether the program writes the handle's declared length.
    pub fn length(&self, local: LocalId) -> bool {
        self.0.contains(&(local, Kept::Length))
    }
}

fn visit(program: &Program, code: &Code, statements: &[Stmt], found: &mut HashSet<(LocalId, Kept)>) {
    let mut exprs: Vec<&Expr> = Vec::new();
    for statement in statements {
        if let StmtKind::SetField(local, field, _) = &statement.kind
            && let Type::Packet(protocol) = code.locals[local.0 as usize].ty
        {
            let protocol = protocol.0 as usize;
            if program.protocols[protocol].checksum.is_some_and(|checksum| checksum.field == *field as usize) {
                found.insert((*local, Kept::Checksum));
            }
            if program.counts[protocol].is_some_and(|counts| counts.field == *field) {
                found.insert((*local, Kept::Length));
            }
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
                let ExprKind::Local(local) = argument.kind else { continue };
                for kept in [Kept::Checksum, Kept::Length] {
                    if inside.contains(&(LocalId(i as u32), kept)) {
                        found.insert((local, kept));
                    }
                }
            }
        }
        expr.for_each_operand(|operand| exprs.push(operand));
    }
}

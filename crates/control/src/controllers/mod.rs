//! The controllers that come with Millrace, by the names that programs wire.
//!
//! | controller | what it does |
//! |---|---|
//! | [`responder`] | answers ARP and ping: the example of docs/controllers.md |

pub mod responder;

use std::sync::Arc;

use baker::ir::Program;
use dataplane::controller::{Controller, ExternFn, ExternTable, MissingExterns, Named};

use crate::words::{did_you_mean, list};

/// A controller that can be started.
struct Known {
    name: &'static str,
    start: fn() -> Box<dyn Controller>,
}

const KNOWN: [Known; 1] = [Known { name: "responder", start: || Box::new(responder::Responder) }];

/// A program that needs what no controller has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControllersError {
    /// It is wired to a controller that is not known.
    #[error("there is no controller {name}{hint}\n  controllers: {known}")]
    Unknown {
        /// Its name in the program.
        name: String,
        /// `; did you mean …?`, or nothing.
        hint: String,
        /// Those that there are.
        known: String,
    },
    /// It calls functions that none has.
    #[error("{missing}\n  controllers: {known}")]
    Missing {
        /// The functions.
        missing: MissingExterns,
        /// The controllers that there are.
        known: String,
    },
}

/// The controllers that a program needs: those that it is wired to, and those whose functions it calls.
pub fn of_program(program: &Program) -> Result<Vec<Named>, ControllersError> {
    let names = || KNOWN.iter().map(|known| known.name);
    let wired = |name: &str| program.controllers.iter().any(|controller| controller.name == name);
    for controller in &program.controllers {
        if !names().any(|known| known == controller.name) {
            let (name, hint) = (controller.name.clone(), did_you_mean(&controller.name, names()));
            return Err(ControllersError::Unknown { name, hint, known: list(names()) });
        }
    }
    let mut missing: Vec<String> = program.externs.iter().map(|function| function.name.clone()).collect();
    let mut needed = Vec::new();
    for known in &KNOWN {
        // One that is only asked for its functions' names.
        let functions = (known.start)().externs();
        let calls = functions.iter().any(|(function, _)| missing.contains(function));
        if wired(known.name) || calls {
            missing.retain(|name| !functions.iter().any(|(function, _)| function == name));
            needed.push((known.name.to_owned(), (known.start)()));
        }
    }
    if !missing.is_empty() {
        return Err(ControllersError::Missing { missing: MissingExterns(missing), known: list(names()) });
    }
    Ok(needed)
}

/// The functions of all controllers, where the program calls any: for runs without controllers.
pub fn externs(program: &Program) -> Result<Option<Arc<ExternTable>>, ControllersError> {
    if program.externs.is_empty() {
        return Ok(None);
    }
    let all: Vec<(String, ExternFn)> = KNOWN.iter().flat_map(|known| (known.start)().externs()).collect();
    let table = ExternTable::new(program, all);
    let known = || list(KNOWN.iter().map(|known| known.name));
    table.map(Some).map_err(|missing| ControllersError::Missing { missing, known: known() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(program: &str) -> Program {
        let text = format!(
            "import \"net/ether\";\nmodule m {{ in ether input; out ether a; extern bool known(u8 n);\n\
             ppf p(ether_packet_t *p) from input {{ {program} channel_put(a, p); }} }}"
        );
        let end = if program.contains("echo") { "controller responser" } else { "tx" };
        let text = format!("{text}\nprogram {{ rx -> m.input; m.a -> {end}; }}");
        let found = baker::check::check("test.baker", &text, &baker::library::Library);
        baker::ir::lower(&found.program.unwrap_or_else(|| panic!("{:?}", found.diagnostics)))
    }

    #[test]
    fn what_is_missing_is_named_with_what_there_is() {
        let error = of_program(&program("p->metadata.tx.port = known(1) ? 1 : 2;")).err().unwrap().to_string();
        assert_eq!(error, "no controller has the function m.known\n  controllers: responder");
        let error = of_program(&program("/* echo */")).err().unwrap().to_string();
        assert_eq!(error, "there is no controller responser; did you mean `responder`?\n  controllers: responder");
    }
}

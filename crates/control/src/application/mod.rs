//! The controllers that come with Millrace, by the names that programs wire.
//!
//! | controller | what it does |
//! |---|---|
//! | [`collector`] | counts packets and serves the counts over HTTP: the example of a controller that is a server |
//! | [`firewall`] | compiles the rules of `apps/firewall`, logs what is denied |
//! | [`responder`] | answers ARP and ping: the example of docs/controllers.md |
//! | [`splice`] | accepts HTTP connections for `apps/splice`, chooses servers, joins connections |

pub mod collector;
pub mod figures;
pub mod firewall;
mod queries;
mod reloads;
pub mod responder;
pub mod splice;

use std::any::Any;
use std::sync::Arc;

use baker::ir::{Program, TableEntry, TableId};
use dataplane::controller::{Controller, ExternFn, ExternTable, MissingExterns, Named, NamedTables};

pub use self::queries::{Answer, Asked, Offer, Offered, Queries, QueryError, Registry};
pub use self::reloads::Reloads;
use crate::config::document::{self, Errors, Path, Value};
use crate::config::{PortNames, fill};
use crate::words::{did_you_mean, list};

/// What a controller's settings make.
#[derive(Clone, Debug, Default)]
pub struct Made {
    /// Entries of the program's tables.
    pub entries: Vec<(TableId, TableEntry)>,
    /// What the controller itself must know, in a type of its own.
    pub own: Option<Arc<dyn Any + Send + Sync>>,
}

/// Puts what settings make in force in these tables.
type Install = fn(&NamedTables, &Made) -> Result<(), String>;

/// A controller that can be started.
struct Known {
    name: &'static str,
    start: fn(&Ways) -> Box<dyn Controller>,
    /// What it makes of `[controllers.NAME]`, if it has settings.
    configure: Option<fn(&Section, &mut Errors, &mut Errors) -> Made>,
    /// Whether it does not run without.
    needs_settings: bool,
    /// Puts that in force in the tables of a program that is about to take over, if that takes more than to set the entries.
    install: Option<Install>,
    /// What it can be asked.
    offers: &'static [Offer],
}

/// How the rest of the system comes to a controller that runs.
#[derive(Clone, Debug, Default)]
struct Ways {
    reloads: Reloads,
    queries: Queries,
}

const KNOWN: [Known; 4] = [
    Known {
        name: "collector",
        start: |ways| Box::new(collector::Collector::new(ways.reloads.clone())),
        configure: Some(collector::configure),
        needs_settings: false,
        install: None,
        offers: &[],
    },
    Known {
        name: "firewall",
        start: |ways| Box::new(firewall::Firewall::new(ways.reloads.clone())),
        configure: Some(firewall::configure),
        needs_settings: false,
        install: Some(firewall::install),
        offers: &[],
    },
    Known {
        name: "responder",
        start: |_| Box::new(responder::Responder),
        configure: None,
        needs_settings: false,
        install: None,
        offers: &[],
    },
    Known {
        name: "splice",
        start: |ways| Box::new(splice::Splice::new(ways.reloads.clone(), ways.queries.clone())),
        configure: Some(splice::configure),
        needs_settings: true,
        install: None,
        offers: splice::OFFERS,
    },
];

/// The settings of a controller: `[controllers.NAME]` of a configuration.
pub(crate) struct Section<'s> {
    /// The program that they are for.
    pub program: &'s Program,
    /// Its ports.
    pub ports: &'s PortNames,
    /// The whole file.
    pub text: &'s str,
    /// The settings.
    pub value: &'s Value<'s>,
    /// Where they are.
    pub path: Path<'s>,
}

impl Section<'_> {
    /// The table `module.table`.
    fn table(&self, name: &str) -> Option<TableId> {
        self.program.tables.iter().position(|table| table.name == name).map(|index| TableId(index as u32))
    }
}

/// Reads `[controllers]`: what the settings of each of the program's controllers make.
pub(crate) fn configure(
    program: &Program,
    ports: &PortNames,
    text: &str,
    value: &Value,
    errors: &mut Errors,
    warnings: &mut Errors,
) -> Vec<(String, Made)> {
    let (root, mut made) = (Path::Root, Vec::new());
    let path = root.key("controllers");
    let Some(table) = document::table(value, &path, errors) else { return made };
    let wired = |known: &&Known| program.controllers.iter().any(|controller| controller.name == known.name);
    let names = || KNOWN.iter().filter(wired).filter(|known| known.configure.is_some()).map(|known| known.name);
    for (key, value) in table {
        let name: &str = key.get_ref();
        let path = path.key(name);
        let known = KNOWN.iter().filter(wired).find(|known| known.name == name);
        let Some(configure) = known.and_then(|known| known.configure) else {
            let problem =
                format!("the program has no controller of this name with settings{}", did_you_mean(name, names()));
            errors.add(key.span().start, &path, problem, list(names()));
            continue;
        };
        made.push((name.to_owned(), configure(&Section { program, ports, text, value, path }, errors, warnings)));
    }
    made
}

/// Puts what the settings of a controller make in force in the tables of a program that is about to take over.
pub fn install(name: &str, tables: &NamedTables, made: &Made) -> Result<(), String> {
    match KNOWN.iter().find(|known| known.name == name).and_then(|known| known.install) {
        Some(install) => install(tables, made),
        None => fill(tables.program(), &made.entries, &mut tables.access()).map_err(|error| error.to_string()),
    }
}

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
    /// A controller that needs settings has none.
    #[error("there is no [controllers.{0}] in the configuration, which that controller needs")]
    Unconfigured(&'static str),
}

/// Says to each what the settings of a configuration make, before it runs, or runs with another program.
pub fn begin(reloads: &[(&'static str, Reloads)], made: &[(String, Made)]) {
    for (name, reloads) in reloads {
        let made = made.iter().find(|(own, _)| own == name).map(|(_, made)| made.clone());
        reloads.begin(made.unwrap_or_default());
    }
}

/// The controllers of a program, ready to start.
pub struct Needed {
    /// Each with its name.
    pub controllers: Vec<Named>,
    /// By which new settings come to those that have some, by name.
    pub reloads: Vec<(&'static str, Reloads)>,
    /// Those that can be asked.
    pub asked: Vec<Asked>,
}

impl Needed {
    /// Says to each what the settings of a configuration make, before it runs.
    ///
    /// # Errors
    /// Where one needs settings and has none.
    pub fn begin(&self, made: &[(String, Made)]) -> Result<(), ControllersError> {
        let has = |name: &str| made.iter().any(|(own, _)| own == name);
        let needs = |name: &str| KNOWN.iter().any(|known| known.name == name && known.needs_settings);
        if let Some((name, _)) = self.reloads.iter().find(|(name, _)| needs(name) && !has(name)) {
            return Err(ControllersError::Unconfigured(name));
        }
        begin(&self.reloads, made);
        Ok(())
    }
}

/// The controllers that a program needs: those that it is wired to, and those whose functions it calls.
pub fn of_program(program: &Program) -> Result<Needed, ControllersError> {
    let names = || KNOWN.iter().map(|known| known.name);
    let wired = |name: &str| program.controllers.iter().any(|controller| controller.name == name);
    for controller in &program.controllers {
        if !names().any(|known| known == controller.name) {
            let (name, hint) = (controller.name.clone(), did_you_mean(&controller.name, names()));
            return Err(ControllersError::Unknown { name, hint, known: list(names()) });
        }
    }
    let mut missing: Vec<String> = program.externs.iter().map(|function| function.name.clone()).collect();
    let mut needed = Needed { controllers: Vec::new(), reloads: Vec::new(), asked: Vec::new() };
    for known in &KNOWN {
        // One that is only asked for its functions' names.
        let functions = (known.start)(&Ways::default()).externs();
        let calls = functions.iter().any(|(function, _)| missing.contains(function));
        if wired(known.name) || calls {
            missing.retain(|name| !functions.iter().any(|(function, _)| function == name));
            let ways = Ways::default();
            needed.controllers.push((known.name.to_owned(), (known.start)(&ways)));
            needed.reloads.extend(known.configure.map(|_| (known.name, ways.reloads)));
            if !known.offers.is_empty() {
                needed.asked.push(Asked { name: known.name, offers: known.offers, queries: ways.queries });
            }
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
    let all: Vec<(String, ExternFn)> =
        KNOWN.iter().flat_map(|known| (known.start)(&Ways::default()).externs()).collect();
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
        assert_eq!(
            error,
            "no controller has the function m.known\n  controllers: collector, firewall, responder, splice"
        );
        let error = of_program(&program("/* echo */")).err().unwrap().to_string();
        assert_eq!(
            error,
            "there is no controller responser; did you mean `responder`?\n  controllers: collector, firewall, responder, splice"
        );
    }
}

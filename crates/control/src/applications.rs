//! The applications that a binary is linked with, and what programs need of them.

use std::sync::Arc;

use baker::ir::Program;
use collectors::ipfix::Flows;
use dataplane::controller::{Controller, ExternFn, ExternTable, MissingExterns, Named, NamedTables};

use crate::application::{
    AnyReloads, AnySettings, Application, Given, Kept, Offer, Queries, QueryTarget, Reloads, Section, SettingsUse,
};
use crate::document::{self, Errors, Path, Value};
use crate::entries::{PortNames, fill};
use crate::messages::{did_you_mean, list};

/// An [`Application`] with settings of any type.
pub trait AnyApplication: Sync {
    /// See [`Application::NAME`].
    fn name(&self) -> &'static str;
    /// See [`Application::SETTINGS`].
    fn settings(&self) -> SettingsUse;
    /// See [`Application::QUERIES`].
    fn queries(&self) -> &'static [Offer];
    /// See [`Application::TELLS_FLOWS`].
    fn tells_flows(&self) -> bool;
    /// A new controller, and the way by which settings come to it.
    fn start(&self, queries: Queries, kept: Kept, flows: Flows) -> (Box<dyn Controller>, Arc<dyn AnyReloads>);
    /// See [`Application::serves`].
    fn serves(&self, program: &Program) -> bool;
    /// See [`Application::read`].
    fn read(&self, section: &Section, errors: &mut Errors, warnings: &mut Errors) -> AnySettings;
    /// See [`Application::install`].
    ///
    /// # Errors
    /// See there.
    fn install(&self, tables: &NamedTables, settings: &AnySettings) -> Result<(), String>;
}

impl<A: Application> AnyApplication for A {
    fn name(&self) -> &'static str {
        A::NAME
    }

    fn settings(&self) -> SettingsUse {
        A::SETTINGS
    }

    fn queries(&self) -> &'static [Offer] {
        A::QUERIES
    }

    fn tells_flows(&self) -> bool {
        A::TELLS_FLOWS
    }

    fn start(&self, queries: Queries, kept: Kept, flows: Flows) -> (Box<dyn Controller>, Arc<dyn AnyReloads>) {
        let reloads = Reloads::default();
        let given = Given { reloads: reloads.clone(), queries, kept, flows };
        (self.controller(given), Arc::new(reloads))
    }

    fn serves(&self, program: &Program) -> bool {
        Application::serves(self, program)
    }

    fn read(&self, section: &Section, errors: &mut Errors, warnings: &mut Errors) -> AnySettings {
        Application::read(self, section, errors, warnings).any()
    }

    fn install(&self, tables: &NamedTables, settings: &AnySettings) -> Result<(), String> {
        Application::install(self, tables, &settings.clone().typed())
    }
}

/// Those that a binary is linked with, in the order in which they are listed.
#[derive(Clone, Copy, Default)]
pub struct Applications(&'static [&'static dyn AnyApplication]);

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

/// What controllers keep beside tables, by name.
pub type KeptOfAll = Vec<(&'static str, Kept)>;

/// Controllers that take new settings, by name.
pub type SettingsWays = Vec<(&'static str, Arc<dyn AnyReloads>)>;

/// The controllers of a program, ready to start.
pub struct Needed {
    /// Each with its name.
    pub controllers: Vec<Named>,
    /// By which new settings come to those that have some, by name.
    pub reloads: SettingsWays,
    /// Those that can be asked.
    pub query_targets: Vec<QueryTarget>,
    /// What they keep beside tables.
    pub kept: KeptOfAll,
    /// Where they put flows that are over.
    pub flows: Flows,
    /// Those that do not run without settings.
    required: Vec<&'static str>,
}

/// Says to each what the settings of a configuration make, before it runs, or runs with another program.
pub fn begin(reloads: &SettingsWays, settings: &[(String, AnySettings)]) {
    for (name, reloads) in reloads {
        let own = settings.iter().find(|(own, _)| own == name).map(|(_, settings)| settings.clone());
        reloads.begin(own.unwrap_or_default());
    }
}

impl Needed {
    /// Says to each what the settings of a configuration make, before it runs.
    ///
    /// # Errors
    /// Where one needs settings and has none.
    pub fn begin(&self, settings: &[(String, AnySettings)]) -> Result<(), ControllersError> {
        let has = |name: &str| settings.iter().any(|(own, _)| own == name);
        if let Some(name) = self.required.iter().find(|name| !has(name)) {
            return Err(ControllersError::Unconfigured(name));
        }
        begin(&self.reloads, settings);
        Ok(())
    }
}

/// Whether a program is wired to an application's controller, or that serves it otherwise.
fn is_for(own: &dyn AnyApplication, program: &Program) -> bool {
    program.controllers.iter().any(|controller| controller.name == own.name()) || own.serves(program)
}

impl Applications {
    /// None: for programs without controllers.
    pub const NONE: Applications = Applications(&[]);

    /// These, whose names differ.
    pub const fn new(all: &'static [&'static dyn AnyApplication]) -> Applications {
        Applications(all)
    }

    /// Their names.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|own| own.name())
    }

    fn find(self, name: &str) -> Option<&'static dyn AnyApplication> {
        self.0.iter().copied().find(|own| own.name() == name)
    }

    /// Whether a controller of a program tells of flows that are over.
    pub(crate) fn tell_flows(self, program: &Program) -> bool {
        self.0.iter().any(|own| own.tells_flows() && is_for(*own, program))
    }

    /// Reads `[controllers]`: what the settings of each of the program's controllers make.
    pub(crate) fn read(
        self,
        program: &Program,
        ports: &PortNames,
        text: &str,
        value: &Value,
        errors: &mut Errors,
        warnings: &mut Errors,
    ) -> Vec<(String, AnySettings)> {
        let (root, mut all) = (Path::Root, Vec::new());
        let path = root.key("controllers");
        let Some(table) = document::table(value, &path, errors) else { return all };
        let has_settings =
            |own: &&&'static dyn AnyApplication| is_for(**own, program) && own.settings() != SettingsUse::None;
        for (key, value) in table {
            let name: &str = key.get_ref();
            let path = path.key(name);
            let Some(own) = self.0.iter().filter(has_settings).find(|own| own.name() == name) else {
                let names = || self.0.iter().filter(has_settings).map(|own| own.name());
                let hint = did_you_mean(name, names());
                let problem = format!("the program has no controller of this name with settings{hint}");
                errors.add(key.span().start, &path, problem, list(names()));
                continue;
            };
            all.push((name.to_owned(), own.read(&Section { program, ports, text, value, path }, errors, warnings)));
        }
        all
    }

    /// Puts what the settings of a controller make in force in the tables of a program that is about to take over.
    ///
    /// # Errors
    /// Why they can't be.
    pub fn install(self, name: &str, tables: &NamedTables, settings: &AnySettings) -> Result<(), String> {
        match self.find(name) {
            Some(own) => own.install(tables, settings),
            None => fill(tables.program(), &settings.entries, &mut tables.access()).map_err(|error| error.to_string()),
        }
    }

    /// The controllers that a program needs: those that it is wired to, those whose functions it calls, and those that
    /// serve it otherwise.
    ///
    /// # Errors
    /// What is in none of the applications.
    pub fn of_program(self, program: &Program) -> Result<Needed, ControllersError> {
        for controller in &program.controllers {
            if self.find(&controller.name).is_none() {
                let (name, hint) = (controller.name.clone(), did_you_mean(&controller.name, self.names()));
                return Err(ControllersError::Unknown { name, hint, known: list(self.names()) });
            }
        }
        let mut missing: Vec<String> = program.externs.iter().map(|function| function.name.clone()).collect();
        let (controllers, reloads) = (Vec::new(), Vec::new());
        let (query_targets, kept) = (Vec::new(), Vec::new());
        let flows = Flows::default();
        let mut needed =
            Needed { controllers, reloads, query_targets, kept, flows: flows.clone(), required: Vec::new() };
        for own in self.0 {
            // One that is only asked for its functions' names.
            let functions = own.start(Queries::default(), Kept::default(), Flows::default()).0.externs();
            let calls = functions.iter().any(|(function, _)| missing.contains(function));
            if !calls && !is_for(*own, program) {
                continue;
            }
            missing.retain(|name| !functions.iter().any(|(function, _)| function == name));
            let (queries, kept) = (Queries::default(), Kept::default());
            let (controller, reloads) = own.start(queries.clone(), kept.clone(), flows.clone());
            needed.controllers.push((own.name().to_owned(), controller));
            needed.kept.push((own.name(), kept));
            if own.settings() != SettingsUse::None {
                needed.reloads.push((own.name(), reloads));
            }
            if own.settings() == SettingsUse::Required {
                needed.required.push(own.name());
            }
            if !own.queries().is_empty() {
                needed.query_targets.push(QueryTarget { name: own.name(), offers: own.queries(), queries });
            }
        }
        if !missing.is_empty() {
            return Err(ControllersError::Missing { missing: MissingExterns(missing), known: list(self.names()) });
        }
        Ok(needed)
    }

    /// The functions of all controllers, where the program calls any: for runs without controllers.
    ///
    /// # Errors
    /// Those that none has.
    pub fn externs(self, program: &Program) -> Result<Option<Arc<ExternTable>>, ControllersError> {
        if program.externs.is_empty() {
            return Ok(None);
        }
        let all: Vec<(String, ExternFn)> = self
            .0
            .iter()
            .flat_map(|own| own.start(Queries::default(), Kept::default(), Flows::default()).0.externs())
            .collect();
        let table = ExternTable::new(program, all);
        table.map(Some).map_err(|missing| ControllersError::Missing { missing, known: list(self.names()) })
    }
}

#[cfg(test)]
mod tests {
    use dataplane::controller::Link;

    use super::*;
    use crate::application::CompiledSettings;

    struct Idle;

    impl Controller for Idle {
        fn run(&mut self, _: &mut Link) -> Result<(), String> {
            Ok(())
        }
    }

    /// Two that do nothing.
    struct Responder;
    struct Splice;

    impl Application for Responder {
        const NAME: &'static str = "responder";
        type Settings = ();

        fn controller(&self, _: Given<()>) -> Box<dyn Controller> {
            Box::new(Idle)
        }
    }

    impl Application for Splice {
        const NAME: &'static str = "splice";
        const SETTINGS: SettingsUse = SettingsUse::Required;
        type Settings = u8;

        fn controller(&self, _: Given<u8>) -> Box<dyn Controller> {
            Box::new(Idle)
        }

        fn read(&self, _: &Section, _: &mut Errors, _: &mut Errors) -> CompiledSettings<u8> {
            CompiledSettings { entries: Vec::new(), own: Some(Arc::new(7)) }
        }
    }

    const BOTH: Applications = Applications::new(&[&Responder, &Splice]);

    /// One that fills a table.
    struct Filler;

    impl Application for Filler {
        const NAME: &'static str = "filler";
        const SETTINGS: SettingsUse = SettingsUse::Optional;
        type Settings = u8;

        fn controller(&self, _: Given<u8>) -> Box<dyn Controller> {
            Box::new(Idle)
        }

        fn serves(&self, program: &Program) -> bool {
            program.tables.iter().any(|table| table.name == "m.known")
        }
    }

    fn program(program: &str) -> Program {
        declaring(if program.contains("known") { "extern bool known(u8 n);" } else { "" }, program)
    }

    fn declaring(known: &str, program: &str) -> Program {
        let text = format!(
            "import \"net/ether\";\nmodule m {{ in ether input; out ether a; {known}\n\
             ppf p(ether_packet_t *p) from input {{ {program} channel_put(a, p); }} }}"
        );
        let end = ["responser", "splice"].into_iter().find(|name| program.contains(name));
        let end = end.map_or("tx".to_owned(), |name| format!("controller {name}"));
        let text = format!("{text}\nprogram {{ rx -> m.input; m.a -> {end}; }}");
        let found = baker::check::check("test.baker", &text, &baker::library::Library);
        baker::ir::lower(&found.program.unwrap_or_else(|| panic!("{:?}", found.diagnostics)))
    }

    #[test]
    fn what_is_missing_is_named_with_what_there_is() {
        let error = BOTH.of_program(&program("p->metadata.tx.port = known(1) ? 1 : 2;")).err().unwrap().to_string();
        assert_eq!(error, "no controller has the function m.known\n  controllers: responder, splice");
        let error = BOTH.of_program(&program("/* responser */")).err().unwrap().to_string();
        assert_eq!(
            error,
            "there is no controller responser; did you mean `responder`?\n  controllers: responder, splice"
        );
    }

    #[test]
    fn a_controller_runs_for_the_table_that_it_fills() {
        const ALL: Applications = Applications::new(&[&Filler]);
        let names = |program: &Program| -> Vec<String> {
            let needed = ALL.of_program(program).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(needed.reloads.len(), needed.controllers.len());
            needed.controllers.into_iter().map(|(name, _)| name).collect()
        };
        assert!(names(&program("")).is_empty());
        assert_eq!(names(&declaring("hash<u32, u32> known[8];", "")), ["filler"]);
    }

    #[test]
    fn settings_come_to_the_controller_as_they_were_made() {
        let program = program("/* splice */");
        let needed = BOTH.of_program(&program).unwrap_or_else(|error| panic!("{error}"));
        let error = needed.begin(&[]).unwrap_err().to_string();
        assert_eq!(error, "there is no [controllers.splice] in the configuration, which that controller needs");
        let text = "[controllers.splice]\n";
        let mut errors = Errors::new("t.toml", text);
        let root = document::root(text, &mut errors);
        let (ports, mut warnings) = (PortNames::default(), Errors::new("t.toml", text));
        let compiled = BOTH.read(&program, &ports, text, root.get("controllers").unwrap(), &mut errors, &mut warnings);
        assert_eq!(compiled[0].1.clone().typed::<u8>().own.as_deref(), Some(&7));
        assert!(compiled[0].1.clone().typed::<u16>().own.is_none());
        assert_eq!(needed.begin(&compiled), Ok(()));
        assert!(errors.is_empty());
    }
}

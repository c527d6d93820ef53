//! The firewall as an application: its controller, and how rules are read and put in force.

use std::sync::Arc;

use baker::ir::{TableEntry, TableId};
use control::application::{Application, CompiledSettings, Given, Offer, Section, SettingsUse};
use control::document::Errors;
use dataplane::controller::{Controller, Link, NamedTables};

use super::rows::TooMany;
use super::run::{self, Settings};
use super::{compile, queries, rule, settings};

/// The instances of the module `rules`, by the number in `flow.active`. A configuration that is read goes to the first.
const SETS: [&str; 2] = ["blue", "green"];

/// The rules of `apps/firewall`.
pub struct FirewallApplication;

impl Application for FirewallApplication {
    const NAME: &'static str = "firewall";
    type Settings = Settings;
    const SETTINGS: SettingsUse = SettingsUse::Optional;
    const QUERIES: &'static [Offer] = queries::OFFERS;
    const TELLS_FLOWS: bool = true;

    fn controller(&self, given: Given<Settings>) -> Box<dyn Controller> {
        Box::new(Firewall { given })
    }

    /// The entries that the rules of a configuration make, for [`SETS`]`[0]`.
    fn read(&self, section: &Section, errors: &mut Errors, warnings: &mut Errors) -> CompiledSettings<Settings> {
        let (rules, accounting) = settings::read(section.value, &section.path, section.text, section.ports, errors);
        let at = section.value.span().start;
        if !errors.is_empty() {
            return CompiledSettings::default();
        }
        let made = compile::compile(&rules).unwrap_or_else(|TooMany(index)| {
            let which = rules[index].shown(index + 1);
            let problem = format!("the look-up tables have no room for {which}");
            errors.add(
                at,
                &section.path,
                problem,
                "fewer rules that name wide prefixes or ranges along with narrow ones",
            );
            Vec::new()
        });
        for (index, earlier) in rule::shadowed(&rules) {
            let (own, first) = (&rules[index], &rules[earlier]);
            let end = match (own.permit == first.permit, first.permit) {
                (true, _) => "does the same",
                (false, true) => "permits",
                (false, false) => "denies",
            };
            let problem = format!(
                "no packet reaches {}: {} matches all that it matches, and {end}{}",
                own.shown(index + 1),
                first.shown(earlier + 1),
                if own.permit == first.permit { "" } else { " it" },
            );
            let path = section.path.key("rules");
            let line_start = section.text.split_inclusive('\n').take(own.line - 1).map(str::len).sum();
            warnings.add(line_start, &path.index(index), problem, "");
        }
        let entry = |(table, entry): (&str, TableEntry)| Some((section.table(&format!("{}.{table}", SETS[0]))?, entry));
        let own = Settings { names: rules.into_iter().map(|rule| rule.name).collect(), accounting };
        CompiledSettings { entries: made.into_iter().filter_map(entry).collect(), own: Some(Arc::new(own)) }
    }

    fn install(&self, tables: &NamedTables, settings: &CompiledSettings<Settings>) -> Result<(), String> {
        install(tables, settings)
    }
}

/// The controller.
#[derive(Debug)]
pub struct Firewall {
    given: Given<Settings>,
}

impl Controller for Firewall {
    fn run(&mut self, link: &mut Link) -> Result<(), String> {
        run::run(&self.given, link)
    }
}

/// Puts rules in force while packets pass: the set that no packet asks is made anew, then all packets ask it at once.
pub(super) fn install(tables: &NamedTables, settings: &CompiledSettings<Settings>) -> Result<(), String> {
    let mut active = tables.table::<u32, u8>("flow.active").map_err(|error| error.to_string())?;
    let now = active.get(&0).unwrap_or(0);
    let next = 1 - usize::from(now & 1);
    fill(tables, &settings.entries, SETS[next])?;
    active.set(&0, &(next as u8)).map_err(|error| format!("table flow.active: {error}"))
}

/// Makes the tables of one set of rules hold what was made for the first.
fn fill(tables: &NamedTables, made: &[(TableId, TableEntry)], set: &str) -> Result<(), String> {
    let program = tables.program();
    for (id, table) in (0u32..).zip(&program.tables) {
        let name = |set: &str| table.name.strip_prefix(set)?.strip_prefix('.');
        let Some(name) = name(SETS[0]) else { continue };
        let entries: Vec<&TableEntry> = made.iter().filter(|(own, _)| own.0 == id).map(|(_, entry)| entry).collect();
        let name = format!("{set}.{name}");
        let own =
            program.tables.iter().position(|table| table.name == name).ok_or(format!("there is no table {name}"))?;
        let replaced = tables.replace(TableId(own as u32), &entries);
        replaced.map_err(|error| format!("table {name}: {error}"))?;
    }
    Ok(())
}

//! What is different in the tables of two configurations, and how it comes into force while packets are processed.

use std::collections::HashMap;

use baker::ir::{Program, TableEntry, TableId, TableStore};

use super::file::Config;
use crate::entries::{FillError, fill};

/// Entries that a new configuration has and an old one has not, or otherwise; and the other way round. What else is in
/// the tables, because packets or the control plane put it there, is in neither.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// To be set, in the order of the file.
    pub set: Vec<(TableId, TableEntry)>,
    /// To be removed, as they were.
    pub removed: Vec<(TableId, TableEntry)>,
}

/// Between entries that a configuration had, by the names of their tables, and those that it has. Of tables that are
/// not `carried` all entries are to be set.
pub fn changes(
    configured: &[(String, TableEntry)],
    (program, config): (&Program, &Config),
    carried: impl Fn(TableId) -> bool,
) -> Changes {
    let id = |name: &str| program.tables.iter().position(|table| table.name == name).map(|id| TableId(id as u32));
    let mut before: HashMap<(TableId, &[u128], Option<u32>), &TableEntry> = HashMap::new();
    for (table, entry) in configured {
        let Some(table) = id(table).filter(|id| carried(*id)) else { continue };
        before.insert((table, &entry.key, entry.prefix_len), entry);
    }
    let mut changes = Changes::default();
    for (table, entry) in &config.entries {
        let known = before.remove(&(*table, &entry.key[..], entry.prefix_len));
        if known.is_none_or(|known| known.value != entry.value) {
            changes.set.push((*table, entry.clone()));
        }
    }
    changes.removed = before.into_iter().map(|((table, ..), entry)| (table, entry.clone())).collect();
    changes
        .removed
        .sort_by(|(a, one), (b, other)| (a, &one.key, one.prefix_len).cmp(&(b, &other.key, other.prefix_len)));
    changes
}

impl Changes {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.removed.is_empty()
    }

    /// Sets what is to be set. Where a table refuses an entry all are as they were; otherwise the result can make them
    /// so.
    pub fn set<S: TableStore + ?Sized>(&self, program: &Program, tables: &mut S) -> Result<Undo, FillError> {
        let before = |(table, entry): &(TableId, TableEntry)| {
            let value = tables.get(*table, &entry.key, entry.prefix_len).ok();
            (*table, entry.clone(), value)
        };
        let undo = Undo(self.set.iter().map(before).collect());
        match fill(program, &self.set, tables) {
            Ok(()) => Ok(undo),
            Err(error) => {
                undo.undo(tables);
                Err(error)
            }
        }
    }

    /// Removes what is to be removed, if it is still there.
    pub fn remove<S: TableStore + ?Sized>(&self, tables: &mut S) {
        for (table, entry) in &self.removed {
            // It may have been removed meanwhile.
            let _ = tables.remove(*table, &entry.key, entry.prefix_len);
        }
    }
}

/// What entries were before they were set; no value where there was none.
#[derive(Debug)]
pub struct Undo(Vec<(TableId, TableEntry, Option<Vec<u128>>)>);

impl Undo {
    /// Makes them so again.
    pub fn undo<S: TableStore + ?Sized>(self, tables: &mut S) {
        for (table, entry, before) in self.0.into_iter().rev() {
            // What cannot be put back was not changed, or was changed since.
            let _ = match before {
                Some(value) => tables.insert(table, &TableEntry { value, ..entry }),
                None => tables.remove(table, &entry.key, entry.prefix_len),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use baker::ir::interp::Machine;

    use super::*;
    use crate::applications::Applications;

    fn program(declared: &str) -> Program {
        let text = format!(
            "import \"net/ether\";\nmodule m {{ in ether input; out ether output; {declared}\n\
             ppf p(ether_packet_t *p) from input {{ channel_put(output, p); }} }}\n\
             program {{ rx -> m.input; m.output -> tx; }}"
        );
        let found = baker::check::check("test.baker", &text, &baker::library::Library);
        baker::ir::lower(&found.program.unwrap_or_else(|| panic!("{:?}", found.diagnostics)))
    }

    fn config(program: &Program, tables: &str) -> Config {
        Config::parse("test.toml", tables, program, Applications::NONE).unwrap_or_else(|errors| panic!("{errors:?}"))
    }

    #[test]
    fn only_what_differs_changes_and_what_others_set_stays() {
        let old = program("hash<u32, u32> a[2]; array<u32> b[8];");
        let new = program("array<u32> b[8]; array<u32> c[8]; hash<u32, u32> a[2];");
        let before = config(&old, "[tables.m.a]\n1 = 10\n2 = 20\n[tables.m.b]\n3 = 30\n");
        let after = config(&new, "[tables.m.a]\n2 = 21\n[tables.m.b]\n3 = 30\n4 = 40\n[tables.m.c]\n5 = 50\n");
        let found = changes(&before.configured(&old), (&new, &after), |table| table != TableId(1));
        let of = |list: &[(TableId, TableEntry)]| -> Vec<_> {
            list.iter().map(|(table, entry)| (table.0, entry.key[0], entry.value[0])).collect()
        };
        let mut set = of(&found.set);
        set.sort();
        assert_eq!((set, of(&found.removed)), (vec![(0, 4, 40), (1, 5, 50), (2, 2, 21)], vec![(2, 1, 10)]));
        assert!(changes(&after.configured(&new), (&new, &after), |_| true).is_empty());

        let mut machine = Machine::new(new.clone());
        let entry = |key, value| TableEntry { key: vec![key], prefix_len: None, value: vec![value] };
        [(1, 10), (2, 20)].iter().for_each(|&(key, value)| machine.insert(TableId(2), &entry(key, value)).unwrap());
        machine.insert(TableId(0), &entry(7, 70)).unwrap();
        found.set(&new, &mut machine).unwrap();
        found.remove(&mut machine);
        let dump = |machine: &Machine, table| {
            machine.dump(TableId(table)).iter().map(|e| (e.key[0], e.value[0])).collect::<Vec<_>>()
        };
        assert_eq!(dump(&machine, 2), [(2, 21)]);
        assert_eq!(dump(&machine, 0), [(4, 40), (7, 70)]);
    }

    #[test]
    fn where_an_entry_is_refused_all_is_as_it_was() {
        let program = program("hash<u32, u32> a[2]; array<u32> b[8];");
        let before = config(&program, "[tables.m.b]\n3 = 30\n");
        let after = config(&program, "[tables.m.b]\n3 = 31\n[tables.m.a]\n1 = 1\n2 = 2\n");
        let mut machine = Machine::new(program.clone());
        let entry = |key, value| TableEntry { key: vec![key], prefix_len: None, value: vec![value] };
        machine.insert(TableId(1), &entry(3, 30)).unwrap();
        // The program has learnt one.
        machine.insert(TableId(0), &entry(9, 90)).unwrap();
        let found = changes(&before.configured(&program), (&program, &after), |_| true);
        assert!(found.set(&program, &mut machine).is_err());
        assert_eq!(machine.get(TableId(1), &[3], None), Ok(vec![30]));
        assert_eq!(machine.dump(TableId(0)), [entry(9, 90)]);
    }
}

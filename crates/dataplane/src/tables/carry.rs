//! What becomes of tables where one program takes over from another.

use std::fmt;

use baker::ir::{Layout, Program, Table, TableId, TableKind};
use codegen::abi::is_dir_24_8;

/// What a new program's table has at first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carried {
    /// It is the old program's table, as it is declared the same; nothing moves, and both programs see all changes.
    Kept(TableId),
    /// The entries of the old program's table, which has another form. Only where packets change neither.
    Copied(TableId, String),
    /// Nothing: the old program has no such table.
    New,
    /// Nothing, though the old program has a table with this name, and why.
    Emptied(String),
}

/// In words that go on "table … is …".
impl fmt::Display for Carried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Carried::Kept(_) => f.write_str("kept"),
            Carried::Copied(_, why) => write!(f, "copied, because {why}"),
            Carried::New => f.write_str("new"),
            Carried::Emptied(why) => write!(f, "empty, because {why}"),
        }
    }
}

/// For each table of a new program, what it has of the tables of the old one. Tables are known by their full names.
pub fn carried(old: &Program, new: &Program) -> Vec<Carried> {
    let (old_written, new_written) = (old.written_tables(), new.written_tables());
    let of = |(index, table): (usize, &Table)| {
        let Some(id) = old.tables.iter().position(|before| before.name == table.name) else { return Carried::New };
        let (before, written) = (&old.tables[id], (old_written[id], new_written[index]));
        let id = TableId(id as u32);
        if let Some(why) = meaning(old, before, new, table) {
            return Carried::Emptied(why);
        }
        match tier(old, before, new, table, written) {
            None => Carried::Kept(id),
            Some(why) if written == (false, false) => Carried::Copied(id, why),
            Some(why) => Carried::Emptied(format!("{why}, and packets change its entries")),
        }
    };
    new.tables.iter().enumerate().map(of).collect()
}

/// Why the entries of one table mean nothing to the other.
fn meaning(old: &Program, before: &Table, new: &Program, table: &Table) -> Option<String> {
    let kinds = [before, table].map(Table::kind_row);
    if kinds[0] != kinds[1] {
        return Some(format!("it was {} and is {} now", kinds[0].article, kinds[1].article));
    }
    if before.hold != table.hold {
        return Some("what it holds was changed".into());
    }
    let metadata =
        [old, new].map(|program| program.metadata.iter().map(|field| (&field.name, field.width, field.offset)));
    let [before_metadata, metadata] = metadata;
    if table.hold.is_some() && !before_metadata.eq(metadata) {
        return Some("the metadata was changed".into());
    }
    if before.group.map(|group| group.groups) != table.group.map(|group| group.groups) {
        return Some("the number of its groups was changed".into());
    }
    if before.meter != table.meter {
        return Some("its rate was changed".into());
    }
    let keys = [(old, before), (new, table)].map(|(program, table)| &program.layouts[table.key.0 as usize]);
    if !same(keys[0], keys[1]) {
        return Some("its key was changed".into());
    }
    (!same(&old.shown_value(before), &new.shown_value(table))).then(|| "its value was changed".into())
}

/// Whether fields have the same names, widths and places. What types are called, and names of values, do not matter.
fn same(a: &Layout, b: &Layout) -> bool {
    let field = |f: &baker::ir::LayoutField| (f.name.clone(), f.width, f.signed, f.is_reason(), f.offset);
    a.fields.iter().map(field).eq(b.fields.iter().map(field))
}

/// How two tables with the same entries differ.
fn tier(old: &Program, before: &Table, new: &Program, table: &Table, written: (bool, bool)) -> Option<String> {
    if before.capacity != table.capacity {
        return Some(format!("its size was changed from {} to {}", before.capacity, table.capacity));
    }
    let has_deadlines = |program: &Program, name: &str| {
        program.deadline_timers().any(|(_, id)| program.tables[id.0 as usize].name == name)
    };
    if has_deadlines(old, &before.name) != has_deadlines(new, &table.name) {
        return Some("its entries have deadlines in one of the programs".into());
    }
    let hidden = |table: &Table| (table.idle.is_some(), table.locked);
    let all = [(old, before), (new, table)].map(|(program, table)| &program.layouts[table.value.0 as usize]);
    if hidden(before) != hidden(table) || all[0].size != all[1].size || all[0].align != all[1].align {
        return Some("what is kept beside its values was changed".into());
    }
    // Tables that packets only read are laid out otherwise.
    let differs = written.0 != written.1 && table.kind != TableKind::Hash;
    (differs || is_dir_24_8(old, before) != is_dir_24_8(new, table))
        .then(|| if written.1 { "packets change it now" } else { "packets do not change it any more" }.into())
}

//! Kinds of tables as programs write them, one row each: what may be done with the tables of a kind, and by which side.
//!
//! The checker refuses what a row does not allow, the verifier what gets past the checker; carried state, the control
//! plane and editors name kinds by these rows.

use super::program::{Table, TableKind};

/// A kind of table, as programs declare it. [`TableKind`] is how it is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeclaredKind {
    /// `array<V>`
    Array,
    /// `hash<K, V>`
    Hash,
    /// `set<K>`
    Set,
    /// `lpm<K, V>`
    Lpm,
    /// `hold<P>`
    Hold,
    /// `group<V>`
    Group,
    /// `meter`
    Meter,
}

/// What there is to know of a kind of table.
#[derive(Debug, PartialEq, Eq)]
pub struct KindRow {
    /// The kind.
    pub declared: DeclaredKind,
    /// How it is written.
    pub name: &'static str,
    /// With its article.
    pub article: &'static str,
    /// How its tables are searched.
    pub searched: TableKind,
    /// Types between `<` and `>`.
    pub types: usize,
    /// PPFs and timers may insert entries, or replace them.
    pub inserts: bool,
    /// They may remove entries.
    pub removes: bool,
    /// Entries may age (`idle`).
    pub ages: bool,
    /// A timer may go over it.
    pub timers: bool,
    /// Values of other tables may be its keys (`into`).
    pub led_into: bool,
    /// What a look-up yields and what it costs, as Markdown.
    pub text: &'static str,
}

/// All kinds.
pub static KINDS: [KindRow; 7] = [
    KindRow {
        declared: DeclaredKind::Array,
        name: "array",
        article: "an array",
        searched: TableKind::Array,
        types: 1,
        inserts: true,
        removes: false,
        ages: false,
        timers: true,
        led_into: true,
        text: "A look-up is a value (zeros beyond the end), or a pointer (`null` beyond the end).",
    },
    KindRow {
        declared: DeclaredKind::Hash,
        name: "hash",
        article: "a hash",
        searched: TableKind::Hash,
        types: 2,
        inserts: true,
        removes: true,
        ages: true,
        timers: true,
        led_into: true,
        text: "A look-up is a pointer to the value, or `null`; one hash and compare.",
    },
    KindRow {
        declared: DeclaredKind::Set,
        name: "set",
        article: "a set",
        searched: TableKind::Hash,
        types: 1,
        inserts: true,
        removes: true,
        ages: true,
        timers: true,
        led_into: true,
        text: "A look-up tells whether the key is a member; one hash and compare.",
    },
    KindRow {
        declared: DeclaredKind::Lpm,
        name: "lpm",
        article: "an lpm",
        searched: TableKind::Lpm,
        types: 2,
        inserts: false,
        removes: false,
        ages: false,
        timers: false,
        led_into: false,
        text: "A look-up is a pointer to the value of the longest matching prefix, or `null`; with keys of 32 bits two \
               array accesses at most (DIR-24-8), else one node of a trie per 8 bits.",
    },
    KindRow {
        declared: DeclaredKind::Hold,
        name: "hold",
        article: "a hold table",
        searched: TableKind::Array,
        types: 1,
        inserts: false,
        removes: false,
        ages: false,
        timers: false,
        led_into: false,
        text: "Packets by number: `hold_put` keeps one, `hold_get` yields a copy of it, or `null`. Where there are as many \
               as it may have, the one that was put there first makes room.",
    },
    KindRow {
        declared: DeclaredKind::Group,
        name: "group",
        article: "a group",
        searched: TableKind::Hash,
        types: 1,
        inserts: false,
        removes: false,
        ages: false,
        timers: false,
        led_into: false,
        text: "Groups of members, each with a value: `channel_put_all` gives each member of one a packet of its own, and \
               `group_member` yields a pointer to the value of a packet's member, or `null`.",
    },
    // It is declared in a way of its own, and named by `meter_take` alone.
    KindRow {
        declared: DeclaredKind::Meter,
        name: "meter",
        article: "a meter",
        searched: TableKind::Array,
        types: 0,
        inserts: false,
        removes: false,
        ages: false,
        timers: false,
        led_into: false,
        text: "A token bucket, or an array of them.",
    },
];

impl KindRow {
    /// A type of this kind as programs write it, with these types of keys and values.
    pub fn written(&self, key: &str, value: &str) -> String {
        let name = self.name;
        match (self.types, self.declared) {
            (0, _) | (_, DeclaredKind::Hold) => name.into(),
            (1, DeclaredKind::Set) => format!("{name}<{key}>"),
            (1, _) => format!("{name}<{value}>"),
            _ => format!("{name}<{key}, {value}>"),
        }
    }
}

impl DeclaredKind {
    /// The kind that is written so.
    pub fn named(name: &str) -> Option<DeclaredKind> {
        KINDS.iter().find(|row| row.name == name).map(|row| row.declared)
    }

    /// Its row.
    pub fn row(self) -> &'static KindRow {
        KINDS.iter().find(|row| row.declared == self).expect("each kind has a row")
    }
}

impl Table {
    /// Its kind as the program declares it.
    pub fn declared_kind(&self) -> DeclaredKind {
        match self.kind {
            TableKind::Array if self.meter.is_some() => DeclaredKind::Meter,
            TableKind::Array if self.hold.is_some() => DeclaredKind::Hold,
            TableKind::Array => DeclaredKind::Array,
            TableKind::Hash if self.group.is_some() => DeclaredKind::Group,
            TableKind::Hash if self.is_set => DeclaredKind::Set,
            TableKind::Hash => DeclaredKind::Hash,
            TableKind::Lpm => DeclaredKind::Lpm,
        }
    }

    /// The row of its kind.
    pub fn kind_row(&self) -> &'static KindRow {
        self.declared_kind().row()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_written_as_programs_declare_them() {
        let written = KINDS.iter().map(|row| row.written("K", "V")).collect::<Vec<_>>();
        assert_eq!(written, ["array<V>", "hash<K, V>", "set<K>", "lpm<K, V>", "hold", "group<V>", "meter"]);
        assert!(KINDS.iter().all(|row| DeclaredKind::named(row.name) == Some(row.declared)));
    }
}

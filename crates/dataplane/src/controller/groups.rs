//! Groups by name, with members' values of a Rust type.

use std::marker::PhantomData;

use baker::ir::{TableError, TableId, TableStore};

use super::error::NameError;
use super::record::{Fields, Record, fields_of};
use super::tables::NamedTables;
use crate::engine::TableAccess;

impl NamedTables {
    /// The groups `module.group`. Members' values must have as many fields as the type says. As a table
    /// ([`NamedTables::table`]) they have keys of a group and a member's number, `(u32, u32)`.
    pub fn group<V: Record>(&self, name: &str) -> Result<Group<V>, NameError> {
        let tables = &self.program().tables;
        let groups = || tables.iter().filter(|table| table.group.is_some());
        let Some(index) = tables.iter().position(|table| table.name == name && table.group.is_some()) else {
            let known = groups().map(|table| table.name.clone()).collect();
            return Err(NameError::Unknown { what: "group", name: name.to_owned(), known });
        };
        let value = self.program().shown_value(&tables[index]).fields.len();
        if value != V::FIELDS {
            return Err(NameError::Shape { table: name.to_owned(), key: 2, value, prefix: false });
        }
        Ok(Group { id: TableId(index as u32), tables: self.access(), types: PhantomData })
    }
}

/// Groups of one declaration. May be used from any thread while packets are processed; none waits for it.
///
/// Who joins gets packets that are put to the group from then on, and those that are under way to its members or not.
/// Who has left gets none any more, but for copies that are made already.
#[derive(Clone, Debug)]
pub struct Group<V> {
    id: TableId,
    tables: TableAccess,
    types: PhantomData<fn() -> V>,
}

impl<V: Record> Group<V> {
    /// Adds a member to a group, under the least number that no other one of the group has; which. `Full` where there
    /// are as many members as may be, `OutOfRange` where there is no such group.
    pub fn join(&self, group: u32, value: &V) -> Result<u32, TableError> {
        self.tables.join(self.id, group, &fields_of(value))
    }

    /// Takes a member out of a group; whether it was there.
    pub fn leave(&mut self, group: u32, member: u32) -> bool {
        self.tables.remove(self.id, &[group.into(), member.into()], None).is_ok()
    }

    /// The value of a member. `None` where there is none, or where its numbers do not fit the type.
    pub fn get(&self, group: u32, member: u32) -> Option<V> {
        let mut value = Fields::from_elem(0, V::FIELDS);
        self.tables.get_to(self.id, &[group.into(), member.into()], None, &mut value).ok()?;
        V::from_fields(&value)
    }

    /// Replaces the value of a member as a whole; one that is not there joins under this number.
    pub fn set(&self, group: u32, member: u32, value: &V) -> Result<(), TableError> {
        self.tables.set(self.id, &[group.into(), member.into()], None, &fields_of(value))
    }

    /// The members of a group as they are now, by their numbers.
    pub fn members(&self, group: u32) -> Vec<(u32, V)> {
        let members = self.tables.members(self.id, group).into_iter();
        members.filter_map(|member| Some((member, self.get(group, member)?))).collect()
    }

    /// Members of all groups.
    pub fn len(&self) -> usize {
        self.tables.count(self.id)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

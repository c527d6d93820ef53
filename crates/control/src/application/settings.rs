//! What an application makes of its controller's section of the configuration.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use baker::ir::{Program, TableEntry, TableId};

use crate::document::{Path, Value};
use crate::entries::PortNames;

/// What the settings of a controller make: entries of the program's tables, and what is in no table.
pub struct CompiledSettings<S: ?Sized> {
    /// Entries of the program's tables.
    pub entries: Vec<(TableId, TableEntry)>,
    /// What the controller itself must know.
    pub own: Option<Arc<S>>,
}

/// [`CompiledSettings`] of any application.
pub type AnySettings = CompiledSettings<dyn Any + Send + Sync>;

impl<S: ?Sized> Default for CompiledSettings<S> {
    fn default() -> Self {
        CompiledSettings { entries: Vec::new(), own: None }
    }
}

impl<S: ?Sized> Clone for CompiledSettings<S> {
    fn clone(&self) -> Self {
        CompiledSettings { entries: self.entries.clone(), own: self.own.clone() }
    }
}

impl<S: ?Sized> fmt::Debug for CompiledSettings<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CompiledSettings { entries, own } = self;
        f.debug_struct("CompiledSettings").field("entries", entries).field("own", &own.is_some()).finish()
    }
}

impl<S: Send + Sync + 'static> CompiledSettings<S> {
    /// As those of any application.
    pub fn any(self) -> AnySettings {
        CompiledSettings { entries: self.entries, own: self.own.map(|own| own as Arc<dyn Any + Send + Sync>) }
    }
}

impl AnySettings {
    /// As those of the application that made them. Those of another one are without what is its own.
    pub fn typed<S: Send + Sync + 'static>(self) -> CompiledSettings<S> {
        CompiledSettings { entries: self.entries, own: self.own.and_then(|own| own.downcast().ok()) }
    }
}

/// `[controllers.NAME]` of a configuration.
pub struct Section<'s> {
    /// The program that it is for.
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
    /// The table `module.table`, if the program has it.
    pub fn table(&self, name: &str) -> Option<TableId> {
        self.program.tables.iter().position(|table| table.name == name).map(|index| TableId(index as u32))
    }
}

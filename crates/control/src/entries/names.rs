//! Names of ports, which entries may have in place of numbers.

use dataplane::PortConfig;

/// Names and numbers of ports: a number may be written as the name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortNames(pub(crate) Vec<(String, u8)>);

impl PortNames {
    /// The names of an instance's ports.
    pub fn new(ports: &[PortConfig]) -> Self {
        PortNames(ports.iter().map(|port| (port.spec.name.clone(), port.number)).collect())
    }

    /// The number of a port.
    pub fn number(&self, name: &str) -> Option<u8> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, number)| *number)
    }

    /// The name of a port.
    pub fn name(&self, number: u8) -> Option<&str> {
        self.0.iter().find(|(_, known)| *known == number).map(|(name, _)| name.as_str())
    }

    /// The name of a port, or its number where it has none.
    pub fn shown(&self, number: u8) -> String {
        self.name(number).map_or_else(|| number.to_string(), str::to_owned)
    }

    /// Adds one whose name and number are new.
    pub(crate) fn add(&mut self, name: &str, number: u8) {
        self.0.push((name.to_owned(), number));
        self.0.sort_by_key(|(_, number)| *number);
    }

    /// All names, by number.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }
}

//! The prefixes of one field of all rules, as nested as they are.

use std::collections::HashMap;
use std::ops::Range;

use super::rule::Net;

/// Prefixes in order, each before those within it.
#[derive(Debug, Default)]
pub struct Nets {
    nets: Vec<Net>,
    /// The smallest one around each.
    parents: Vec<Option<usize>>,
    /// Behind the last one within each.
    ends: Vec<usize>,
    places: HashMap<Net, usize>,
}

impl Nets {
    /// Of all these.
    pub fn new(nets: impl IntoIterator<Item = Net>) -> Nets {
        let mut nets: Vec<Net> = nets.into_iter().collect();
        nets.sort_unstable();
        nets.dedup();
        let mut found = Nets { ends: vec![nets.len(); nets.len()], ..Nets::default() };
        let mut around: Vec<usize> = Vec::new();
        for (index, net) in nets.iter().enumerate() {
            while let Some(outer) = around.pop_if(|outer| !nets[*outer].covers(net)) {
                found.ends[outer] = index;
            }
            found.parents.push(around.last().copied());
            around.push(index);
        }
        found.places = nets.iter().enumerate().map(|(index, net)| (*net, index)).collect();
        found.nets = nets;
        found
    }

    /// All of them.
    pub fn all(&self) -> &[Net] {
        &self.nets
    }

    /// The smallest one around another.
    pub fn parent(&self, index: usize) -> Option<usize> {
        self.parents[index]
    }

    /// A prefix and those within it.
    pub fn within(&self, net: &Net) -> Range<usize> {
        let index = self.places[net];
        index..self.ends[index]
    }

    /// The place of a prefix.
    pub fn place(&self, net: &Net) -> usize {
        self.places[net]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_lie_in_each_other() {
        let net = |text| Net::parse(text).unwrap();
        let texts = ["10.0.0.0/8", "10.1.0.0/16", "10.1.2.0/24", "10.2.0.0/16", "11.0.0.0/8", "::/0", "2001::/16"];
        let nets = Nets::new(texts.into_iter().rev().map(net));
        assert_eq!(nets.all(), texts.map(net));
        let parents: Vec<_> = (0..7).map(|index| nets.parent(index)).collect();
        assert_eq!(parents, [None, Some(0), Some(1), Some(0), None, None, Some(5)]);
        assert_eq!(nets.within(&net("10.0.0.0/8")), 0..4);
        assert_eq!(nets.within(&net("10.1.0.0/16")), 1..3);
        assert_eq!(nets.within(&net("11.0.0.0/8")), 4..5);
        assert_eq!(nets.within(&net("::/0")), 5..7);
    }
}

//! Ordered rules to the look-up tables of the module `rules` in `apps/firewall`.
//!
//! ```text
//! 1 permit       from any         to 10.0.1.80   tcp 443        by destination   }  the smallest number of
//! 2 deny         from 192.0.2/24  to any                        by source         } what four look-ups find
//! 3 permit       from 10.9.0.1    to 10.0.1.22   tcp 22         by both           }
//! 4 deny         from any         to any         udp            without           }
//! ```
//!
//! Each field of a packet leads to a class: of all addresses in the same prefixes, of all ports in the same ranges. Classes are
//! joined (Gupta and McKeown, "Packet Classification on Multiple Fields", SIGCOMM 1999), but not all with all: the product
//! of all sources and all destinations would be far larger than the rules. A rule that names one address is kept with the classes of
//! this one, and only those that name both make pairs. In the same way a rule without ports is kept with the protocol alone.
//! The number of look-ups stays the same however many rules there are; what grows is memory, and beyond what
//! the tables hold the rules are refused.

use std::collections::HashMap;

use baker::ir::TableEntry;

use super::addresses::Nets;
use super::rule::{Net, Rule};
use super::services::{Entries, Ports};

/// Rules at most: the program counts them from 1.
pub const MAX_RULES: usize = 16384;
/// Entries that `pairs` and `decisions` hold.
const MAX_PAIRS: usize = 1 << 18;
const MAX_DECISIONS: usize = 1 << 19;
/// Steps of the compilation at most: it ends within seconds, also where the rules are refused.
const MAX_STEPS: usize = 1 << 26;

/// Entries by table of the module.
pub type LookUps = Vec<(&'static str, TableEntry)>;

/// The rules need more room than the tables have. Holds the index of the rule that is too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany(pub usize);

/// The entries of all tables.
pub fn compile(rules: &[Rule]) -> Result<LookUps, TooMany> {
    let mut compiler = Compiler::new(rules);
    compiler.addresses()?;
    compiler.decisions()?;
    Ok(compiler.entries)
}

/// Rules that are asked about the services of a packet, by index, in order.
type Class = Vec<u32>;

struct Compiler<'r> {
    rules: &'r [Rule],
    /// Class N is that of the number N + 1.
    classes: Vec<Class>,
    numbers: HashMap<Class, u32>,
    entries: LookUps,
    steps: usize,
}

/// What a rule says about services, as the lowest bits of an address class tell: nothing but protocol and entry; destination
/// ports or ICMP types; source ports.
fn kind(rule: &Rule) -> u32 {
    match (rule.services.is_empty(), rule.from_ports.is_empty()) {
        (true, true) => 0,
        (false, true) => 1,
        (_, false) => 2,
    }
}

fn entry<const K: usize, const V: usize>(key: [u128; K], value: [u128; V]) -> TableEntry {
    TableEntry { key: key.into(), prefix_len: None, value: value.into() }
}

impl<'r> Compiler<'r> {
    fn new(rules: &'r [Rule]) -> Self {
        Compiler { rules, classes: Vec::new(), numbers: HashMap::new(), entries: Vec::new(), steps: 0 }
    }

    fn step(&mut self, rule: usize, steps: usize) -> Result<(), TooMany> {
        self.steps += steps;
        if self.steps > MAX_STEPS { Err(TooMany(rule)) } else { Ok(()) }
    }

    /// What the program calls a class: its number, then the kinds of services that its rules name.
    fn class(&mut self, class: Class) -> u32 {
        if class.is_empty() {
            return 0;
        }
        let kinds = class.iter().fold(0, |kinds, rule| kinds | 1 << kind(&self.rules[*rule as usize]));
        let next = self.classes.len() as u32 + 1;
        let number = *self.numbers.entry(class.clone()).or_insert(next);
        if number == next {
            self.classes.push(class);
        }
        number << 3 | kinds
    }

    fn addresses(&mut self) -> Result<(), TooMany> {
        let rules = self.rules;
        let sources = Nets::new(rules.iter().flat_map(|rule| rule.from.iter().copied()));
        let targets = Nets::new(rules.iter().flat_map(|rule| rule.to.iter().copied()));
        let both = |rule: &Rule| !rule.from.is_empty() && !rule.to.is_empty();
        // Whether pairs tell the addresses of a prefix from those around it.
        let own = |nets: &Nets, of: fn(&Rule) -> &[Net]| {
            let mut own = vec![false; nets.all().len()];
            for net in rules.iter().filter(|rule| both(rule)).flat_map(of) {
                own[nets.place(net)] = true;
            }
            own
        };
        let (own_sources, own_targets) = (own(&sources, |rule| &rule.from), own(&targets, |rule| &rule.to));
        let mut pairs: HashMap<(usize, usize), Class> = HashMap::new();
        for (index, rule) in rules.iter().enumerate().filter(|(_, rule)| both(rule)) {
            for from in rule.from.iter().flat_map(|net| sources.within(net)).filter(|from| own_sources[*from]) {
                for to in rule.to.iter().flat_map(|net| targets.within(net)).filter(|to| own_targets[*to]) {
                    self.step(index, 1)?;
                    let class = pairs.entry((from, to)).or_default();
                    if class.last() != Some(&(index as u32)) {
                        class.push(index as u32);
                    }
                }
            }
            if pairs.len() > MAX_PAIRS {
                return Err(TooMany(index));
            }
        }
        // In order, so that the same rules always make the same numbers.
        let mut pairs: Vec<_> = pairs.into_iter().collect();
        pairs.sort_unstable_by_key(|(pair, _)| *pair);
        for ((from, to), class) in pairs {
            let class = self.class(class);
            self.entries.push(("pairs", entry([from as u128 + 1, to as u128 + 1], [class.into()])));
        }
        self.field(&sources, &own_sources, ["src4", "src6"], |rule| if rule.to.is_empty() { &rule.from } else { &[] })?;
        self.field(&targets, &own_targets, ["dst4", "dst6"], |rule| if rule.from.is_empty() { &rule.to } else { &[] })
    }

    /// The tables of one address, for IPv4 and IPv6. `of`: the prefixes by which a rule is found alone.
    fn field(
        &mut self,
        nets: &Nets,
        own: &[bool],
        tables: [&'static str; 2],
        of: fn(&Rule) -> &[Net],
    ) -> Result<(), TooMany> {
        let mut alone: Vec<Class> = vec![Vec::new(); nets.all().len()];
        for (index, rule) in self.rules.iter().enumerate() {
            for net in of(rule) {
                for place in nets.within(net) {
                    self.step(index, 1)?;
                    if alone[place].last() != Some(&(index as u32)) {
                        alone[place].push(index as u32);
                    }
                }
            }
        }
        let mut pair_classes = vec![0u128; nets.all().len()];
        for (place, (net, class)) in nets.all().iter().zip(alone).enumerate() {
            pair_classes[place] = match nets.parent(place) {
                _ if own[place] => place as u128 + 1,
                Some(parent) => pair_classes[parent],
                None => 0,
            };
            let single = self.class(class);
            let value = vec![pair_classes[place], single.into()];
            let key = TableEntry { key: vec![net.address], prefix_len: Some(net.len), value };
            self.entries.push((tables[usize::from(net.v6)], key));
        }
        Ok(())
    }

    /// What each address class decides about each class of services: the first of its rules.
    fn decisions(&mut self) -> Result<(), TooMany> {
        let rules = self.rules;
        let anywhere =
            |(index, rule): (usize, &Rule)| (rule.from.is_empty() && rule.to.is_empty()).then_some(index as u32);
        let any = self.class(rules.iter().enumerate().filter_map(anywhere).collect());
        let entries = Entries::new(rules);
        let services = Ports::new(rules.iter().flat_map(|rule| &rule.services));
        let from_ports = Ports::new(rules.iter().flat_map(|rule| &rule.from_ports));
        let (count, from_count) = (services.count, from_ports.count);
        // The program counts the services of the third kind in 32 bits.
        if u64::from(entries.count) * u64::from(count) * u64::from(from_count) > u64::from(u32::MAX) {
            return Err(TooMany(rules.len().saturating_sub(1)));
        }
        let mut total = 0;
        for (number, class) in (1u32..).zip(std::mem::take(&mut self.classes)) {
            let mut decided: HashMap<(u32, u32), u32> = HashMap::new();
            for &index in &class {
                let rule = &rules[index as usize];
                let kind = kind(rule);
                let (targets, sources) = match kind {
                    0 => (vec![0], vec![0]),
                    1 => (services.of(&rule.services), vec![0]),
                    _ => (services.of(&rule.services), from_ports.of(&rule.from_ports)),
                };
                self.step(index as usize, entries.of(rule).len() * targets.len() * sources.len())?;
                for &entry in entries.of(rule) {
                    for &target in &targets {
                        for &source in &sources {
                            let by_target = u32::from(entry) * count + u32::from(target);
                            let service = match kind {
                                0 => entry.into(),
                                1 => by_target,
                                _ => by_target * from_count + u32::from(source),
                            };
                            decided.entry((kind, service)).or_insert(index);
                        }
                    }
                }
                if total + decided.len() > MAX_DECISIONS {
                    return Err(TooMany(index as usize));
                }
            }
            total += decided.len();
            let mut decided: Vec<_> = decided.into_iter().collect();
            decided.sort_unstable();
            for ((kind, service), rule) in decided {
                let address = u128::from(number << 2 | kind);
                self.entries.push(("decisions", entry([address, service.into()], [u128::from(rule) + 1])));
            }
        }
        for (table, classes) in
            [("entries", &entries.classes), ("dst_ports", &services.classes), ("src_ports", &from_ports.classes)]
        {
            let cells = classes.iter().enumerate().filter(|(_, class)| **class != 0);
            self.entries.extend(cells.map(|(cell, class)| (table, entry([cell as u128], [(*class).into()]))));
        }
        for (index, _) in rules.iter().enumerate().filter(|(_, rule)| rule.permit) {
            self.entries.push(("permits", entry([index as u128 + 1], [1])));
        }
        let shape = [entries.count, from_count, count, any].map(u128::from);
        self.entries.push(("shape", entry([0], shape)));
        Ok(())
    }
}

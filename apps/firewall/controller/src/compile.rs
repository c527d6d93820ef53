//! Ordered rules to the look-up tables of the module `rules` in `apps/firewall`.
//!
//! ```text
//! 1 permit       from any         to 10.0.1.80   tcp 443        by destination   }  the smallest number of
//! 2 deny         from 192.0.2/24  to any                        by source         } what four look-ups find
//! 3 permit       from 10.9.0.1    to 10.0.1.22   tcp 22         by both           }
//! 4 deny         from any         to any         udp            without           }
//! ```
//!
//! Each field of a packet leads to a class: of all addresses in the same prefixes, of all ports in the same ranges.
//! Classes are joined (Gupta and McKeown, "Packet Classification on Multiple Fields", SIGCOMM 1999), but not all with
//! all: the product of all sources and all destinations would be far larger than the rules. A rule that names one
//! address is kept with the classes of this one, and only those that name both make pairs. In the same way a rule
//! without ports is kept with the protocol alone.
//!
//! What classes lead to are sparse rows, laid over each other in one array ([`rows`](super::rows)): a row over
//! destination classes for each source class that makes pairs, one over services for each address class, and one over
//! source ports where rules name these. A row over services has three parts (see [`Compiler::service`]). The number of
//! look-ups stays the same however many rules there are; what grows is memory, and beyond what the tables hold the
//! rules are refused.

use std::collections::{BTreeMap, HashMap};

use baker::ir::TableEntry;

use super::addresses::Nets;
use super::rows::{Content, Row, Rows, TooMany};
use super::rule::{Net, Rule};
use super::services::{Entries, Ports};

/// Rules at most: the program counts them from 1.
pub const MAX_RULES: usize = 16384;
/// Prefixes of one field and version at most.
const MAX_PREFIXES: usize = 1 << 16;
/// Steps of the compilation at most: it ends within seconds, also where the rules are refused.
const MAX_STEPS: usize = 1 << 26;

/// Entries by table of the module.
pub type LookUps = Vec<(&'static str, TableEntry)>;

/// The entries of all tables.
pub fn compile(rules: &[Rule]) -> Result<LookUps, TooMany> {
    let mut compiler = Compiler::new(rules);
    let prefixes = compiler.addresses()?;
    let anywhere = |(index, rule): (usize, &Rule)| (rule.from.is_empty() && rule.to.is_empty()).then_some(index as u32);
    let any = compiler.class(rules.iter().enumerate().filter_map(anywhere).collect())?;
    compiler.look_ups(prefixes, any)
}

/// Rules that are asked about the services of a packet, by index, in order.
type Class = Vec<u32>;

/// Prefixes of a table, with what they lead to: a row or column of pairs, and the row of a class.
type Prefixes = Vec<(&'static str, Net, [Content; 2])>;

/// Nothing; as a row, one without cells.
const NONE: Content = Content::Number(0);

struct Compiler<'r> {
    rules: &'r [Rule],
    entries: Entries,
    services: Ports,
    from_ports: Ports,
    /// The rows of classes.
    classes: HashMap<Class, usize>,
    rows: Rows,
    steps: usize,
}

/// What a rule says about services: nothing but protocol and entry; destination ports or ICMP types; source ports.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Entry,
    Service,
    FromPort,
}

fn kind(rule: &Rule) -> Kind {
    match (rule.services.is_empty(), rule.from_ports.is_empty()) {
        (true, true) => Kind::Entry,
        (false, true) => Kind::Service,
        (_, false) => Kind::FromPort,
    }
}

fn entry<const K: usize, const V: usize>(key: [u128; K], value: [u128; V]) -> TableEntry {
    TableEntry { key: key.into(), prefix_len: None, value: value.into() }
}

impl<'r> Compiler<'r> {
    fn new(rules: &'r [Rule]) -> Self {
        Compiler {
            rules,
            entries: Entries::new(rules),
            services: Ports::new(rules.iter().flat_map(|rule| &rule.services)),
            from_ports: Ports::new(rules.iter().flat_map(|rule| &rule.from_ports)),
            classes: HashMap::new(),
            rows: Rows::default(),
            steps: 0,
        }
    }

    fn step(&mut self, rule: usize, steps: usize) -> Result<(), TooMany> {
        self.steps += steps;
        if self.steps > MAX_STEPS { Err(TooMany(rule)) } else { Ok(()) }
    }

    /// How many columns the second part of a row over services has, and the third.
    fn service_count(&self) -> u32 {
        self.entries.count * self.services.count
    }

    /// The column of a service in a row: by its entry class alone, by its destination port, and again by that, where
    /// what is found is a row over source ports.
    fn service(&self, kind: Kind, entry: u16, target: u16) -> u32 {
        let by_target = self.entries.count + u32::from(entry) * self.services.count + u32::from(target);
        match kind {
            Kind::Entry => entry.into(),
            Kind::Service => by_target,
            Kind::FromPort => by_target + self.service_count(),
        }
    }

    /// The row of a class: what it decides about each class of services, the first of its rules.
    fn class(&mut self, class: Class) -> Result<Content, TooMany> {
        let Some(&last) = class.last() else { return Ok(NONE) };
        if let Some(row) = self.classes.get(&class) {
            return Ok(Content::Row(*row));
        }
        let rules = self.rules;
        let mut decided: BTreeMap<u32, BTreeMap<u32, Content>> = BTreeMap::new();
        for &index in &class {
            let rule = &rules[index as usize];
            let (kind, entries) = (kind(rule), self.entries.of(rule).to_vec());
            let targets = if kind == Kind::Entry { vec![0] } else { self.services.of(&rule.services) };
            let sources = if kind == Kind::FromPort { self.from_ports.of(&rule.from_ports) } else { vec![0] };
            self.step(index as usize, entries.len() * targets.len() * sources.len())?;
            let outcome = Content::Number((index + 1) << 1 | u32::from(rule.permit));
            for &entry in &entries {
                for &target in &targets {
                    let by_source = decided.entry(self.service(kind, entry, target)).or_default();
                    sources.iter().for_each(|source| _ = by_source.entry((*source).into()).or_insert(outcome));
                }
            }
        }
        let (last, from_source) = (last as usize, self.entries.count + self.service_count());
        let mut row = Row::new();
        for (column, by_source) in decided {
            let content = if column < from_source {
                by_source[&0]
            } else {
                Content::Row(self.rows.add(by_source.into_iter().collect(), last)?)
            };
            row.push((column, content));
        }
        let row = self.rows.add(row, last)?;
        self.classes.insert(class, row);
        Ok(Content::Row(row))
    }

    fn addresses(&mut self) -> Result<Prefixes, TooMany> {
        let rules = self.rules;
        let sources = Nets::new(rules.iter().flat_map(|rule| rule.from.iter().copied()));
        let targets = Nets::new(rules.iter().flat_map(|rule| rule.to.iter().copied()));
        let both = |rule: &Rule| !rule.from.is_empty() && !rule.to.is_empty();
        // The number of those prefixes that pairs tell from those around them, from 1 on.
        let own = |nets: &Nets, of: fn(&Rule) -> &[Net]| {
            let mut own = vec![0u32; nets.all().len()];
            for net in rules.iter().filter(|rule| both(rule)).flat_map(of) {
                own[nets.place(net)] = 1;
            }
            let mut count = 0;
            own.iter_mut().filter(|own| **own != 0).for_each(|own| {
                count += 1;
                *own = count;
            });
            own
        };
        let (own_sources, own_targets) = (own(&sources, |rule| &rule.from), own(&targets, |rule| &rule.to));
        // Ordered, so that the same rules always make the same tables.
        let mut pairs: BTreeMap<usize, BTreeMap<u32, Class>> = BTreeMap::new();
        for (index, rule) in rules.iter().enumerate().filter(|(_, rule)| both(rule)) {
            for from in rule.from.iter().flat_map(|net| sources.within(net)).filter(|from| own_sources[*from] != 0) {
                let row = pairs.entry(from).or_default();
                let within = rule.to.iter().flat_map(|net| targets.within(net)).map(|to| own_targets[to]);
                for to in within.filter(|to| *to != 0) {
                    self.step(index, 1)?;
                    let class = row.entry(to).or_default();
                    if class.last() != Some(&(index as u32)) {
                        class.push(index as u32);
                    }
                }
            }
        }
        let mut by_source = vec![NONE; sources.all().len()];
        for (from, by_target) in pairs {
            let (mut row, mut last) = (Row::new(), 0);
            for (to, class) in by_target {
                last = last.max(class.last().map_or(0, |last| *last as usize));
                row.push((to, self.class(class)?));
            }
            by_source[from] = Content::Row(self.rows.add(row, last)?);
        }
        let by_target: Vec<Content> = own_targets.into_iter().map(Content::Number).collect();
        let mut prefixes = Prefixes::new();
        let from = |rule: &'r Rule| if rule.to.is_empty() { &rule.from[..] } else { &[] };
        self.field(&sources, by_source, ["src4", "src6"], from, &mut prefixes)?;
        let to = |rule: &'r Rule| if rule.from.is_empty() { &rule.to[..] } else { &[] };
        self.field(&targets, by_target, ["dst4", "dst6"], to, &mut prefixes)?;
        Ok(prefixes)
    }

    /// The prefixes of one address, for IPv4 and IPv6. `pairs`: what leads to pairs, of those that pairs tell apart.
    /// `of`: the prefixes by which a rule is found alone.
    fn field(
        &mut self,
        nets: &Nets,
        mut pairs: Vec<Content>,
        tables: [&'static str; 2],
        of: impl Fn(&'r Rule) -> &'r [Net],
        prefixes: &mut Prefixes,
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
        let before = prefixes.len();
        for (place, (net, class)) in nets.all().iter().zip(alone).enumerate() {
            if let (NONE, Some(parent)) = (pairs[place], nets.parent(place)) {
                pairs[place] = pairs[parent];
            }
            prefixes.push((tables[usize::from(net.v6)], *net, [pairs[place], self.class(class)?]));
        }
        // Both versions together: there are no more rules than that without long lists.
        if prefixes.len() - before > MAX_PREFIXES {
            return Err(TooMany(self.rules.len() - 1));
        }
        Ok(())
    }

    /// Everything as entries.
    fn look_ups(self, prefixes: Prefixes, any: Content) -> Result<LookUps, TooMany> {
        let starts = self.rows.starts()?;
        let number = |content: Content| u128::from(content.number(&starts));
        let mut made = LookUps::new();
        for (table, net, leads_to) in prefixes {
            let value = leads_to.map(number).to_vec();
            made.push((table, TableEntry { key: vec![net.address], prefix_len: Some(net.len), value }));
        }
        for (place, owner, content) in self.rows.cells(&starts) {
            let cell = u128::from(owner) << 32 | u128::from(content);
            made.push(("cells", entry([place.into()], [cell])));
        }
        for (table, classes) in [
            ("entries", &self.entries.classes),
            ("dst_ports", &self.services.classes),
            ("src_ports", &self.from_ports.classes),
        ] {
            let cells = classes.iter().enumerate().filter(|(_, class)| **class != 0);
            made.extend(cells.map(|(cell, class)| (table, entry([cell as u128], [(*class).into()]))));
        }
        let from_ports = self.rules.iter().any(|rule| !rule.from_ports.is_empty());
        let shape = [self.entries.count, self.services.count, u32::from(from_ports)].map(u128::from);
        made.push(("shape", entry([0], [shape[0], shape[1], number(any), shape[2]])));
        Ok(made)
    }
}

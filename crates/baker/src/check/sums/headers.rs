//! Headers of packets, and what is known of them on a path.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::check::hir::{Expr, ExprKind, Local, LocalId, Program};
use crate::ir::{Checksum, ProtocolId};
use crate::source::Span;

/// A header that a handle was made of. The same one as `ir::lower` knows.
pub(super) struct Header {
    pub protocol: ProtocolId,
    /// The handle's name, and where it is declared.
    pub name: String,
    pub span: Span,
    /// The program keeps its checksum itself.
    pub own: bool,
    /// The header of the handle that the packet is consumed by.
    pub root: usize,
    /// The header around it, and how far behind that it lies.
    pub parent: Option<(usize, Step)>,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Step {
    Demux,
    Constant(u128),
    Other,
}

impl Step {
    /// As the demux says, or else some bytes.
    pub fn of(demux: &Expr, bytes: Option<&Expr>) -> Step {
        match (&bytes.unwrap_or(demux).kind, bytes) {
            (ExprKind::Const(constant), _) => Step::Constant(*constant),
            (_, None) => Step::Demux,
            (_, Some(_)) => Step::Other,
        }
    }
}

/// All headers of a PPF.
pub(super) struct Headers<'a> {
    program: &'a Program,
    all: Vec<Header>,
    /// What handles stand for, by frame and variable.
    bound: HashMap<(usize, LocalId), usize>,
}

impl<'a> Headers<'a> {
    pub fn new(program: &'a Program) -> Self {
        Headers { program, all: Vec::new(), bound: HashMap::new() }
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn get(&self, header: usize) -> &Header {
        &self.all[header]
    }

    pub fn of(&self, frame: usize, local: LocalId) -> usize {
        self.bound[&(frame, local)]
    }

    pub fn bind(&mut self, frame: usize, local: LocalId, header: usize) {
        self.bound.insert((frame, local), header);
    }

    /// Headers that were not known before these many were.
    pub fn since(&self, first: usize) -> impl Iterator<Item = usize> + use<> {
        let inner: Vec<usize> = (first..self.all.len()).filter(|&header| self.all[header].parent.is_some()).collect();
        inner.into_iter()
    }

    /// The header of a handle that a packet is consumed by.
    pub fn root(
        &mut self,
        frame: usize,
        local: LocalId,
        (protocol, own): (ProtocolId, bool),
        variable: &Local,
    ) -> usize {
        if let Some(&known) = self.bound.get(&(frame, local)) {
            return known;
        }
        let (root, name) = (self.all.len(), variable.name.clone());
        self.all.push(Header { protocol, name, span: variable.span, own, root, parent: None });
        self.bind(frame, local, root);
        root
    }

    /// The header of a handle that looks into a packet; the same as before where that is certain.
    pub fn peeked(
        &mut self,
        site: (usize, LocalId),
        of: (usize, LocalId),
        bytes: Option<&Expr>,
        (protocol, own): (ProtocolId, bool),
        variable: &Local,
    ) -> usize {
        let around = self.bound[&of];
        let demux = &self.program.demux[self.all[around].protocol.0 as usize];
        let parent = (around, Step::of(demux, bytes));
        self.further_in(site, parent, (protocol, own), variable)
    }

    fn further_in(
        &mut self,
        site: (usize, LocalId),
        parent: (usize, Step),
        (protocol, own): (ProtocolId, bool),
        variable: &Local,
    ) -> usize {
        let bound = self.bound.get(&site).copied();
        let again = bound.filter(|&header| self.all[header].parent == Some(parent));
        let known = again.or_else(|| self.find(parent, protocol).filter(|&header| self.all[header].own == own));
        let header = known.unwrap_or_else(|| {
            let (root, name) = (self.all[parent.0].root, variable.name.clone());
            self.all.push(Header { protocol, name, span: variable.span, own, root, parent: Some(parent) });
            self.all.len() - 1
        });
        self.bind(site.0, site.1, header);
        header
    }

    /// Whether a handle only looks into a packet.
    pub fn looks_into(&self, frame: usize, local: LocalId) -> bool {
        self.all[self.of(frame, local)].parent.is_some()
    }

    /// The header that takes the place of another one further in.
    pub fn replaced(
        &mut self,
        site: (usize, LocalId),
        old: usize,
        (protocol, own): (ProtocolId, bool),
        variable: &Local,
    ) -> usize {
        let parent = self.all[old].parent.expect("a handle that looks into a packet");
        self.further_in(site, parent, (protocol, own), variable)
    }

    pub fn find(&self, parent: (usize, Step), protocol: ProtocolId) -> Option<usize> {
        let same = |header: &Header| header.protocol == protocol && header.parent == Some(parent);
        self.all.iter().position(|header| parent.1 != Step::Other && same(header))
    }

    pub fn checksum(&self, header: usize) -> Option<Checksum> {
        self.program.protocols[self.all[header].protocol.0 as usize].checksum
    }

    pub fn has_pseudo(&self, header: usize) -> bool {
        !self.program.protocols[self.all[header].protocol.0 as usize].pseudo.is_empty()
    }

    /// Whether a header of this protocol says itself how far its checksum reaches, or has none that reaches beyond it.
    pub fn ends_itself(&self, protocol: ProtocolId) -> bool {
        let payload = self.program.protocols[protocol.0 as usize].checksum.is_some_and(|checksum| checksum.payload);
        !payload || self.program.length[protocol.0 as usize].is_some()
    }

    /// Whether a protocol says anything of what lies behind the pseudo header in front of it: it has a checksum, or a
    /// pseudo header of its own.
    pub fn ends_scope(&self, protocol: ProtocolId) -> bool {
        let protocol = &self.program.protocols[protocol.0 as usize];
        protocol.checksum.is_some() || !protocol.pseudo.is_empty()
    }

    /// The header whose pseudo header is for what lies behind this one.
    pub fn scope(&self, header: usize) -> Option<usize> {
        if self.has_pseudo(header) {
            return Some(header);
        }
        match (self.checksum(header), self.all[header].parent) {
            (Some(_), _) => None,
            (None, Some((parent, _))) => self.scope(parent),
            (None, None) => Some(header),
        }
    }

    /// The header whose pseudo header is for this one.
    pub fn under(&self, header: usize) -> Option<usize> {
        let (parent, _) = self.all[header].parent?;
        if self.ends_scope(self.all[header].protocol) { self.scope(parent) } else { None }
    }

    /// Whether one header lies behind another one.
    pub fn is_inside(&self, header: usize, of: usize) -> bool {
        let mut at = header;
        while let Some((parent, _)) = self.all[at].parent {
            if parent == of {
                return true;
            }
            at = parent;
        }
        false
    }
}

/// What is known of a header on a path.
#[derive(Clone, Default, PartialEq, Debug)]
pub(super) struct Facts {
    /// It is known on every path; of a header behind another one.
    pub surely: bool,
    /// What lies behind its pseudo header: perhaps one of these. `None`: on some path it is not known.
    pub behind: Option<BTreeSet<usize>>,
    /// The program keeps what lies behind it in line with its pseudo header.
    pub apart: bool,
    /// What was taken for it on every path, and what is now.
    pub clash: Option<(Span, Span)>,
    /// A write of a part of its pseudo header.
    pub written: Option<Span>,
    /// One while nothing behind it was known.
    pub unfollowed: Option<Span>,
    /// A write of the length of what it holds, while nothing behind it was known.
    pub late: Option<Span>,
    /// Where it was made, its checksum not computed yet.
    pub unset: Option<Span>,
    /// On some path it was made here, and the compiler writes its declared length.
    pub made: bool,
    /// Its checksum can't follow the second place because of the first one.
    pub spoiled: Option<(Span, Span, Spoiled)>,
    /// Of a packet's own header: where its tail was cut off, and the protocols whose headers were known then.
    pub cut: Option<(Span, BTreeSet<u32>)>,
}

/// Why a checksum can't follow.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Spoiled {
    /// The header was looked at (second place) after the length of what holds it was written (first place).
    Late,
    /// The length was written (second place) after the packet had been cut, the header unknown (first place).
    Cut,
}

/// State on a path.
#[derive(Clone, Default, PartialEq, Debug)]
pub(super) struct State {
    pub facts: BTreeMap<usize, Facts>,
}

impl State {
    pub fn join(mut self, other: State) -> State {
        for (header, ours) in &mut self.facts {
            ours.surely &= other.facts.contains_key(header);
        }
        for (header, theirs) in other.facts {
            match self.facts.get_mut(&header) {
                None => drop(self.facts.insert(header, Facts { surely: false, ..theirs })),
                Some(ours) => ours.join(theirs),
            }
        }
        self
    }

    /// The packet goes on otherwise, or nothing is known of it any more but for its own header.
    pub fn forget(&mut self, headers: &Headers, header: usize, with_own: bool) {
        let root = headers.get(header).root;
        self.facts.retain(|&at, _| headers.get(at).root != root || (at == root && !with_own));
        if let Some(facts) = self.facts.get_mut(&root) {
            (facts.behind, facts.clash) = (None, None);
        }
    }

    /// A header is no longer known.
    pub fn end(&mut self, headers: &Headers, header: usize) {
        self.facts.remove(&header);
        let scope = headers.under(header).and_then(|scope| self.facts.get_mut(&scope));
        if let Some(facts) = scope
            && facts.behind.as_mut().is_some_and(|behind| behind.remove(&header))
        {
            (facts.behind, facts.clash) = (None, None);
        }
    }
}

impl Facts {
    /// Whether something behind it may be there that is not known.
    pub fn is_open(&self) -> bool {
        !self.apart && self.behind.is_none()
    }

    pub fn joined(mut self, other: Facts) -> Facts {
        self.join(other);
        self
    }

    fn join(&mut self, other: Facts) {
        self.surely &= other.surely;
        // `apart` on one path and known on the other: known. Open on one of them: open.
        let open = self.is_open() || other.is_open();
        let behind = match (self.behind.take(), other.behind) {
            (Some(mut ours), Some(theirs)) => {
                ours.extend(theirs);
                Some(ours)
            }
            (ours, theirs) => ours.or(theirs),
        };
        self.apart = !open && self.apart && other.apart;
        self.behind = if open { None } else { behind.or_else(|| (!self.apart).then(BTreeSet::new)) };
        self.clash = self.clash.or(other.clash);
        self.written = self.written.or(other.written);
        self.unfollowed = self.unfollowed.or(other.unfollowed);
        self.late = self.late.or(other.late);
        self.unset = self.unset.or(other.unset);
        self.made |= other.made;
        self.spoiled = self.spoiled.or(other.spoiled);
        self.cut = match (self.cut.take(), other.cut) {
            (Some((at, ours)), Some((_, theirs))) => Some((at, &ours & &theirs)),
            (ours, theirs) => ours.or(theirs),
        };
    }
}

//! What is done to headers, and what is reported.

use super::Sums;
use super::headers::{Facts, Spoiled, State, Step};
use crate::builtin::Function;
use crate::check::hir::Expr;
use crate::diag::Diagnostic;
use crate::ir::ProtocolId;
use crate::source::Span;

/// What to do about a checksum behind that is not known.
const LOOK: &str = "make a handle of the header behind it on every path; where none there has such a checksum, or the program \
                    keeps it, say so";

impl Sums<'_> {
    fn error(&mut self, error: Diagnostic) {
        // Loops and functions are gone over more than once.
        let known = |other: &Diagnostic| other.code == error.code && other.primary.span == error.primary.span;
        if !self.errors.iter().any(known) {
            self.errors.push(error);
        }
    }

    pub(super) fn too_many(&mut self, at: Span) {
        self.error(
            Diagnostic::new("code-too-large", at, "loops and calls nest too deeply for checksums to be followed")
                .label("reached in too many ways")
                .hint("split the PPF by a channel"),
        );
    }

    /// A handle that looks into a packet.
    pub(super) fn peek(&mut self, state: &mut State, header: usize, at: Span) {
        let facts = state.facts.entry(header).or_insert_with(|| Facts { surely: true, ..Facts::default() });
        if !facts.surely {
            let ours = std::mem::take(facts);
            *facts = Facts { surely: true, ..ours.joined(Facts::default()) };
        }
        let Some(scope) = self.headers.under(header) else { return };
        let protocol = self.headers.get(header).protocol;
        let around = state.facts.entry(scope).or_default();
        let mut clash = None;
        if let Some(behind) = &around.behind
            && behind.len() == 1
            && let Some(&other) = behind.first()
            && self.headers.get(other).protocol != protocol
        {
            clash = Some((self.headers.get(other).span, self.headers.get(header).span));
        }
        around.behind = Some([header].into());
        around.unfollowed = None;
        let (late, written) = (around.late.take(), around.written);
        around.clash = clash;
        if let (Some(late), false) = (late, self.headers.ends_itself(protocol) || self.headers.get(header).own) {
            state.facts.entry(header).or_default().spoiled = Some((late, at, Spoiled::Late));
        }
        if let (Some(clash), Some(written)) = (clash, written) {
            self.ambiguous(scope, clash, written);
        }
    }

    /// A header takes the place of another one further in: but for those around it, no other one is known any more.
    pub(super) fn replaced(&mut self, state: &mut State, (old, new): (usize, usize), unset: Option<Span>, at: Span) {
        let root = self.headers.get(old).root;
        for &header in &state.facts.keys().copied().collect::<Vec<_>>() {
            let inside = self.headers.get(header).root == root && header != root;
            if inside && !self.headers.is_inside(old, header) {
                match state.facts[&header].clone() {
                    // Its own checksum is gone with it.
                    facts if header == old => {
                        let name = self.headers.get(old).name.clone();
                        self.lost_behind(&facts, &name, at, "another header takes its place here");
                    }
                    _ => self.lost(state, header, at, "its handle ends here"),
                }
                state.end(&self.headers, header);
            }
        }
        self.peek(state, new, at);
        let facts = state.facts.entry(new).or_default();
        (facts.apart, facts.unset, facts.spoiled) = (true, unset, None);
    }

    /// A field is written.
    pub(super) fn written(&mut self, state: &mut State, header: usize, field: u32, at: Span) {
        let protocol = self.headers.get(header).protocol;
        let is_pseudo = self.program.protocols[protocol.0 as usize].pseudo.contains(&(field as usize));
        let length = self.program.length[protocol.0 as usize].as_ref();
        let is_length = length.is_some_and(|length| length.reads(field));
        self.sums_up(state, header, (field, is_length), at);
        if !is_pseudo && !is_length {
            return;
        }
        let root = self.headers.get(header).root;
        let cut = state.facts.get(&root).and_then(|facts| facts.cut.clone());
        let facts = state.facts.entry(header).or_default();
        if facts.apart {
            return;
        }
        let mut reached: Vec<usize> = if is_length { vec![header] } else { Vec::new() };
        let scope = self.headers.has_pseudo(header);
        if scope {
            facts.written = Some(at);
            if facts.is_open() {
                let open = if is_pseudo { &mut facts.unfollowed } else { &mut facts.late };
                *open = open.or(Some(at));
            }
            if is_length {
                reached.extend(facts.behind.iter().flatten());
            }
        }
        let clash = facts.clash.filter(|_| scope);
        for reached in reached {
            let info = self.headers.get(reached);
            let payload = self.headers.checksum(reached).is_some_and(|checksum| checksum.payload);
            let by_this = reached == header || !self.headers.ends_itself(info.protocol);
            if let Some((cut, known)) = &cut
                && payload
                && by_this
                && !info.own
                && !known.contains(&info.protocol.0)
            {
                state.facts.entry(reached).or_default().spoiled = Some((*cut, at, Spoiled::Cut));
            }
        }
        if let Some(clash) = clash {
            self.ambiguous(header, clash, at);
        }
    }

    /// Where a write makes it necessary to sum up what checksums cover, it can't stand where an entry is locked.
    fn sums_up(&mut self, state: &State, header: usize, (field, is_length): (u32, bool), at: Span) {
        let Some(section) = self.critical else { return };
        let info = self.headers.get(header);
        let is_demux =
            self.program.demux[info.protocol.0 as usize].reads(field) && self.headers.checksum(header).is_some();
        let beside = state.facts.keys().any(|&other| {
            let apart = other != header && self.headers.get(other).root == info.root;
            let inside = self.headers.is_inside(other, header) || self.headers.is_inside(header, other);
            apart && !inside && self.headers.checksum(other).is_some()
        });
        if is_length || is_demux || beside {
            let error = Diagnostic::new("in-critical", at, "this can't be done while an entry is locked")
                .label("sums up what checksums cover")
                .also(section, "locked from here on")
                .hint("write it before the critical section, or behind it");
            self.error(error);
        }
    }

    fn ambiguous(&mut self, scope: usize, (first, second): (Span, Span), written: Span) {
        let name = &self.headers.get(scope).name;
        let error = Diagnostic::new("checksum-ambiguous", written, format!("two headers lie behind `{name}`"))
            .label("which one's checksum is to follow?")
            .also(first, "the one")
            .also(second, "the other one")
            .hint("make their handles in different arms of an `if` or `switch` that asks which one it is");
        self.error(error);
    }

    /// A checksum behind a header is lost from sight with what has changed. Whether something was reported.
    fn lost(&mut self, state: &State, header: usize, at: Span, how: &'static str) {
        let Some(facts) = state.facts.get(&header).cloned() else { return };
        let name = self.headers.get(header).name.clone();
        self.lost_behind(&facts, &name, at, how);
        self.spoiled(&facts, &name);
        // That of a packet's own header is asked for where the packet goes on.
        if self.headers.get(header).parent.is_some() {
            self.never_set(&facts, &name, at);
        }
    }

    /// The same, of what lies behind its pseudo header.
    fn lost_behind(&mut self, facts: &Facts, name: &str, at: Span, how: &'static str) {
        if let Some(written) = facts.unfollowed.or(facts.late) {
            let what =
                if facts.unfollowed.is_some() { "is a part of the pseudo header" } else { "says how far it reaches" };
            let error =
                Diagnostic::new("checksum-unknown", written, format!("a checksum behind `{name}` may not follow"))
                    .label(format!("this field {what}, and on some path nothing behind it is known"))
                    .also(at, how)
                    .hint(format!("{LOOK}: `checksum_none({name})`"));
            self.error(error);
        }
    }

    fn spoiled(&mut self, facts: &Facts, name: &str) {
        let Some((first, second, why)) = facts.spoiled else { return };
        let error = match why {
            Spoiled::Late => Diagnostic::new("checksum-late", first, format!("the checksum of `{name}` can't follow"))
                .label("this changes how far it reaches")
                .also(second, "made known only here")
                .hint("make this handle before the length is written, or compute the checksum anew: checksum_set"),
            Spoiled::Cut => Diagnostic::new("checksum-cut", first, format!("the checksum of `{name}` can't follow"))
                .label("bytes are cut off that it may cover, while its header is not known")
                .also(second, "here it comes to reach less far")
                .hint("make a handle of the header before the cut, or compute the checksum anew: checksum_set"),
        };
        self.error(error);
    }

    fn never_set(&mut self, facts: &Facts, name: &str, at: Span) {
        let Some(made) = facts.unset else { return };
        let mut error = Diagnostic::new("checksum-unset", made, format!("the checksum of `{name}` is never computed"))
            .label("a header of zeros and defaults");
        if at != made {
            error = error.also(at, "goes on here");
        }
        self.error(error.hint("once all is written, call checksum_set"));
    }

    /// A packet that never gets a name.
    pub(super) fn nameless(&mut self, facts: &Facts, protocol: ProtocolId, at: Span) {
        let name = self.program.protocols[protocol.0 as usize].name.clone();
        self.never_set(facts, &name, at);
    }

    /// What a loop's trip made known ends.
    pub(super) fn ends(&mut self, state: &mut State, header: usize, at: Span) {
        let at = Span { end: (at.start + 3).min(at.end), ..at };
        self.lost(state, header, at, "forgotten where a trip of this loop ends");
    }

    /// The packet goes on elsewhere.
    pub(super) fn consumed(&mut self, state: &mut State, header: usize, at: Span) {
        let root = self.headers.get(header).root;
        if let Some(facts) = state.facts.get(&root).cloned() {
            let name = self.headers.get(root).name.clone();
            self.never_set(&facts, &name, at);
        }
        self.lost_inside(state, root, at, "the packet goes on here");
        self.lost(state, root, at, "the packet goes on here");
    }

    fn lost_inside(&mut self, state: &State, of: usize, at: Span, how: &'static str) {
        for &header in &state.facts.keys().copied().collect::<Vec<_>>() {
            if self.headers.is_inside(header, of) {
                self.lost(state, header, at, how);
            }
        }
    }

    /// What is known of a copy: it begins with the handle's header.
    pub(super) fn copied(&mut self, state: &mut State, header: usize, at: Span) -> Facts {
        self.lost_inside(state, header, at, "the copy is made here");
        let root = self.headers.get(header).root;
        let cut = state.facts.get(&root).and_then(|facts| facts.cut.clone());
        let own = state.facts.get(&header).cloned().unwrap_or_default();
        let scope = self.headers.scope(header).and_then(|scope| state.facts.get(&scope)).cloned().unwrap_or_default();
        Facts {
            apart: scope.apart,
            unfollowed: scope.unfollowed,
            late: scope.late,
            unset: own.unset,
            made: own.made && header == root,
            spoiled: own.spoiled,
            cut,
            ..Facts::default()
        }
    }

    /// What is known of what lies behind a header that is taken off.
    pub(super) fn decap(
        &mut self,
        state: &mut State,
        header: usize,
        inner: ProtocolId,
        bytes: Option<&Expr>,
        at: Span,
    ) -> Facts {
        let step = Step::of(&self.program.demux[self.headers.get(header).protocol.0 as usize], bytes);
        let same = self.headers.find((header, step), inner).filter(|same| state.facts.contains_key(same));
        for &other in &state.facts.keys().copied().collect::<Vec<_>>() {
            if Some(other) != same && self.headers.is_inside(other, header) {
                self.lost(state, other, at, "its handle ends here");
            }
        }
        let outer = state.facts.get(&header).cloned().unwrap_or_default();
        let scope = self.headers.scope(header) == Some(header);
        let known = same.and_then(|same| state.facts.get(&same)).cloned().unwrap_or_default();
        let mut facts = Facts { cut: outer.cut, spoiled: known.spoiled, unset: known.unset, ..Facts::default() };
        if !self.headers.ends_scope(inner) {
            // The pseudo header in front is still for what comes behind.
            if scope {
                (facts.unfollowed, facts.late, facts.apart) = (outer.unfollowed, outer.late, outer.apart);
            }
        } else {
            if scope && let (Some(late), false) = (outer.late, self.headers.ends_itself(inner)) {
                facts.spoiled = Some((late, at, Spoiled::Late));
            }
            (facts.unfollowed, facts.late, facts.apart) = (known.unfollowed, known.late, known.apart);
        }
        state.forget(&self.headers, header, true);
        facts
    }

    /// The packet gets longer or shorter.
    pub(super) fn resized(&mut self, state: &mut State, call: Function, header: usize, at: Span) {
        let root = self.headers.get(header).root;
        let made = state.facts.get(&root).is_some_and(|facts| facts.made);
        let counts = self.program.counts[self.headers.get(root).protocol.0 as usize];
        if let (true, Some(counts)) =
            (made && matches!(call, Function::PacketTrimTail | Function::PacketGrowTail), counts)
        {
            self.written(state, root, counts.field, at);
        }
        self.lost_inside(state, root, at, "handles that look into the packet end here");
        let known = state.facts.keys().filter(|&&known| self.headers.get(known).root == root);
        let known = known.map(|&known| self.headers.get(known).protocol.0).collect();
        let checksum = self.headers.checksum(root).filter(|checksum| !checksum.optional);
        let anew = checksum.is_some_and(|checksum| checksum.payload) && !self.headers.get(root).own;
        state.forget(&self.headers, root, false);
        let facts = state.facts.entry(root).or_default();
        match call {
            Function::PacketTrimTail => {
                facts.cut = Some(match facts.cut.take() {
                    Some((first, before)) => (first, &before & &known),
                    None => (at, known),
                });
            }
            Function::PacketGrowTail => {}
            _ => {
                facts.made = false;
                // The header is one of zeros now.
                if call == Function::PacketGrowHead && anew {
                    facts.unset = facts.unset.or(Some(at));
                }
            }
        }
    }
}

//! Handles: copies, encap and decap, and where packets end.

use super::body::{Body, Handle};
use super::world::Target;

impl Body<'_> {
    /// A copy that is consumed at once, or in a block of its own.
    pub fn copy(&mut self) {
        if self.world.style.is_kernel() {
            return self.tap();
        }
        if self.scope.handles.is_empty() || !self.may_copy() || self.module.is_none() {
            return self.statement_without_copy();
        }
        self.copied();
        let handle = self.n.pick(&self.scope.handles).clone();
        let channels = self.channels(Some(handle.protocol));
        if !channels.is_empty() && self.n.chance(40) {
            let channel = &self.n.pick(&channels).name;
            return self.line(format!("channel_put({channel}, packet_copy({}));", handle.name));
        }
        if self.n.chance(10) {
            let reason = self.reason_of(&handle.name);
            return self.line(format!("packet_drop(packet_copy({}), {reason});", handle.name));
        }
        let ty = format!("{}_packet_t", self.world.protocols[handle.protocol].name);
        let count = self.n.range(0, 2);
        self.block("", |body| {
            let name = body.name("c");
            body.line(format!("{ty} *{name} = packet_copy({});", handle.name));
            let base = body.scope.handles.len();
            body.scope.handles.push(Handle { name, protocol: handle.protocol, lent: false, looks_into: None });
            body.statements(count);
            body.finish(base, 1);
        });
    }

    /// A copy that leaves the kernel, while the packet stays.
    fn tap(&mut self) {
        let leads_out = |handle: &Handle| {
            let channels = self.channels(Some(handle.protocol)).into_iter();
            let mut channels = channels.filter(|channel| channel.target == Target::Controller);
            channels.next().map(|channel| (handle.clone(), channel.name.clone()))
        };
        let found: Vec<(Handle, String)> = self.scope.handles.iter().filter_map(leads_out).collect();
        if found.is_empty() || self.trips > 1 {
            return self.statement_without_copy();
        }
        let (Handle { name: handle, protocol, .. }, channel) = self.n.pick(&found).clone();
        if self.n.chance(50) {
            return self.line(format!("channel_put({channel}, packet_copy({handle}));"));
        }
        // Nothing comes between the copy and its put that might change the packet.
        let (value, copy) = (self.scalar(super::types::unsigned(8), 2), self.name("c"));
        let ty = format!("{}_packet_t", self.world.protocols[protocol].name);
        self.line(format!("{{ u8 own = {value}; {ty} *{copy} = packet_copy({handle});"));
        self.line(format!("{copy}->metadata.tx.port = own; channel_put({channel}, {copy}); }}"));
    }

    fn statement_without_copy(&mut self) {
        if !self.scope.handles.is_empty() && !self.world.reasons.is_empty() {
            let handle = self.n.pick(&self.scope.handles).name.clone();
            let value = self.scalar(super::types::unsigned(8), 2);
            self.line(format!("{handle}->metadata.tx.port = {value};"));
        }
    }

    /// Consumes all packets that are held from this one on; lent ones are not held.
    pub fn finish(&mut self, base: usize, depth: u32) {
        let mut steps = 0;
        loop {
            let held: Vec<usize> = (base..self.scope.handles.len()).filter(|i| !self.scope.handles[*i].lent).collect();
            if held.is_empty() {
                return;
            }
            if self.n.chance(30) {
                self.statements(1);
            }
            if depth > 0 && self.fuel > 0 && self.n.chance(40) {
                let condition = self.condition(3);
                if self.n.chance(50) {
                    self.leaving(&format!("if ({condition})"), |body| body.finish_and_return(depth - 1));
                    continue;
                }
                self.either(&condition, |body| body.finish(base, depth - 1));
                return;
            }
            if self.fuel > 0 && self.n.chance(10) {
                self.tested(depth);
                continue;
            }
            steps += 1;
            let at = *self.n.pick(&held);
            self.consume(at, steps);
        }
    }

    /// Consumes all that is held, then returns.
    fn finish_and_return(&mut self, depth: u32) {
        self.finish(0, depth);
        self.ret();
    }

    /// Both arms consume the same packets.
    fn either(&mut self, condition: &str, arm: impl Fn(&mut Self)) {
        let before = self.scope.clone();
        self.block(&format!("if ({condition})"), &arm);
        let after = std::mem::replace(&mut self.scope, before);
        self.block("else", &arm);
        debug_assert_eq!(after.handles.len(), self.scope.handles.len());
    }

    /// A look-up; without an entry all packets end here. Behind it the pointer is known not to be null.
    fn tested(&mut self, depth: u32) {
        let (lookup, to) = self.lookup();
        let name = self.name("q");
        self.line(format!("{} *{name} = {lookup};", self.world.value_name(to)));
        self.leaving(&format!("if ({name} == null)"), |body| body.finish_and_return(depth.saturating_sub(1)));
        self.scope.pointers.push(super::body::Pointer { name, to, tested: true });
    }

    /// Return before the end, out of loops, too.
    pub fn leave_early(&mut self) {
        let condition = self.condition(2);
        self.leaving(&format!("if ({condition})"), |body| body.finish_and_return(0));
    }

    fn reason(&mut self) -> String {
        if self.n.chance(10) {
            return self.n.pick(&["malformed", "truncated", "no_port"]).to_string();
        }
        self.n.pick(&self.world.reasons).clone()
    }

    /// A reason, or an expression that is one.
    fn reason_of(&mut self, handle: &str) -> String {
        match self.n.below(5) {
            0 => format!("{handle}->metadata.fault"),
            1 => {
                let (condition, reason) = (self.condition(1), self.reason());
                format!("{condition} ? {reason} : {handle}->metadata.fault")
            }
            _ => self.reason(),
        }
    }

    /// A condition that mostly holds, or all packets end here.
    pub fn require(&mut self) {
        let [a, b] = [(); 2].map(|_| self.condition(2));
        let reason = match self.scope.handles.is_empty() {
            true => self.reason(),
            false => {
                let handle = self.n.pick(&self.scope.handles).name.clone();
                self.reason_of(&handle)
            }
        };
        self.line(format!("packet_require({a} || {b}, {reason});"));
    }

    /// Sets the reason that a packet carries, or compares it.
    pub fn note_fault(&mut self) {
        if self.scope.handles.is_empty() {
            return;
        }
        let handle = self.n.pick(&self.scope.handles).name.clone();
        let (reason, other) = (self.reason_of(&handle), self.reason());
        let set = format!("{handle}->metadata.fault = {reason};");
        let op = *self.n.pick(&["==", "!="]);
        match self.n.chance(50) {
            true => self.line(set),
            false => self.line(format!("if ({handle}->metadata.fault {op} {other}) {{ {set} }}")),
        }
    }

    /// Takes one packet a step further: out, or into another protocol.
    fn consume(&mut self, at: usize, steps: usize) {
        let Handle { name, protocol, .. } = self.scope.handles.remove(at);
        self.scope.handles.retain(|other| other.looks_into.as_ref() != Some(&name));
        let channels = self.channels(Some(protocol));
        let last = steps > 4 || self.fuel < -30;
        if !channels.is_empty() && (last || self.n.chance(45)) {
            let channel = &self.n.pick(&channels).name;
            return self.line(format!("channel_put({channel}, {name});"));
        }
        // Functions have no channels if they are global.
        if last || self.module.is_none() || self.n.chance(6) {
            if self.n.chance(10) {
                return self.line(format!("packet_end({name});"));
            }
            let reason = self.reason_of(&name);
            return self.line(format!("packet_drop({name}, {reason});"));
        }
        let make = *self.n.pick(&["packet_decap", "packet_encap", "packet_replace"]);
        let any = self.channels(None);
        let to = if !any.is_empty() && self.n.chance(75) {
            self.n.pick(&any).protocol
        } else {
            self.n.below(self.world.protocols.len())
        };
        let channels = self.channels(Some(to));
        if !channels.is_empty() && self.n.chance(25) {
            let channel = &self.n.pick(&channels).name;
            return self.line(format!("channel_put({channel}, {make}({name}));"));
        }
        let made = self.name("h");
        let ty = &self.world.protocols[to].name;
        self.line(format!("{ty}_packet_t *{made} = {make}({name});"));
        self.scope.handles.push(Handle { name: made, protocol: to, lent: false, looks_into: None });
    }
}

//! Bytes of packets at run-time places, handles that look into packets, packets that are made, grown and trimmed.

use super::body::{Body, Handle, Variable};
use super::types::{Ty, Value, unsigned};

impl Body<'_> {
    /// One of the statements of this file.
    pub fn packet_statement(&mut self) {
        match self.n.below(11) {
            0 | 1 => self.load(),
            2 | 3 => self.store(),
            4 => self.resize(),
            5 | 6 => self.peek(),
            7 => self.create(),
            8 => self.bind_again(),
            9 => self.replace(),
            _ => self.checksum(),
        }
    }

    fn any_handle(&mut self) -> Option<Handle> {
        self.scope.handles.get(self.n.below(self.scope.handles.len())).cloned()
    }

    /// A handle of the PPF's own that nothing looks into.
    fn movable(&mut self) -> Option<Handle> {
        let handles = &self.scope.handles;
        let free = |h: &&Handle| !h.lent && handles.iter().all(|other| other.looks_into.as_ref() != Some(&h.name));
        let free: Vec<Handle> = handles.iter().filter(free).cloned().collect();
        free.get(self.n.below(free.len())).cloned()
    }

    /// A place in a packet: mostly near its head.
    fn offset(&mut self) -> String {
        match self.n.below(5) {
            0..=2 => self.n.range(0, 40).to_string(),
            3 => {
                let place = self.number(1).cast(unsigned(6));
                place.text
            }
            _ => self.scalar(unsigned(32), 1),
        }
    }

    fn bytes_type(&mut self) -> Ty {
        let width = self.n.pick(&[8, 16, 16, 24, 32, 32, 48, 64, 72, 120, 128]);
        Ty::Int { width: *width, signed: self.n.chance(15) }
    }

    fn load(&mut self) {
        let Some(handle) = self.any_handle() else { return };
        let (ty, offset, name) = (self.bytes_type(), self.offset(), self.name("l"));
        let count = self.n.range(1, 2);
        self.block("", |body| {
            body.line(format!("{} *{name} = packet_load({}, {offset});", ty.name(), handle.name));
            body.block(&format!("if ({name} != null)"), |body| {
                body.scope.variables.push(Variable {
                    name: format!("*{name}"),
                    ty: Value::Scalar(ty),
                    settable: false,
                });
                body.statements(count);
            });
            if body.n.chance(30) {
                body.block("else", |body| body.statements(1));
            }
        });
    }

    fn store(&mut self) {
        let Some(handle) = self.any_handle() else { return };
        let (ty, offset) = (self.bytes_type(), self.offset());
        let value = self.number(2).cast(ty).text;
        self.where_done(format!("packet_store({}, {offset}, {value})", handle.name));
    }

    /// Statements where a function says that it worked, and perhaps where it did not.
    fn where_done(&mut self, call: String) {
        let not = if self.n.chance(30) { "!" } else { "" };
        let count = self.n.range(0, 1);
        self.block(&format!("if ({not}{call})"), |body| body.statements(count));
    }

    fn resize(&mut self) {
        let Some(handle) = self.movable() else { return };
        let call = *self.n.pick(&["packet_trim_head", "packet_trim_tail", "packet_grow_head", "packet_grow_tail"]);
        let bytes = match self.n.below(5) {
            0..=2 => self.n.range(0, 20).to_string(),
            3 => self.n.pick(&[60, 200, 260, 1900, 70000]).to_string(),
            _ => self.scalar(unsigned(32), 1),
        };
        self.where_done(format!("{call}({}, {bytes})", handle.name));
    }

    /// A handle on what lies behind a header, for the rest of the scope or for a block.
    fn peek(&mut self) {
        let Some(handle) = self.any_handle() else { return };
        let protocol = self.n.below(self.world.protocols.len());
        let ty = &self.world.protocols[protocol].name;
        let bytes = if self.n.chance(40) { format!(", {}", self.offset()) } else { String::new() };
        let name = self.name("w");
        let line = format!("{ty}_packet_t *{name} = packet_peek({}{bytes});", handle.name);
        let looks_into = handle.looks_into.or(Some(handle.name));
        let made = Handle { name, protocol, lent: true, looks_into };
        if self.n.chance(50) {
            self.line(line);
            return self.scope.handles.push(made);
        }
        let count = self.n.range(1, 3);
        self.block("", |body| {
            body.line(line);
            body.scope.handles.push(made);
            body.statements(count);
        });
    }

    /// A header further in becomes one of another protocol, for a block.
    fn replace(&mut self) {
        let Some(root) = self.movable() else { return };
        self.world.note("another header in the place of one");
        let [first, second, to] = [(); 3].map(|_| self.n.below(self.world.protocols.len()));
        let [first, second, to] = [first, second, to].map(|protocol| (protocol, &self.world.protocols[protocol].name));
        let bytes = if self.n.chance(40) { format!(", {}", self.offset()) } else { String::new() };
        let (two, count) = (self.n.chance(40), self.n.range(1, 3));
        self.block("", |body| {
            let [outer, inner, made] = [(); 3].map(|_| body.name("w"));
            body.line(format!("{}_packet_t *{outer} = packet_peek({}{bytes});", first.1, root.name));
            let looks_into = |name: &str, protocol: usize, body: &mut Self| {
                let looks_into = Some(root.name.clone());
                body.scope.handles.push(Handle { name: name.into(), protocol, lent: true, looks_into });
            };
            let mut old = &outer;
            if two {
                looks_into(&outer, first.0, body);
                body.line(format!("{}_packet_t *{inner} = packet_peek({outer});", second.1));
                old = &inner;
            }
            body.line(format!("{}_packet_t *{made} = packet_replace({old});", to.1));
            looks_into(&made, to.0, body);
            body.statements(count);
        });
    }

    fn create(&mut self) {
        if !self.may_copy() || self.module.is_none() {
            return;
        }
        self.copied();
        let protocol = self.n.below(self.world.protocols.len());
        let ty = &self.world.protocols[protocol].name;
        let count = self.n.range(0, 3);
        self.block("", |body| {
            let name = body.name("c");
            body.line(format!("{ty}_packet_t *{name} = packet_create();"));
            let base = body.scope.handles.len();
            body.scope.handles.push(Handle { name, protocol, lent: false, looks_into: None });
            body.statements(count);
            body.finish(base, 1);
        });
    }

    /// `h = packet_decap(h)` and the like.
    fn bind_again(&mut self) {
        let Some(handle) = self.movable() else { return };
        // Headers in front of a packet must have an end.
        let make = match self.n.below(5) {
            0 | 1 if self.trips == 1 => "packet_encap",
            2 => "packet_replace",
            _ => "packet_decap",
        };
        let bytes = match make {
            "packet_decap" if self.n.chance(30) => format!(", {}", self.offset()),
            _ => String::new(),
        };
        self.line(format!("{0} = {make}({0}{bytes});", handle.name));
    }

    fn checksum(&mut self) {
        // Each goes over all of a packet.
        let Some(handle) = self.any_handle().filter(|_| self.trips <= 4) else { return };
        let protocol = &self.world.protocols[handle.protocol];
        if protocol.checksum.is_none() {
            return;
        }
        let payload = protocol.covers.contains("payload");
        let sum = if protocol.pseudo_sum { format!(", {}", self.scalar(unsigned(32), 1)) } else { String::new() };
        match self.n.below(if payload { 5 } else { 3 }) {
            3 => {
                self.world.note("the sum of a payload");
                let bytes = if self.n.chance(60) { format!(", {}", self.offset()) } else { String::new() };
                let name = self.name("s");
                self.line(format!("u16 {name} = checksum_payload({}{sum}{bytes});", handle.name));
                let ty = Value::Scalar(unsigned(16));
                self.scope.variables.push(Variable { name, ty, settable: true });
            }
            4 => {
                let payload = self.scalar(unsigned(32), 1);
                self.line(format!("checksum_set({}{sum}, {payload});", handle.name));
            }
            0 => {
                let bytes = match self.n.chance(30) {
                    true if payload => format!(", {}", self.offset()),
                    _ => String::new(),
                };
                self.where_done(format!("checksum_ok({}{sum}{bytes})", handle.name));
            }
            1 => self.line(format!("checksum_set({}{sum});", handle.name)),
            _ => {
                let ty = Ty::Int { width: super::types::width(self.n), signed: self.n.chance(20) };
                let [old, new] = [(); 2].map(|_| self.number(1).cast(ty).text);
                self.line(format!("checksum_adjust({}, {old}, {new});", handle.name));
            }
        }
    }
}

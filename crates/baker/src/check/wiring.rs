//! Wiring: which channel leads where. Every output leads to one place, and no packet can run in a circle.

use std::collections::{HashMap, HashSet};

use super::hir::{Code, ExprKind, Ppf, Program, Stmt, StmtKind};
use super::names::{Checker, Port, Symbol};
use crate::diag::Diagnostic;
use crate::ir::{Batch, Channel, ChannelId, Controller, ControllerId, PpfId, ProtocolId, Source, Target};
use crate::source::{FileId, Span};
use crate::syntax::ast::{self, PortKind};

/// PPFs that a packet runs through at most: each runs while those before it wait.
const MAX_CHAIN: u32 = 64;

/// Where a wire comes from or leads to.
struct End {
    /// The channel, for a source.
    channel: Option<ChannelId>,
    /// The target, for a destination.
    target: Option<Target>,
    protocol: Option<ProtocolId>,
    span: Span,
}

impl Checker<'_> {
    /// Checks the `program` block. Files without one are a library: nothing is wired.
    pub(super) fn check_wiring(&mut self) {
        let mut wires = Vec::new();
        let mut first: Option<Span> = None;
        let files = self.files;
        for file in files {
            for item in file.tree.items() {
                let ast::Item::Program(item) = item else { continue };
                let span = self.span(file.id, &item);
                let span = Span { end: (span.start + 7).min(span.end), ..span };
                if let Some(first) = first {
                    self.error(
                        Diagnostic::new("duplicate-program", span, "there are two `program` blocks")
                            .label("the second one")
                            .also(first, "the first one"),
                    );
                    continue;
                }
                first = Some(span);
                wires.extend(item.wires().map(|wire| (file.id, wire)));
            }
        }
        let Some(program) = first else { return };
        self.runnable = true;
        let mut wired: HashMap<ChannelId, Span> = HashMap::new();
        let mut fed: HashMap<PpfId, Span> = HashMap::new();
        let before = self.errors.len();
        for (file, wire) in wires {
            self.wire(file, &wire, &mut wired, &mut fed);
        }
        // A wire with a wrong end may be the one that is missing elsewhere.
        let wrong = |code| !matches!(code, "protocol-mismatch" | "wired-twice");
        let no_instances = self.errors[..before].iter().any(|error| error.code == "too-many-instances")
            || self.globals.values().any(|(symbol, _)| *symbol == Symbol::Reported);
        if no_instances || self.errors[before..].iter().any(|error| wrong(error.code)) {
            return;
        }
        self.loose_ends(program, &wired, &fed);
    }

    /// Reports outputs that lead nowhere and inputs that nothing leads to. Where one could be wired to the other, a
    /// wire is missing: one report, at the output.
    fn loose_ends(&mut self, program: Span, wired: &HashMap<ChannelId, Span>, fed: &HashMap<PpfId, Span>) {
        let mut outputs = Vec::new();
        let mut inputs = Vec::new();
        if !wired.contains_key(&ChannelId(0)) {
            let ether = self.protocol_named(None, "ether");
            outputs.push(("rx".to_string(), program, ether));
        }
        for module in &self.modules {
            let alone = module.instances.is_empty().then_some(None);
            for instance in module.instances.iter().map(|id| Some(*id)).chain(alone) {
                let base = instance.map_or(&module.name, |id| &self.instances[id].name);
                for port in &module.ports {
                    let end = (format!("{base}.{}", port.name), port.span, port.protocol);
                    let (channel, reader) = self.port_of(instance, port);
                    match port.kind {
                        PortKind::Out if !channel.is_some_and(|c| wired.contains_key(&c)) => outputs.push(end),
                        PortKind::In if reader.is_some_and(|ppf| !fed.contains_key(&ppf)) => inputs.push(end),
                        _ => {}
                    }
                }
            }
        }
        for (name, span, protocol) in outputs {
            let partner = inputs.iter().position(|(_, _, input)| *input == protocol).map(|at| inputs.remove(at).0);
            let error = Diagnostic::new("unwired", span, format!("`{name}` leads nowhere"));
            let error = match span == program {
                true => error.label("received packets go to no module"),
                false => error.label("not wired").also(program, "the program's wires"),
            };
            let to = partner.unwrap_or("…".into());
            self.error(error.hint(format!("add `{name} -> {to};` to the program")));
        }
        for (name, span, _) in inputs {
            self.error(
                Diagnostic::new("unfed", span, format!("nothing leads to `{name}`"))
                    .label("not wired")
                    .also(program, "the program's wires")
                    .hint(format!("add `… -> {name};` to the program")),
            );
        }
    }

    fn wire(
        &mut self,
        file: FileId,
        wire: &ast::Wire,
        wired: &mut HashMap<ChannelId, Span>,
        fed: &mut HashMap<PpfId, Span>,
    ) {
        let Some((from, to)) = wire.from().zip(wire.to()) else { return };
        let injects = from.controller();
        let batch = self.batch(file, wire, &to);
        let (from, to) = match &injects {
            Some(controller) => {
                let name: Vec<_> = to.segments().map(|part| part.text().to_string()).collect();
                let name = format!("{} -> {}", controller.text(), name.join("."));
                let to = self.wire_end(file, &to, false);
                return self.injection(name, controller, controller.span(file), to, fed);
            }
            None => (self.wire_end(file, &from, true), self.wire_end(file, &to, false)),
        };
        if let Some(Target::Ppf(ppf)) = to.as_ref().and_then(|to| to.target) {
            fed.insert(ppf, to.as_ref().expect("just looked at").span);
        }
        let Some(from) = from else { return };
        let Some(channel) = from.channel else { return };
        if let Some(first) = wired.insert(channel, from.span) {
            self.error(
                Diagnostic::new("wired-twice", from.span, "a channel leads to one place")
                    .label("wired again here")
                    .also(first, "first wired here")
                    .hint("packets for two places are copied with packet_copy and put to two channels"),
            );
            return;
        }
        let Some(to) = to else { return };
        if let (Some(a), Some(b)) = (from.protocol, to.protocol)
            && a != b
        {
            let names = [a, b].map(|p| self.hir.protocols[p.0 as usize].name.clone());
            self.error(
                Diagnostic::new("protocol-mismatch", to.span, format!("this end takes {} packets", names[1]))
                    .label(format!("takes {}", names[1]))
                    .also(from.span, format!("carries {}", names[0]))
                    .hint("a PPF between them can encapsulate or decapsulate"),
            );
        }
        if let Some(target) = to.target {
            let wired = &mut self.hir.channels[channel.0 as usize];
            (wired.target, wired.batch) = (target, batch);
        }
        if channel == ChannelId(0)
            && let Some(protocol) = to.protocol.or(from.protocol)
        {
            self.hir.channels[0].protocol = protocol;
        }
    }

    /// The `batch` clause of a wire.
    fn batch(&mut self, file: FileId, wire: &ast::Wire, to: &ast::WireEnd) -> Option<Batch> {
        let clause = wire.batch()?;
        if to.controller().is_none() {
            let error = Diagnostic::new("bad-batch", self.span(file, &clause), "only a controller is woken");
            self.error(error.label("no controller gets these packets").also(self.span(file, to), "they go here"));
            return None;
        }
        let (packets, within) = (clause.packets()?, clause.within()?);
        let packets = self.size(file, None, &packets, "the number of packets that wake a controller", Batch::PACKETS);
        let time = self.evaluate_expr(file, None, &within)?;
        let time = time.bits().and_then(|ns| u64::try_from(ns).ok()).filter(|ns| Batch::WITHIN.contains(ns));
        if time.is_none() {
            let span = self.span(file, &within);
            let error = Diagnostic::new("bad-batch", span, "this is no time for which a packet may wait for others");
            self.error(error.label("must be from 1us to 1s").hint("such as `batch 256 within 5ms`"));
        }
        Some(Batch { packets: packets?, within: time? })
    }

    /// The controller of this name.
    fn controller(&mut self, name: &ast::Name) -> ControllerId {
        let controllers = &mut self.hir.controllers;
        let known = controllers.iter().position(|controller| controller.name == name.text());
        ControllerId(known.unwrap_or_else(|| {
            controllers.push(Controller { name: name.text().to_string() });
            controllers.len() - 1
        }) as u32)
    }

    /// `controller NAME -> module.input`: packets enter there, too.
    fn injection(
        &mut self,
        name: String,
        controller: &ast::Name,
        at: Span,
        to: Option<End>,
        fed: &mut HashMap<PpfId, Span>,
    ) {
        let Some(End { target, protocol, span, .. }) = to else { return };
        let (Some(target @ Target::Ppf(ppf)), Some(protocol)) = (target, protocol) else {
            if !matches!(target, None | Some(Target::Ppf(_))) {
                self.error(
                    Diagnostic::new("wrong-direction", span, "a controller injects packets into a module")
                        .label("not an input of a module")
                        .hint("a module that does nothing else can hand them on"),
                );
            }
            return;
        };
        fed.insert(ppf, span);
        let from = Some(Source::Controller(self.controller(controller)));
        if self.hir.channels.iter().any(|channel| channel.name == name) {
            let error = Diagnostic::new("wired-twice", at, "this controller injects there already");
            return self.error(error.label("wired again here").also(span, "the same input"));
        }
        self.hir.channels.push(Channel { name, from, protocol, target, batch: None });
    }

    fn wire_end(&mut self, file: FileId, end: &ast::WireEnd, source: bool) -> Option<End> {
        let base = end.base()?;
        let span = self.span(file, end);
        if let Some(controller) = end.controller() {
            let target = Some(Target::Controller(self.controller(&controller)));
            return Some(End { channel: None, target, protocol: None, span });
        }
        let Some(port) = end.port() else {
            return self.built_in_end(file, &base, source);
        };
        let (module, instance) = match self.meant(file, None, &base) {
            Some(Symbol::Module(id)) => (id, None),
            Some(Symbol::Instance(id)) => (self.instances[id].module, Some(id)),
            found => {
                self.unknown(file, &base, "module", found);
                return None;
            }
        };
        let found = self.modules[module.0].names.get(port.text()).copied();
        if let Some((_, declared)) = found {
            self.note(port.span(file), declared);
        }
        let index = match found {
            Some((Symbol::Port(index), _)) => index,
            found => {
                let found = found.map(|(symbol, _)| symbol);
                self.unknown(file, &port, "channel", found);
                return None;
            }
        };
        if instance.is_none() && !self.modules[module.0].instances.is_empty() {
            self.needs_instance(module, port.text(), span);
            return None;
        }
        let info = &self.modules[module.0].ports[index];
        let right = if source { PortKind::Out } else { PortKind::In };
        if info.kind != right {
            let (declared, name) = (info.span, info.name.clone());
            let text = match (info.kind, source) {
                (PortKind::Channel, _) => format!("`{name}` stays inside its module"),
                (_, true) => format!("`{name}` leads into its module"),
                (_, false) => format!("`{name}` leads out of its module"),
            };
            self.error(
                Diagnostic::new("wrong-direction", span, text)
                    .label(if source { "an output is needed here" } else { "an input is needed here" })
                    .also(declared, "declared here"),
            );
            return None;
        }
        let (channel, reader) = self.port_of(instance, info);
        Some(End { channel, target: reader.map(Target::Ppf), protocol: info.protocol, span })
    }

    /// The channel and the reader of a port, in an instance of its module where that has some.
    fn port_of(&self, instance: Option<usize>, port: &Port) -> (Option<ChannelId>, Option<PpfId>) {
        let Some(instance) = instance else { return (port.channel, port.reader) };
        let channel = port.channel.map(|id| ChannelId(self.number_in(instance, id.0, |own| &own.channels)));
        (channel, port.reader.map(|id| PpfId(self.number_in(instance, id.0, |own| &own.ppfs))))
    }

    /// `rx`, `tx` and `host` carry frames.
    fn built_in_end(&mut self, file: FileId, name: &ast::Name, source: bool) -> Option<End> {
        let span = name.span(file);
        let (channel, target) = match (name.text(), source) {
            ("rx", true) => (Some(ChannelId(0)), None),
            ("tx", false) => (None, Some(Target::Tx)),
            ("host", false) => (None, Some(Target::Host)),
            ("rx" | "tx" | "host", _) => {
                self.error(
                    Diagnostic::new("wrong-direction", span, format!("`{}` can't stand on this side", name.text()))
                        .label(if source { "packets only go there" } else { "packets only come from there" }),
                );
                return None;
            }
            (text, _) => {
                let error = match self.resolve(None, text) {
                    Some(Symbol::Module(_)) => {
                        Diagnostic::new("unknown-end", span, format!("`{text}` is a module, not one of its channels"))
                            .label("which channel?")
                    }
                    Some(Symbol::Instance(_)) => Diagnostic::new(
                        "unknown-end",
                        span,
                        format!("`{text}` is an instance, not one of its channels"),
                    )
                    .label("which channel?"),
                    _ => Diagnostic::new("unknown-end", span, format!("there is no end `{text}`")).label("not known"),
                };
                self.error(error.hint("write MODULE.CHANNEL, one of rx, tx, host, or `controller NAME`"));
                return None;
            }
        };
        let Some(ether) = self.protocol_named(None, "ether") else {
            self.error(
                Diagnostic::new("no-ether", span, format!("`{}` carries ether packets", name.text()))
                    .label("there is no protocol `ether`")
                    .hint("add `import \"net/ether\";`"),
            );
            return None;
        };
        Some(End { channel, target, protocol: Some(ether), span })
    }

    /// The PPFs that each PPF puts packets into, and where it does.
    pub(super) fn edges(&self) -> Vec<Vec<(PpfId, Span)>> {
        let target = |(channel, span): (ChannelId, Span)| match self.hir.channels[channel.0 as usize].target {
            Target::Ppf(target) => Some((target, span)),
            _ => None,
        };
        let next = |ppf: &Ppf| puts(&self.hir, &ppf.code).into_iter().filter_map(target).collect();
        self.hir.ppfs.iter().map(next).collect()
    }

    /// Reports channels that lead back to the PPF that puts packets into them.
    pub(super) fn check_cycles(&mut self) {
        let edges = self.edges();
        let mut visits = vec![Visit::Not; edges.len()];
        for start in 0..edges.len() {
            if visits[start] == Visit::Not && self.visit(start, 1, &edges, &mut visits) > MAX_CHAIN {
                let error = Diagnostic::new("channels-too-deep", self.hir.ppfs[start].span, "too many PPFs in a row")
                    .label(format!("more than {MAX_CHAIN} PPFs follow each other from here"));
                return self.error(error);
            }
        }
    }

    /// How many PPFs a packet runs through at most from here; `depth` is how many are under way.
    fn visit(&mut self, ppf: usize, depth: u32, edges: &[Vec<(PpfId, Span)>], visits: &mut [Visit]) -> u32 {
        visits[ppf] = Visit::UnderWay;
        let mut most = 0;
        for &(target, span) in &edges[ppf] {
            match visits[target.0 as usize] {
                Visit::Done(length) => most = most.max(length),
                Visit::Not if depth > MAX_CHAIN => most = MAX_CHAIN,
                Visit::Not => most = most.max(self.visit(target.0 as usize, depth + 1, edges, visits)),
                Visit::UnderWay => {
                    // In each instance of a module again.
                    if self.errors.iter().any(|error| error.primary.span == span) {
                        continue;
                    }
                    let target = &self.hir.ppfs[target.0 as usize];
                    let error = Diagnostic::new("channel-cycle", span, "a packet could go round for ever")
                        .label(format!("leads back to `{}`", target.name))
                        .also(target.span, "this PPF comes before it")
                        .hint("every PPF must come to an end: channels may not form a circle");
                    self.error(error);
                }
            }
        }
        visits[ppf] = Visit::Done(most + 1);
        most + 1
    }
}

/// Whether a PPF was looked at for circles, and how many PPFs a packet runs through at most from there.
#[derive(Clone, Copy, PartialEq)]
enum Visit {
    Not,
    UnderWay,
    Done(u32),
}

/// The channels that some code puts packets into, itself or by the functions that it calls.
pub(super) fn puts(program: &Program, code: &Code) -> Vec<(ChannelId, Span)> {
    let (mut puts, mut functions, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
    collect_puts(&code.body, &mut puts);
    collect_calls(&code.body, &mut functions);
    while let Some(function) = functions.pop() {
        if seen.insert(function.0) {
            let body = &program.functions[function.0 as usize].code.body;
            collect_puts(body, &mut puts);
            collect_calls(body, &mut functions);
        }
    }
    puts
}

fn collect_puts(statements: &[Stmt], puts: &mut Vec<(ChannelId, Span)>) {
    for statement in statements {
        if let StmtKind::Put(channel, _) | StmtKind::PutAt(channel, ..) | StmtKind::PutAll(channel, ..) = statement.kind
        {
            puts.push((channel, statement.span));
        }
        for nested in statement.kind.nested() {
            collect_puts(nested, puts);
        }
    }
}

/// The functions called in some statements.
pub(super) fn collect_calls(statements: &[Stmt], calls: &mut Vec<super::hir::FunctionId>) {
    for statement in statements {
        let mut exprs = statement.kind.expressions();
        while let Some(expr) = exprs.pop() {
            if let ExprKind::Call(function, _) = expr.kind {
                calls.push(function);
            }
            expr.for_each_operand(|operand| exprs.push(operand));
        }
        for nested in statement.kind.nested() {
            collect_calls(nested, calls);
        }
    }
}

//! Steps of a case: what enters, and what must come of it.

use baker::ir::{ChannelId, ControllerId, DropId, Program};
use baker::syntax::duration;

use super::case::{Enters, Leaving, Places, Step, To};
use crate::document::{self, Errors, Path, Table, Value};
use crate::entries::PortNames;
use crate::messages::{did_you_mean, list};
use crate::packet::{Definitions, build};

/// In front of the name of a controller, where a port may stand.
const CONTROLLER: &str = "controller ";

pub(super) struct Reader<'p> {
    pub program: &'p Program,
    pub definitions: Definitions,
    pub ports: &'p PortNames,
}

impl Reader<'_> {
    pub(super) fn step(&self, value: &Value, line: usize, path: &Path, errors: &mut Errors) -> Option<Step> {
        let table = document::table(value, path, errors)?;
        document::only(table, path, &["note", "in", "wait", "out", "drops"], errors);
        let note = table.get("note").and_then(|note| document::string(note, &path.key("note"), "a sentence", errors));
        let enters = match (table.get("in"), table.get("wait")) {
            (Some(packet), None) => self.enters(packet, &path.key("in"), errors),
            (None, Some(time)) => wait(time, &path.key("wait"), errors),
            (Some(_), Some(wait)) => {
                errors.add(wait.span().start, &path.key("wait"), "stands beside `in`", "a step of its own");
                None
            }
            (None, None) => {
                let accepted = "in = { port = \"…\", packet = \"…\" }, or wait = \"30s\"";
                errors.add(value.span().start, path, "`in` is missing", accepted);
                None
            }
        };
        let span = |key| table.get(key).map(Value::span);
        let enters_at = span("in").or(span("wait")).unwrap_or_default();
        let mut places = Places { enters: enters_at, out: span("out"), drops: span("drops"), ..Places::default() };
        let mut outputs = Vec::new();
        if let Some(value) = table.get("out") {
            let path = path.key("out");
            for (index, value) in document::array(value, &path, errors).unwrap_or(&[]).iter().enumerate() {
                outputs.extend(self.leaves(value, &path.index(index), errors));
                places.packets.push(value.span());
            }
        }
        let drops = table.get("drops").map(|value| self.drops(value, &path.key("drops"), errors));
        let note = note.unwrap_or_default().to_owned();
        Some(Step { line, note, enters: enters?, outputs, drops: drops.unwrap_or_default(), places })
    }

    /// `{ port = …, packet = … }`, for a packet that a controller injects with `metadata = { … }`.
    fn enters(&self, value: &Value, path: &Path, errors: &mut Errors) -> Option<Enters> {
        let table = document::table(value, path, errors)?;
        document::only(table, path, &["port", "packet", "metadata"], errors);
        let packet = self.packet(table, value, path, errors);
        let name = table.get("port").and_then(|port| self.name(port, &path.key("port"), false, errors));
        let injected = name.and_then(|name| name.strip_prefix(CONTROLLER));
        if let (Some(metadata), None) = (table.get("metadata"), injected) {
            let accepted = "where a controller injects a packet";
            errors.add(metadata.span().start, &path.key("metadata"), "a received packet has none", accepted);
        }
        let (name, packet) = (name?, packet?);
        if let Some(input) = injected {
            let channel = self.program.channels.iter().position(|channel| channel.name == input)?;
            let metadata = table.get("metadata").map(|value| self.metadata(value, &path.key("metadata"), errors));
            let metadata = metadata.unwrap_or_default();
            return Some(Enters::Injected { channel: ChannelId(channel as u32), packet, metadata });
        }
        Some(Enters::Received { port: self.ports.number(name)?, packet })
    }

    fn leaves(&self, value: &Value, path: &Path, errors: &mut Errors) -> Option<Leaving> {
        let table = document::table(value, path, errors)?;
        document::only(table, path, &["port", "packet"], errors);
        let packet = self.packet(table, value, path, errors);
        let name = table.get("port").and_then(|port| self.name(port, &path.key("port"), true, errors));
        let name = name?;
        let to = match name.strip_prefix(CONTROLLER) {
            Some(controller) => {
                let index = self.program.controllers.iter().position(|known| known.name == controller)?;
                To::Controller(ControllerId(index as u32))
            }
            None => self.ports.number(name).map_or(To::Host, To::Port),
        };
        Some(Leaving { to, packet: packet? })
    }

    /// The packet of a table that has one, and a port.
    fn packet(&self, table: &Table, value: &Value, path: &Path, errors: &mut Errors) -> Option<Vec<u8>> {
        for name in ["port", "packet"] {
            if !table.contains_key(name) {
                errors.add(value.span().start, path, format!("`{name}` is missing"), "port and packet");
            }
        }
        let packet = table.get("packet")?;
        let path = path.key("packet");
        let text = document::string(packet, &path, "packet text", errors)?;
        let built = build(self.program, text, &self.definitions);
        built.map_err(|error| errors.add(packet.span().start, &path, error.to_string(), "")).ok()
    }

    /// Where a packet comes from, or goes to: a port, or an end of the program.
    fn name<'v>(&self, value: &'v Value, path: &Path, leaves: bool, errors: &mut Errors) -> Option<&'v str> {
        let mut ends: Vec<String> = self.ports.names().map(str::to_owned).collect();
        if leaves {
            // A port may be called so.
            ends.extend((!ends.iter().any(|port| port == "host")).then(|| "host".to_owned()));
            ends.extend(self.program.controllers.iter().map(|controller| format!("{CONTROLLER}{}", controller.name)));
        } else {
            let injected = self.program.channels.iter().filter(|channel| channel.from.is_some());
            ends.extend(injected.map(|channel| format!("{CONTROLLER}{}", channel.name)));
        }
        let names = || ends.iter().map(String::as_str);
        let mut accepted = format!("one of {}", list(names()));
        if self.ports.names().next().is_none() {
            accepted += "; the case has no configuration with ports, and no [ports] NAME = { number = 1 }";
        }
        let name = document::string(value, path, &accepted, errors)?;
        if !names().any(|known| known == name) {
            let problem = format!("there is no port {name:?}{}", did_you_mean(name, names()));
            errors.add(value.span().start, path, problem, accepted);
            return None;
        }
        Some(name)
    }

    /// `{ next_hop = 3, … }`: one number per field; those left out are 0.
    fn metadata(&self, value: &Value, path: &Path, errors: &mut Errors) -> Vec<u128> {
        let fields = &self.program.metadata;
        let mut numbers = vec![0; fields.len()];
        for (key, value) in document::table(value, path, errors).into_iter().flatten() {
            let (name, path) = (key.get_ref(), path.key(key.get_ref()));
            let names = || fields.iter().map(|field| field.name.as_str());
            let Some(index) = names().position(|known| known == name) else {
                let problem = format!("there is no metadata {name}{}", did_you_mean(name, names()));
                errors.add(key.span().start, &path, problem, list(names()));
                continue;
            };
            let most = 1u64.checked_shl(fields[index].width).map_or(i64::MAX as u64, |end| end - 1);
            let number = document::integer(value, &path, 0, most.min(i64::MAX as u64), errors);
            numbers[index] = number.unwrap_or(0).into();
        }
        numbers
    }

    /// `{ reason = packets, … }`.
    fn drops(&self, value: &Value, path: &Path, errors: &mut Errors) -> Vec<(DropId, u64)> {
        let (names, mut drops) = (self.program.drop_reasons.iter().map(|reason| reason.name.as_str()), Vec::new());
        let Some(table) = document::table(value, path, errors) else { return drops };
        for (key, value) in table {
            let name: &str = key.get_ref();
            let path = path.key(name);
            let Some(id) = names.clone().position(|reason| reason == name) else {
                let problem = format!("there is no such drop reason{}", did_you_mean(name, names.clone()));
                errors.add(key.span().start, &path, problem, list(names.clone()));
                continue;
            };
            let packets = document::integer(value, &path, 1, u32::MAX.into(), errors);
            drops.extend(packets.map(|packets| (DropId(id as u32), packets)));
        }
        drops
    }
}

fn wait(value: &Value, path: &Path, errors: &mut Errors) -> Option<Enters> {
    let accepted = "a time, such as \"30s\"";
    let text = document::string(value, path, accepted, errors)?;
    let time = duration(text);
    if time.is_none() {
        errors.add(value.span().start, path, "this is no time", accepted);
    }
    time.map(Enters::Wait)
}

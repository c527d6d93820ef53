//! Puts a program's text together.

use std::fmt::Write;

use super::types::{Ty, literal};
use super::world::{Kind, Module, Target, World};
use crate::numbers::SplitMix64;

/// The whole program. `functions` and `bodies` are texts in the world's order, `timers` by module; a body of a PPF has
/// no head.
pub fn program(
    world: &World,
    n: &mut SplitMix64,
    functions: &[String],
    bodies: &[String],
    timers: &[Vec<String>],
) -> String {
    let mut text: String = world.imports.files().iter().map(|file| format!("import \"{file}\";\n")).collect();
    declarations(world, n, &mut text);
    for (function, body) in world.functions.iter().zip(functions) {
        if function.module.is_none() {
            text.push_str(body);
        }
    }
    let mut outside = String::new();
    for (index, module) in world.modules.iter().enumerate() {
        let _ = writeln!(text, "module {} {{", module.name);
        ports(world, index, &mut text);
        tables(world, module, &mut text);
        for extern_ in &module.externs {
            let params = extern_.params.iter().enumerate().map(|(i, ty)| format!("{} a{i}", ty.name()));
            let params: Vec<String> = params.collect();
            let _ = writeln!(text, "extern {} {}({});", extern_.result.name(), extern_.name, params.join(", "));
        }
        for function in &module.functions {
            text.push_str(&functions[*function]);
        }
        timers[index].iter().for_each(|timer| text.push_str(timer));
        for (ppf, body) in world.ppfs.iter().zip(bodies).filter(|(ppf, _)| ppf.module == index) {
            let handle = n.pick(&["packet_t", "pkt_t"]);
            let param = format!("{}_{handle} *pkt", world.protocols[ppf.protocol].name);
            if n.chance(80) {
                let _ = writeln!(text, "ppf {}({param}) from {} {{\n{body}}}", ppf.name, ppf.input);
                continue;
            }
            let _ = writeln!(text, "ppf {}({param}) from {};", ppf.name, ppf.input);
            let head = match n.below(2) {
                0 => format!("{}.{}.ppf({param})", module.name, ppf.name),
                _ => format!("void {}.{}({param})", module.name, ppf.name),
            };
            let _ = writeln!(outside, "{head} {{\n{body}}}");
        }
        text.push_str("}\n");
    }
    text.push_str(&outside);
    wires(world, &mut text);
    text
}

fn declarations(world: &World, n: &mut SplitMix64, text: &mut String) {
    for (name, ty, value) in world.consts.iter().filter(|c| !c.2.is_empty()) {
        let _ = writeln!(text, "const {} {name} = {value};", ty.name());
    }
    for line in &world.enums {
        let _ = writeln!(text, "{line}");
    }
    for structure in &world.structs {
        let _ = writeln!(text, "struct {} {{", structure.name);
        for (name, ty) in &structure.fields {
            let of_array = |(other, _): &&(String, Ty)| other.split('[').next() == name.split('[').next();
            let (length, name) = match name.split_once('[') {
                Some((name, "0]")) => (format!("[{}]", structure.fields.iter().filter(of_array).count()), name),
                Some(_) => continue,
                None => (String::new(), name.as_str()),
            };
            let _ = writeln!(text, "{name} : {}{length};", ty.name());
        }
        text.push_str("}\n");
    }
    for protocol in world.protocols.iter().filter(|protocol| !protocol.imported) {
        let _ = writeln!(text, "protocol {} {{", protocol.name);
        for (index, (name, ty)) in protocol.fields.iter().enumerate() {
            let width = if n.chance(80) { ty.width().to_string() } else { ty.name() };
            let default = if n.chance(30) { format!(" = {}", literal(n, *ty).text) } else { String::new() };
            let covers = match protocol.checksum == Some(index) {
                true => format!(" covers {{ {} }}", protocol.covers),
                false => String::new(),
            };
            let _ = writeln!(text, "{name} : {width}{default}{covers};");
        }
        if !protocol.pseudo.is_empty() {
            let names: Vec<&str> = protocol.pseudo.iter().map(|index| protocol.fields[*index].0.as_str()).collect();
            let _ = writeln!(text, "pseudo {{ {} }}", names.join(", "));
        }
        if let Some(length) = &protocol.length {
            let _ = writeln!(text, "length {{ {length} }};");
        }
        let _ = writeln!(text, "demux {{ {} }};\n}}", protocol.demux);
    }
    text.push_str("metadata {\n    fault : drop_reason;\n");
    for (name, ty) in &world.metadata {
        let _ = writeln!(text, "{name} : {};", ty.name());
    }
    let _ = writeln!(text, "}}\ndrop_reason {};", world.reasons.join(", "));
}

fn ports(world: &World, index: usize, text: &mut String) {
    for ppf in world.ppfs.iter().filter(|ppf| ppf.module == index && !ppf.internal) {
        let _ = writeln!(text, "in {} {};", world.protocols[ppf.protocol].name, ppf.input);
    }
    for channel in &world.modules[index].channels {
        let internal = matches!(channel.target, Target::Ppf(ppf) if world.ppfs[ppf].internal);
        let kind = if internal { "channel" } else { "out" };
        let _ = writeln!(text, "{kind} {} {};", world.protocols[channel.protocol].name, channel.name);
    }
}

fn tables(world: &World, module: &Module, text: &mut String) {
    for table in &module.tables {
        let [key, value] = [table.key, table.value].map(|ty| world.value_name(ty));
        let ty = match table.kind {
            Kind::Array => format!("array<{value}>"),
            Kind::Hash => format!("hash<{key}, {value}>"),
            Kind::Set => format!("set<{key}>"),
            Kind::Lpm => format!("lpm<{key}, {value}>"),
        };
        let idle = table.idle.map_or(String::new(), |ns| format!(" idle {ns}ns"));
        let _ = writeln!(text, "{ty} {}[{}]{idle};", table.name, table.capacity);
    }
    for (name, size) in &module.counters {
        let size = if *size == 1 { String::new() } else { format!("[{size}]") };
        let _ = writeln!(text, "counter {name}{size};");
    }
    for (name, size, clause) in &module.meters {
        // Several meters are those of keys, some of which age.
        let _ = match size {
            1 => writeln!(text, "meter {name}{clause};"),
            2 => writeln!(text, "hash<u32, meter> {name}[2]{clause} idle 1s;"),
            _ if clause.len() % 2 == 0 => writeln!(text, "array<meter> {name}[{size}]{clause};"),
            _ => writeln!(text, "hash<u32, meter> {name}[{size}]{clause};"),
        };
    }
}

fn wires(world: &World, text: &mut String) {
    text.push_str("program {\n");
    for module in world.modules.iter().filter(|module| !module.instances.is_empty()) {
        let _ = writeln!(text, "{} {};", module.name, module.instances.join(", "));
    }
    // Wires to an input lead to one instance after the other, so that each has some.
    let mut fed = vec![0; world.ppfs.len()];
    let mut input = |ppf: usize| {
        let bases = world.modules[world.ppfs[ppf].module].known_as();
        fed[ppf] += 1;
        format!("{}.{}", bases[(fed[ppf] - 1) % bases.len()], world.ppfs[ppf].input)
    };
    let _ = writeln!(text, "rx -> {};", input(0));
    for module in &world.modules {
        for (base, channel) in module.known_as().iter().flat_map(|base| module.channels.iter().map(move |c| (base, c)))
        {
            let to = match channel.target {
                Target::Ppf(ppf) if world.ppfs[ppf].internal => continue,
                Target::Ppf(ppf) => input(ppf),
                Target::Tx => "tx".into(),
                Target::Host => "host".into(),
                Target::Controller => "controller c".into(),
            };
            let _ = writeln!(text, "{base}.{} -> {to};", channel.name);
        }
    }
    for ppf in &world.injected {
        for base in world.modules[world.ppfs[*ppf].module].known_as() {
            let _ = writeln!(text, "controller c -> {base}.{};", world.ppfs[*ppf].input);
        }
    }
    text.push_str("}\n");
}

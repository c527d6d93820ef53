//! Ids and sizes in the program's declarations.

use super::Errors;
use crate::ir::arith::mask;
use crate::ir::*;

pub(super) fn check(program: &Program, errors: &mut Errors) {
    program.protocols.iter().for_each(|protocol| check_protocol(protocol, errors));
    check_metadata(program, errors);
    program.layouts.iter().for_each(|layout| check_layout(layout, errors));
    program.tables.iter().for_each(|table| check_table(program, table, errors));
    for (i, (name, _)) in BUILTIN_DROP_REASONS.iter().enumerate() {
        if program.drop_reasons.get(i).is_none_or(|reason| reason.name != *name) {
            errors.add(format!("drop reason {i} is not the built-in {name}"));
        }
    }
    if program.channels.is_empty() {
        errors.add("there is no channel 0, rx".into());
    }
    for channel in &program.channels {
        let name = &channel.name;
        if program.protocols.get(channel.protocol.0 as usize).is_none() {
            errors.add(format!("channel {name}: there is no protocol {}", channel.protocol.0));
        } else if let Target::Controller(id) = channel.target
            && program.controllers.get(id.0 as usize).is_none()
        {
            errors.add(format!("channel {name}: there is no controller {}", id.0));
        } else if matches!(channel.from, Some(Source::Controller(id)) if program.controllers.get(id.0 as usize).is_none())
        {
            errors.add(format!("channel {name}: there is no controller that injects packets"));
        } else if let Target::Group(id, on) = channel.target {
            let on = program.channels.get(on.0 as usize);
            let right = on.is_some_and(|on| on.from == Some(Source::Group(id)) && on.protocol == channel.protocol);
            if !right || program.tables.get(id.0 as usize).is_none_or(|table| table.group.is_none()) {
                errors.add(format!("channel {name}: there is no such group, or nothing behind it"));
            }
        } else if let Target::Queue(id, on) = channel.target {
            let on = program.channels.get(on.0 as usize);
            let right = on.is_some_and(|on| on.from == Some(Source::Queue(id)) && on.protocol == channel.protocol);
            if !right || program.queues.get(id.0 as usize).is_none() {
                errors.add(format!("channel {name}: there is no such queue, or nothing behind it"));
            }
        } else if let Target::Ppf(id) = channel.target {
            match program.ppfs.get(id.0 as usize) {
                None => errors.add(format!("channel {name}: there is no ppf {}", id.0)),
                Some(ppf) if ppf.protocol != channel.protocol => {
                    errors.add(format!("channel {name}: its protocol is not that of ppf {}", ppf.name))
                }
                Some(_) => {}
            }
        }
    }
    for function in &program.externs {
        if function.params.iter().chain(&function.result).any(|width| width_is_wrong(*width)) {
            errors.add(format!("extern {}: an argument or its result has not 1 to 128 bits", function.name));
        }
        if function.params.len() > Extern::MAX_PARAMS {
            errors.add(format!("extern {}: it has {} arguments", function.name, function.params.len()));
        }
    }
    program.timers.iter().for_each(|timer| check_timer(program, timer, errors));
    for ppf in &program.ppfs {
        if program.protocols.get(ppf.protocol.0 as usize).is_none() {
            errors.add(format!("ppf {}: there is no protocol {}", ppf.name, ppf.protocol.0));
        }
    }
}

fn width_is_wrong(width: u32) -> bool {
    !(1..=128).contains(&width)
}

fn check_protocol(protocol: &Protocol, errors: &mut Errors) {
    let name = &protocol.name;
    // Fields follow each other without gaps from the first bit to the last.
    let mut next = 0u64;
    for field in &protocol.fields {
        if width_is_wrong(field.bits.width) {
            errors.add(format!("protocol {name}: {} has {} bits", field.name, field.bits.width));
        } else if field.default & !mask(field.bits.width) != 0 {
            errors.add(format!("protocol {name}: the default of {} does not fit its bits", field.name));
        }
        if field.bits.offset as u64 != next {
            errors.add(format!("protocol {name}: {} does not begin where the field before it ends", field.name));
        }
        next = field.bits.offset as u64 + field.bits.width as u64;
    }
    if next != protocol.size as u64 * 8 {
        errors.add(format!("protocol {name}: its fields have {next} bits, not {} bytes", protocol.size));
    }
    if protocol.checksum.is_some_and(|checksum| checksum.field >= protocol.fields.len()) {
        errors.add(format!("protocol {name}: its checksum is none of its fields"));
    }
    if protocol.pseudo.iter().any(|&field| field >= protocol.fields.len()) {
        errors.add(format!("protocol {name}: a part of its pseudo header is none of its fields"));
    }
}

fn check_metadata(program: &Program, errors: &mut Errors) {
    for (i, name) in ["rx.port", "tx.port"].iter().enumerate() {
        if program.metadata.get(i).is_none_or(|field| field.name != *name || field.width != 8) {
            errors.add(format!("metadata field {i} is not {name} with 8 bits"));
        }
    }
    let fields: Vec<_> = program.metadata.iter().map(|f| (f.name.as_str(), f.width, f.offset)).collect();
    check_storage("metadata", &fields, program.metadata_size, errors);
}

fn check_layout(layout: &Layout, errors: &mut Errors) {
    let of = format!("layout {}", layout.name);
    if layout.fields.is_empty() {
        errors.add(format!("{of}: it has no field"));
    }
    let fields: Vec<_> = layout.fields.iter().map(|f| (f.name.as_str(), f.width, f.offset)).collect();
    check_storage(&of, &fields, layout.size, errors);
    let align = layout.fields.iter().map(|f| storage_align(f.width.clamp(1, 128))).max().unwrap_or(1);
    if layout.align != align || !layout.size.is_multiple_of(align) {
        errors.add(format!("{of}: its size or alignment does not suit its fields"));
    }
}

/// Fields (name, width, offset) in memory: aligned, apart from each other, within `size` bytes.
fn check_storage(of: &str, fields: &[(&str, u32, u32)], size: u32, errors: &mut Errors) {
    let mut end = 0u64;
    let mut by_offset = fields.to_vec();
    by_offset.sort_by_key(|field| field.2);
    for (name, width, offset) in by_offset {
        if width_is_wrong(width) {
            errors.add(format!("{of}: {name} has {width} bits"));
            continue;
        }
        let bytes = storage_size(width);
        let align = storage_align(width);
        if !offset.is_multiple_of(align) {
            errors.add(format!("{of}: {name} is not aligned to its {align} bytes"));
        }
        if (offset as u64) < end {
            errors.add(format!("{of}: {name} overlaps the field before it"));
        }
        end = offset as u64 + bytes as u64;
    }
    if end > size as u64 {
        errors.add(format!("{of}: its fields need {end} bytes and it has {size}"));
    }
}

fn check_table(program: &Program, table: &Table, errors: &mut Errors) {
    let name = &table.name;
    let layout = |id: LayoutId| program.layouts.get(id.0 as usize);
    let (Some(key), Some(value)) = (layout(table.key), layout(table.value)) else {
        errors.add(format!("table {name}: there is no such layout"));
        return;
    };
    let right = match (table.kind, &key.fields[..]) {
        (TableKind::Hash, _) | (TableKind::Lpm, [_]) => true,
        (TableKind::Array, [field]) => field.width == 32,
        _ => false,
    };
    if table.idle.is_some() && !table.kind_row().ages {
        errors.add(format!("table {name}: its entries age, and it is no hash"));
    }
    let is_group = |key: &Layout| key.fields.len() == 2 && key.fields.iter().all(|field| field.width == 32);
    if table.group.is_some() && (table.kind != TableKind::Hash || table.idle.is_some() || !is_group(key)) {
        errors.add(format!("table {name}: groups are a hash table, whose keys are a group and a number"));
    }
    // As the code of all engines has it.
    let is_meter = |layout: &Layout| {
        let wide = layout.fields.iter().all(|field| field.width == 64);
        let at = |field: Option<&LayoutField>| field.map(|field| field.offset);
        let places = [at(layout.fields.first()), at(layout.fields.get(1)), at(layout.fields.last())];
        wide && layout.fields.len() == 3 + usize::from(table.idle.is_some()) && places == [Some(0), Some(8), Some(16)]
    };
    if table.meter.is_some() && (table.is_set || !is_meter(value)) {
        errors.add(format!("table {name}: a meter is rate, burst and time"));
    }
    if table.locked && value.fields.last().is_none_or(|field| field.width != 32) {
        errors.add(format!("table {name}: its entries have no lock"));
    }
    if value.fields.len() <= table.hidden_fields() {
        errors.add(format!("table {name}: nothing of its values is seen"));
    }
    if !right {
        errors.add(format!("table {name}: the key of an array is one field of 32 bits, and of an lpm one field"));
    }
}

fn check_timer(program: &Program, timer: &Timer, errors: &mut Errors) {
    let name = &timer.name;
    if timer.slice == 0 {
        errors.add(format!("timer {name}: it does nothing"));
    }
    if timer.is_at_deadline() && timer.table.is_none() {
        errors.add(format!("timer {name}: there is no deadline without a table"));
    }
    let at_deadline = |other: &&Timer| other.is_at_deadline() && other.table == timer.table;
    if timer.is_at_deadline() && program.timers.iter().filter(at_deadline).count() > 1 {
        errors.add(format!("timer {name}: another one runs at the deadlines of its table"));
    }
    if let Some(id) = timer.table {
        match program.tables.get(id.0 as usize) {
            None => errors.add(format!("timer {name}: there is no table {}", id.0)),
            Some(table) if !table.kind_row().timers => {
                errors.add(format!("timer {name}: goes over {}", table.kind_row().article));
            }
            Some(_) => {}
        }
    }
}

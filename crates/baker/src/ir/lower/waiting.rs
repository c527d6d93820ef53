//! Puts into what packets wait in, queues and groups: each is a put into a channel that leads there, and for each there
//! is a channel by which packets enter again and go where the program's channel leads.

use crate::check::hir::{self, Stmt, StmtKind};
use crate::ir::{Channel, ChannelId, MetaField, Program, Source, Target, storage_size};

/// The puts of one kind that a program has, each once, in order: the channel, and what they go into.
pub(super) fn puts<Id: Copy + PartialEq>(
    program: &hir::Program,
    of: impl Fn(&StmtKind) -> Option<(ChannelId, Id)> + Copy,
) -> Vec<(ChannelId, Id)> {
    fn search<Id: Copy + PartialEq>(
        statements: &[Stmt],
        of: impl Fn(&StmtKind) -> Option<(ChannelId, Id)> + Copy,
        found: &mut Vec<(ChannelId, Id)>,
    ) {
        for Stmt { kind, .. } in statements {
            found.extend(of(kind).filter(|put| !found.contains(put)));
            kind.nested().into_iter().for_each(|nested| search(nested, of, found));
        }
    }
    let mut found = Vec::new();
    program.bodies().for_each(|code| search(&code.body, of, &mut found));
    found
}

/// Adds a pair of channels for each put. `place` has a name, the target of a channel into it from which packets go on
/// by another one, and the source of that.
pub(super) fn declare<'p, Id: Copy>(
    program: &'p hir::Program,
    lowered: &mut Program,
    puts: Vec<(ChannelId, Id)>,
    place: impl Fn(Id) -> (&'p str, fn(Id, ChannelId) -> Target, fn(Id) -> Source),
) {
    for (channel, id) in puts {
        let Channel { name, protocol, target, batch, .. } = program.channels[channel.0 as usize].clone();
        let (place, waits, source) = place(id);
        let on = ChannelId(lowered.channels.len() as u32 + 1);
        let (into, out) = (format!("{name} in {place}"), format!("{place} -> {name}"));
        lowered.channels.push(Channel { name: into, from: None, protocol, target: waits(id, on), batch: None });
        lowered.channels.push(Channel { name: out, from: Some(source(id)), protocol, target, batch });
    }
}

/// Adds metadata, an unsigned number of so many bits, behind what there is.
pub(super) fn add_metadata(lowered: &mut Program, name: &str, width: u32) {
    let size = storage_size(width);
    let offset = lowered.metadata_size.next_multiple_of(size);
    lowered.metadata.push(MetaField { name: name.into(), type_name: format!("u{width}"), width, offset });
    lowered.metadata_size = offset + size;
}

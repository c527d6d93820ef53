//! Puts to all members of a group: a put into a channel that leads to the groups, with the group's number in the
//! packet's metadata, and a channel by which a copy for each member enters.
//!
//! ```text
//! channel_put_all(output, viewers[i], pkt)
//!
//!                             →      meta_store v0 group, v1
//!                                    meta_store v0 group.table, 0x5b2e11c7
//!                                    put v0 -> m.output in m.viewers       to the group m.viewers
//!                                    m.viewers -> m.output                 from there to where m.output leads
//!
//! group_member(viewers, pkt)  →      lookup m.viewers(v0's group, v0's member), where v0's table is m.viewers
//! ```

use super::{Lowering, waiting};
use crate::check::hir::{self, Expr, LocalId, StmtKind};
use crate::ir::{ChannelId, CmpOp, GROUP_FIELDS, MetaId, Op, Program, Source, TableId, Target, Ty, Value};

/// No group's number.
const NO_GROUP: u128 = u32::MAX as u128;

/// The puts into groups of a program, each once, in order.
fn fanned_out(program: &hir::Program) -> Vec<(ChannelId, TableId)> {
    waiting::puts(program, |kind| match kind {
        StmtKind::PutAll(channel, groups, ..) => Some((*channel, *groups)),
        _ => None,
    })
}

/// Metadata that lowering puts behind the program's for groups.
pub(super) fn added_metadata(program: &hir::Program) -> u32 {
    u32::from(program.tables.iter().any(|table| table.group.is_some()))
}

/// Channels that lowering puts behind the program's for groups.
pub(super) fn added_channels(program: &hir::Program) -> usize {
    2 * fanned_out(program).len()
}

/// Adds the channels into groups and out of them, and the metadata.
pub(super) fn declare(program: &hir::Program, lowered: &mut Program) {
    if added_metadata(program) == 0 {
        return;
    }
    let [_, _, name] = GROUP_FIELDS;
    waiting::add_metadata(lowered, name, 32);
    let name = |groups: TableId| program.tables[groups.0 as usize].name.as_str();
    waiting::declare(program, lowered, fanned_out(program), |groups| (name(groups), Target::Group, Source::Group));
}

impl<'p> Lowering<'p> {
    /// The metadata fields of groups: those of the program, and the one behind them.
    fn group_fields(&self) -> [MetaId; 3] {
        let metadata = &self.program.metadata;
        let known = |name: &str| metadata.iter().position(|field| field.name == name).unwrap_or(metadata.len());
        GROUP_FIELDS.map(|name| MetaId(known(name) as u32))
    }

    /// `channel_put_all`
    pub(super) fn put_all(&mut self, ids: (ChannelId, TableId), packet: &'p Expr, which: &'p Expr) {
        let which = self.value(which);
        let packet = self.consume(packet);
        let [group, _, table] = self.group_fields();
        let mark = self.b.constant(32, self.table(ids.1).mark().into());
        for (field, value) in [(group, which), (table, mark)] {
            self.b.effect(Op::MetaStore { packet, field, value });
        }
        let index = fanned_out(self.program).iter().position(|known| *known == ids).expect("each was found");
        let channel = ChannelId((self.program.channels.len() + 2 * index) as u32);
        self.b.effect(Op::Put { packet, channel });
    }

    /// `group_member`
    pub(super) fn member(&mut self, groups: TableId, packet: LocalId) -> Value {
        let packet = self.packet_value(packet);
        let [group, member, table] =
            self.group_fields().map(|field| self.b.push(Ty::Int(32), Op::MetaLoad { packet, field }));
        let mark = self.b.constant(32, self.table(groups).mark().into());
        let is_of = self.b.push(Ty::Int(1), Op::Cmp(CmpOp::Eq, table, mark));
        // A packet of no group of this table has no member there.
        let none = self.b.constant(32, NO_GROUP);
        let group = self.b.push(Ty::Int(32), Op::Select(is_of, group, none));
        self.lookup(groups, vec![group, member])
    }
}

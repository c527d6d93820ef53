//! Packets that go on outside of the kernel, and what workers find in front of them and of copies.

use std::mem::offset_of;

use baker::ir::{ChannelId, DropId, MetaId, storage_size};
use inkwell::IntPredicate;
use inkwell::values::{IntValue, PointerValue};

use super::Kernel;
use super::state::Field;
use crate::kernel::{MapUse, PUNTED, Punt, QUEUES, RECORD, Record, Verdict};
use crate::lower::{Memory, Res};

impl<'c> Kernel<'c, '_> {
    /// Out of the kernel, to go on behind a channel.
    pub(super) fn punt(&self, state: PointerValue<'c>, id: ChannelId) -> Res<()> {
        if self.options.recorded {
            let head = self.fixed(RECORD + offset_of!(Record, head) as u64)?;
            self.store(head, self.offset(state)?, 8, Memory::Table)?;
            return self.end(state, self.verdict(Verdict::Pass), PUNTED + u64::from(id.0));
        }
        self.set(state, Field::Punted, self.i64.const_int(u64::from(id.0) + 1, false))
    }

    /// Hands a packet that goes on outside to the socket of its queue: the frame begins with what workers go on with.
    pub(super) fn hand_over(&self, ctx: PointerValue<'c>, state: PointerValue<'c>) -> Res<()> {
        if self.options.recorded {
            return Ok(());
        }
        if self.is_tc() {
            return self.hand_over_by_ring(ctx, state);
        }
        let builder = &self.builder;
        let [goes_on, moved, missing, done] = self.new_blocks(["goes_on", "moved", "missing", "done"])?;
        let punted = self.number(state, Field::Punted)?;
        let is_punted = builder.build_int_compare(IntPredicate::NE, punted, self.i64.const_zero(), "")?;
        self.unlikely(builder.build_conditional_branch(is_punted, goes_on, done)?)?;

        builder.position_at_end(goes_on);
        let bytes = Punt::bytes(self.program);
        let offset = self.offset(state)?;
        let by = self.i64.const_int(-i64::from(bytes) as u64, true);
        let failed = self.move_data(ctx, state, by)?;
        let is_moved = builder.build_int_compare(IntPredicate::EQ, failed, self.i64.const_zero(), "")?;
        self.likely(builder.build_conditional_branch(is_moved, moved, missing)?)?;
        builder.position_at_end(moved);
        let front = self.within(self.pointer(state, Field::Data)?, bytes.into(), self.pointer(state, Field::End)?)?;
        let channel = self.resize(builder.build_int_sub(punted, self.i64.const_int(1, false), "")?, 16)?;
        self.write_punt(state, (front, Memory::Frame), channel, self.resize(offset, 32)?, &[])?;
        let fields = self.context_fields();
        let [interface, queue] = [fields.interface, fields.queue].map(|at| self.of_context(ctx, at));
        let (port, queue, queues) = (self.port(interface?)?, queue?, self.i32.const_int(QUEUES.into(), false));
        let first = builder.build_int_mul(self.resize(port, 32)?, queues, "")?;
        let has_socket = builder.build_int_compare(IntPredicate::ULT, queue, queues, "")?;
        let key = builder.build_int_add(first, queue, "")?;
        let key = builder.build_select(has_socket, key, self.i32.const_all_ones(), "")?.into_int_value();
        self.redirect(state, (MapUse::Sockets, key), missing, done)?;

        builder.position_at_end(missing);
        self.drop_packet(state, DropId::NO_WORKER)?;
        builder.build_unconditional_branch(done)?;
        builder.position_at_end(done);
        Ok(())
    }

    /// Writes what workers go on with (16 bits of the channel, 32 of the head), and the packet's metadata but for
    /// fields that are other than its own.
    pub(super) fn write_punt(
        &self,
        state: PointerValue<'c>,
        (front, memory): (PointerValue<'c>, Memory),
        channel: IntValue<'c>,
        head: IntValue<'c>,
        other: &[(MetaId, IntValue<'c>)],
    ) -> Res<()> {
        let field = |at: usize| self.at(front, at as u64);
        self.store(field(offset_of!(Punt, channel))?, channel, 2, memory)?;
        let generation = self.context.i16_type().const_int(self.options.generation.into(), false);
        self.store(field(offset_of!(Punt, generation))?, generation, 2, memory)?;
        self.store(field(offset_of!(Punt, head))?, head, 4, memory)?;
        for (id, meta) in (0u32..).map(MetaId).zip(&self.program.metadata) {
            let size = storage_size(meta.width);
            let value = match other.iter().find(|(field, _)| *field == id) {
                Some((_, value)) => *value,
                None => self.meta_load(state, id)?,
            };
            let at = field(size_of::<Punt>() + meta.offset as usize)?;
            self.store(at, self.resize(value, size * 8)?, size.min(8), memory)?;
        }
        Ok(())
    }
}

//! The function over a batch: each frame through the entry's protocol check and into the program.

use baker::ir::{ChannelId, DropId, Program};
use inkwell::IntPredicate;
use inkwell::attributes::AttributeLoc;
use inkwell::values::BasicValueEnum;

use super::body::pointer_param;
use super::memory::Memory;
use super::{Module, Res, entry_symbol};
use crate::{abi, internal};

impl<'c> Module<'c, '_> {
    /// Defines the [`abi::RunFn`] of a channel by which packets enter: `for i in 0..n { packet of frames[i] }`.
    pub(super) fn define_run(&self, entry: ChannelId) -> Res<()> {
        let builder = &self.builder;
        let Some(channel) = self.program.channels.get(entry.0 as usize) else {
            return internal(format!("there is no channel {}", entry.0));
        };
        let Some(protocol) = self.program.protocols.get(channel.protocol.0 as usize) else {
            return internal(format!("there is no protocol {}", channel.protocol.0));
        };
        let ty = self.context.void_type().fn_type(&[self.ptr.into(), self.ptr.into(), self.i32.into()], false);
        let function = self.llvm.add_function(&entry_symbol(entry), ty, None);
        self.decorate(function);
        self.decorate_pointer(function, 0, size_of::<abi::Context>() as u64);
        self.attribute(function, AttributeLoc::Param(0), "noalias", 0);
        for name in ["noalias", "readonly", "nocapture"] {
            self.attribute(function, AttributeLoc::Param(1), name, 0);
        }
        // What controllers inject is too little to be worth it.
        let prefetch = if entry == Program::RX { self.define_prefetch()? } else { None };
        let ctx = pointer_param(function, 0)?;
        let frames = pointer_param(function, 1)?;
        let Some(BasicValueEnum::IntValue(n)) = function.get_nth_param(2) else {
            return internal("the number of packets is not an integer");
        };

        let block = |name| self.context.append_basic_block(function, name);
        let (start, packet, truncated, received) = (block("entry"), block("packet"), block("truncated"), block("rx"));
        let (first, next, exit) = (block("first"), block("next"), block("exit"));
        builder.position_at_end(start);
        let zero = self.i32.const_zero();
        let any = builder.build_int_compare(IntPredicate::NE, n, zero, "")?;
        builder.build_conditional_branch(any, first, exit)?;

        builder.position_at_end(first);
        if let Some(prefetch) = prefetch {
            builder.build_call(prefetch, &[ctx.into(), frames.into(), n.into()], "")?;
        }
        builder.build_unconditional_branch(packet)?;

        builder.position_at_end(packet);
        let index = builder.build_phi(self.i32, "")?;
        let i = index.as_basic_value().into_int_value();
        let frame = self.load_int(self.i32, self.element(frames, i, 4)?, 4, Memory::Batch)?;
        let descriptor = self.descriptor(ctx, frame)?;
        let complete = self.has(descriptor, self.i32.const_int(protocol.size.into(), false))?;
        let branch = builder.build_conditional_branch(complete, received, truncated)?;
        self.likely(branch)?;

        builder.position_at_end(truncated);
        self.drop_packet(ctx, descriptor, DropId::TRUNCATED)?;
        builder.build_unconditional_branch(next)?;

        builder.position_at_end(received);
        self.put(ctx, descriptor, entry)?;
        builder.build_unconditional_branch(next)?;

        builder.position_at_end(next);
        let following = builder.build_int_nuw_add(i, self.i32.const_int(1, false), "")?;
        let more = builder.build_int_compare(IntPredicate::ULT, following, n, "")?;
        builder.build_conditional_branch(more, packet, exit)?;
        index.add_incoming(&[(&zero, first), (&following, next)]);

        builder.position_at_end(exit);
        builder.build_return(None)?;
        Ok(())
    }
}

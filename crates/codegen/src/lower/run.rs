//! The function over a batch: each frame through `rx`'s protocol check and into the program.

use baker::ir::{DropId, Program};
use inkwell::IntPredicate;
use inkwell::attributes::AttributeLoc;
use inkwell::values::BasicValueEnum;

use super::body::pointer_param;
use super::memory::Memory;
use super::{Module, RUN, Res};
use crate::{abi, internal};

impl<'c> Module<'c, '_> {
    /// Defines [`RUN`]: `for i in 0..n { packet of frames[i] }`.
    pub(super) fn define_run(&self) -> Res<()> {
        let builder = &self.builder;
        let Some(rx) = self.program.channels.get(Program::RX.0 as usize) else {
            return internal("the program has no channel `rx`");
        };
        let Some(protocol) = self.program.protocols.get(rx.protocol.0 as usize) else {
            return internal(format!("there is no protocol {}", rx.protocol.0));
        };
        let ty = self.context.void_type().fn_type(&[self.ptr.into(), self.ptr.into(), self.i32.into()], false);
        let function = self.llvm.add_function(RUN, ty, None);
        self.decorate(function);
        self.decorate_pointer(function, 0, size_of::<abi::Context>() as u64);
        self.attribute(function, AttributeLoc::Param(0), "noalias", 0);
        for name in ["noalias", "readonly", "nocapture"] {
            self.attribute(function, AttributeLoc::Param(1), name, 0);
        }
        let prefetch = self.define_prefetch()?;
        let ctx = pointer_param(function, 0)?;
        let frames = pointer_param(function, 1)?;
        let Some(BasicValueEnum::IntValue(n)) = function.get_nth_param(2) else {
            return internal("the number of packets is not an integer");
        };

        let block = |name| self.context.append_basic_block(function, name);
        let (entry, packet, truncated, received) = (block("entry"), block("packet"), block("truncated"), block("rx"));
        let (first, next, exit) = (block("first"), block("next"), block("exit"));
        builder.position_at_end(entry);
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
        self.put(ctx, descriptor, Program::RX)?;
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

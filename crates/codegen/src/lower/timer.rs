//! Timers: a function for one key, and one that calls it for each key of a list.

use baker::ir::{Timer, Ty};
use inkwell::IntPredicate;
use inkwell::module::Linkage;
use inkwell::values::{FunctionValue, IntValue, PointerValue};

use super::body::lower_body;
use super::memory::Memory;
use super::walk::{int_param, pointer_param};
use super::{Module, Res, timer_symbol};
use crate::{abi, internal};

impl<'c, 'p> Module<'c, 'p> {
    /// Defines the [`abi::TimerFn`] of a timer: `for i in 0..n { body(keys[i]) }`.
    pub(super) fn define_timer(&self, index: usize, timer: &Timer) -> Res<()> {
        let builder = &self.builder;
        let body = self.timer_body(index, timer)?;
        let ty = self.context.void_type().fn_type(&[self.ptr.into(), self.ptr.into(), self.i32.into()], false);
        let function = self.context_function(&timer_symbol(index), ty, None);
        let (ctx, keys) = (pointer_param(function, 0)?, pointer_param(function, 1)?);
        let n = int_param(function, 2)?;
        let block = |name| self.context.append_basic_block(function, name);
        let (entry, call, exit) = (block("entry"), block("call"), block("exit"));
        builder.position_at_end(entry);
        let zero = self.i32.const_zero();
        let any = builder.build_int_compare(IntPredicate::NE, n, zero, "")?;
        builder.build_conditional_branch(any, call, exit)?;

        builder.position_at_end(call);
        let words = match timer.table {
            Some(table) => abi::key_words(self.layout(self.table(table)?.key)?),
            None => 0,
        };
        self.for_each(function, n, |i| {
            builder.build_call(body, &[ctx.into(), self.element(keys, i, 8 * words as u64)?.into()], "")?;
            self.time_ends(ctx)?;
            Ok(())
        })?;
        builder.build_unconditional_branch(exit)?;

        builder.position_at_end(exit);
        builder.build_return(None)?;
        Ok(())
    }

    /// The function of context and key.
    fn timer_body(&self, index: usize, timer: &Timer) -> Res<FunctionValue<'c>> {
        let ty = self.context.void_type().fn_type(&[self.ptr.into(), self.ptr.into()], false);
        let function = self.context_function(&format!("timer.{}", timer.name), ty, Some(Linkage::Internal));
        if let Some(table) = timer.table {
            self.table(table)?;
        }
        lower_body(
            self,
            &timer.name,
            (&timer.body, self.copies.of_timer(index)),
            function,
            None,
            |module, function| {
                let key = pointer_param(function, 1)?;
                let mut at = 0;
                let mut fields = Vec::new();
                for ty in timer.params(module.program) {
                    let Ty::Int(width) = ty else { return internal("a key is not made of numbers") };
                    fields.push(module.key_field(key, at, width)?.into());
                    at += width;
                }
                Ok(fields)
            },
        )?;
        Ok(function)
    }

    /// A field of a packed key: `width` bits from bit `at` on.
    fn key_field(&self, key: PointerValue<'c>, at: u32, width: u32) -> Res<IntValue<'c>> {
        // The words that it lies in, as one number.
        let (first, shift) = (at / 64, at % 64);
        let ty = self.int((shift + width).div_ceil(64) * 64)?;
        let words = self.load_int(ty, self.at(key, 8 * u64::from(first))?, 8, Memory::Batch)?;
        let shifted = self.builder.build_right_shift(words, ty.const_int(shift.into(), false), false, "")?;
        self.resize(shifted, width)
    }
}

//! What LLVM must not see through: instructions of which the kernel's verifier learns something.
//!
//! The verifier follows values through registers. LLVM knows nothing of that and takes tests away that it can prove,
//! moves them, and computes the same address twice. Each rule that the verifier is to see is therefore a piece of
//! assembly.

use inkwell::types::{BasicTypeEnum, IntType};
use inkwell::values::{BasicMetadataValueEnum, BasicValueEnum, IntValue, PointerValue};

use inkwell::attributes::AttributeLoc;

use super::{Kernel, STACK};
use crate::kernel::{Number, Verdict};
use crate::lower::{Res, enum_attribute};
use crate::{CodegenError, internal};

/// Loads of maps carry this number and the map's until the loader knows it: `0x4d62_…`.
pub(super) const MAP: u64 = 0x4d62_7066_0000_0000;

/// Loads of numbers that each process has another one of carry this one until code is offered to be loaded: behind it
/// which load it is, and [`numbered`].
pub(super) const NUMBER: u64 = 0x4d62_7067_0000_0000;
/// Bits of [`numbered`].
const NUMBER_BITS: u32 = 16;

/// A number as a number of few bits; `None` beyond these.
fn numbered(number: Number) -> Option<u64> {
    let index = match number {
        Number::Base => 0,
        Number::Seed(table, second) => 2 + u64::from(table) * 2 + u64::from(second),
    };
    (index < 1 << NUMBER_BITS).then_some(index)
}

/// The number of a load that carries [`NUMBER`] with these lower 32 bits.
pub(super) fn number(carried: u32) -> Number {
    match carried & ((1 << NUMBER_BITS) - 1) {
        0 | 1 => Number::Base,
        index => Number::Seed(index / 2 - 1, index % 2 == 1),
    }
}

impl<'c> Kernel<'c, '_> {
    /// A piece of assembly with one result. `effects`: it is neither left out nor moved.
    fn asm(
        &self,
        result: BasicTypeEnum<'c>,
        text: String,
        constraints: &str,
        args: &[BasicMetadataValueEnum<'c>],
        effects: bool,
    ) -> Res<BasicValueEnum<'c>> {
        use inkwell::types::{BasicMetadataTypeEnum, BasicType};
        let param = |arg: &BasicMetadataValueEnum<'c>| match arg {
            BasicMetadataValueEnum::IntValue(value) => Ok(BasicMetadataTypeEnum::from(value.get_type())),
            BasicMetadataValueEnum::PointerValue(value) => Ok(value.get_type().into()),
            _ => internal("an operand of assembly that is no number"),
        };
        let params = args.iter().map(param).collect::<Res<Vec<_>>>()?;
        let ty = result.fn_type(&params, false);
        let asm = self.context.create_inline_asm(ty, text, constraints.into(), effects, false, None, false);
        let call = self.builder.build_indirect_call(ty, asm, args, "")?;
        if !effects {
            // It depends on its operands alone (`memory(none)`).
            for name in ["memory", "nounwind", "willreturn"] {
                call.add_attribute(AttributeLoc::Function, enum_attribute(self.context, name, 0));
            }
        }
        let value = call.try_as_basic_value().basic();
        value.ok_or_else(|| CodegenError::Internal("assembly without a result".into()))
    }

    fn asm_int(
        &self,
        ty: IntType<'c>,
        text: String,
        constraints: &str,
        args: &[BasicMetadataValueEnum<'c>],
        effects: bool,
    ) -> Res<IntValue<'c>> {
        Ok(self.asm(ty.into(), text, constraints, args, effects)?.into_int_value())
    }

    /// A word of the program's context that is a packet pointer.
    pub(super) fn packet_pointer(&self, ctx: PointerValue<'c>, offset: u32) -> Res<PointerValue<'c>> {
        let text = format!("$0 = *(u32 *)($1 + {offset})");
        let value = self.asm(self.ptr.into(), text, "=r,r,~{memory}", &[ctx.into()], true)?;
        Ok(value.into_pointer_value())
    }

    /// A number (64 bits) of which the verifier knows that it has no bits but these.
    pub(super) fn masked(&self, value: IntValue<'c>, mask: u64) -> Res<IntValue<'c>> {
        if mask > i32::MAX as u64 {
            return internal(format!("a mask of {mask:#x}"));
        }
        self.asm_int(self.i64, format!("$0 &= {mask}"), "=r,0", &[value.into()], false)
    }

    /// Distance of two packet pointers, 64 bits.
    pub(super) fn distance(&self, to: PointerValue<'c>, from: PointerValue<'c>) -> Res<IntValue<'c>> {
        self.asm_int(self.i64, "$0 -= $2".into(), "=r,0,r", &[to.into(), from.into()], false)
    }

    /// The pointer, where `bytes` bytes from it on lie within the packet. They do.
    pub(super) fn within(&self, ptr: PointerValue<'c>, bytes: u64, end: PointerValue<'c>) -> Res<PointerValue<'c>> {
        let fault = self.verdict_code(Verdict::Aborted);
        let text = format!("r0 = $1\n\tr0 += {bytes}\n\tif r0 <= $2 goto +2\n\tr0 = {fault}\n\texit");
        let value = self.asm(self.ptr.into(), text, "=r,0,r,~{r0},~{memory}", &[ptr.into(), end.into()], true)?;
        Ok(value.into_pointer_value())
    }

    /// Whether so many bytes from a pointer on lie within the packet (1 bit), and the pointer; where it is found to be
    /// so, the verifier knows. LLVM would compute the pointer once more, of which the verifier then knows nothing.
    pub(super) fn has(
        &self,
        ptr: PointerValue<'c>,
        bytes: u64,
        end: PointerValue<'c>,
    ) -> Res<(IntValue<'c>, PointerValue<'c>)> {
        let text = format!("r0 = $2\n\tr0 += {bytes}\n\t$0 = 1\n\tif r0 <= $3 goto +1\n\t$0 = 0");
        let both = self.context.struct_type(&[self.i64.into(), self.ptr.into()], false);
        let value =
            self.asm(both.into(), text, "=&r,=r,1,r,~{r0}", &[ptr.into(), end.into()], true)?.into_struct_value();
        let flag = self.builder.build_extract_value(value, 0, "")?.into_int_value();
        let ptr = self.builder.build_extract_value(value, 1, "")?.into_pointer_value();
        let has = self.builder.build_int_compare(inkwell::IntPredicate::NE, flag, self.i64.const_zero(), "")?;
        Ok((has, ptr))
    }

    /// Whether a number (64 bits) below 2^32 is 1 to `most` (1 bit), and the number; where it is found to be so, the
    /// verifier knows. It may know the lower half of the number already, and would take 0 for possible as long as it
    /// knows nothing of the upper half (6.18).
    pub(super) fn has_count(&self, number: IntValue<'c>, most: u64) -> Res<(IntValue<'c>, IntValue<'c>)> {
        let below = "$1 <<= 32\n\t$1 >>= 32";
        let text = format!("{below}\n\t$0 = 0\n\tif $1 < 1 goto +2\n\tif $1 > {most} goto +1\n\t$0 = 1");
        let both = self.context.struct_type(&[self.i64.into(), self.i64.into()], false);
        let value = self.asm(both.into(), text, "=&r,=r,1", &[number.into()], true)?.into_struct_value();
        let flag = self.builder.build_extract_value(value, 0, "")?.into_int_value();
        let number = self.builder.build_extract_value(value, 1, "")?.into_int_value();
        let has = self.builder.build_int_compare(inkwell::IntPredicate::NE, flag, self.i64.const_zero(), "")?;
        Ok((has, number))
    }

    /// A pointer (64 bits) that was found to be none but null, as one. What is computed of it stays behind that test.
    pub(super) fn known_pointer(&self, pointer: IntValue<'c>) -> Res<PointerValue<'c>> {
        Ok(self.asm(self.ptr.into(), String::new(), "=r,0,~{memory}", &[pointer.into()], true)?.into_pointer_value())
    }

    /// What the kernel did, which is 0 unless it could not. It could.
    pub(super) fn must(&self, failed: IntValue<'c>) -> Res<()> {
        let text = format!("if $0 == 0 goto +2\n\tr0 = {}\n\texit", self.verdict_code(Verdict::Aborted));
        let ty = self.context.void_type().fn_type(&[self.i64.into()], false);
        let asm = self.context.create_inline_asm(ty, text, "r,~{r0},~{memory}".into(), true, false, None, false);
        self.builder.build_indirect_call(ty, asm, &[failed.into()], "")?;
        Ok(())
    }

    /// Writes the far end of the stack, so that the verifier keeps books of all of it from the start. Some kernels
    /// (6.18) lose count where paths that meet have come to different depths, and refuse that as a fault of their own.
    pub(super) fn touch_stack(&self) -> Res<()> {
        let text = format!("r0 = 0\n\t*(u64 *)(r10 - {STACK}) = r0");
        let ty = self.context.void_type().fn_type(&[], false);
        let asm = self.context.create_inline_asm(ty, text, "~{r0},~{memory}".into(), true, false, None, false);
        self.builder.build_indirect_call(ty, asm, &[], "")?;
        Ok(())
    }

    /// Returns at once where a truth value (1 bit) is 0.
    pub(super) fn leave(&self, stays: IntValue<'c>, verdict: Verdict) -> Res<()> {
        let text = format!("if $0 != 0 goto +2\n\tr0 = {}\n\texit", self.verdict_code(verdict));
        let ty = self.context.void_type().fn_type(&[self.i64.into()], false);
        let asm = self.context.create_inline_asm(ty, text, "r,~{r0},~{memory}".into(), true, false, None, false);
        self.builder.build_indirect_call(ty, asm, &[self.resize(stays, 64)?.into()], "")?;
        Ok(())
    }

    /// A map: see [`crate::kernel::MapUse`].
    pub(super) fn map(&self, which: crate::kernel::MapUse) -> Res<PointerValue<'c>> {
        let text = format!("$0 = {} ll", MAP | which as u64);
        Ok(self.asm(self.ptr.into(), text, "=r", &[], false)?.into_pointer_value())
    }

    /// A number that is filled in later (64 bits): see [`crate::kernel::Object::numbers`]. Each load is another one to
    /// LLVM, so that it is made where it is used, as that of a constant is, and takes no register in between.
    pub(super) fn late(&self, number: Number) -> Res<IntValue<'c>> {
        let Some(index) = numbered(number) else { return internal("a table beyond the numbers that are filled in") };
        let load = self.loads.replace(self.loads.get() + 1) & ((1 << (32 - NUMBER_BITS)) - 1);
        let text = format!("$0 = {} ll", NUMBER | u64::from(load) << NUMBER_BITS | index);
        self.asm_int(self.i64, text, "=r", &[], false)
    }

    /// Calls a function of the kernel by its number; 64 bits.
    pub(super) fn help(&self, number: Helper, args: &[BasicMetadataValueEnum<'c>]) -> Res<IntValue<'c>> {
        use inkwell::types::BasicMetadataTypeEnum;
        let param = |arg: &BasicMetadataValueEnum<'c>| match arg {
            BasicMetadataValueEnum::PointerValue(_) => BasicMetadataTypeEnum::from(self.ptr),
            _ => self.i64.into(),
        };
        let params: Vec<_> = args.iter().map(param).collect();
        let ty = self.i64.fn_type(&params, false);
        let function = self.i64.const_int(number as u64, false);
        let function = self.builder.build_int_to_ptr(function, self.ptr, "")?;
        let call = self.builder.build_indirect_call(ty, function, args, "")?;
        match call.try_as_basic_value().basic() {
            Some(BasicValueEnum::IntValue(value)) => Ok(value),
            _ => internal("a call without a result"),
        }
    }
}

/// Functions of the kernel (`enum bpf_func_id`).
#[derive(Clone, Copy, Debug)]
pub(super) enum Helper {
    MapLookupElem = 1,
    KtimeGetNs = 5,
    GetSmpProcessorId = 8,
    SkbStoreBytes = 9,
    L4CsumReplace = 11,
    TailCall = 12,
    SkbVlanPush = 18,
    Redirect = 23,
    SkbLoadBytes = 26,
    CsumDiff = 28,
    SkbPullData = 39,
    CsumUpdate = 40,
    SkbChangeHead = 43,
    XdpAdjustHead = 44,
    RedirectMap = 51,
    XdpAdjustTail = 65,
    RingbufReserve = 131,
    RingbufSubmit = 132,
    CheckMtu = 163,
    XdpGetBuffLen = 188,
    XdpLoadBytes = 189,
    XdpStoreBytes = 190,
}

//! The slow path, and what is long: functions beside the hot path, called by a convention that costs it nothing.
//!
//! A call by the C convention makes the caller keep nothing in most registers, on every path that may come to the call.
//! Here the function that is called saves all registers that it uses itself ("preserve_mostcc"): so the runtime is
//! called through a function of our own, and a look-up that finds its key in the first bucket keeps its registers.

use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::context::Context;
use inkwell::module::{Linkage, Module as LlvmModule};
use inkwell::types::FunctionType;
use inkwell::values::{BasicMetadataValueEnum, CallSiteValue, FunctionValue};

use super::walk::{int_param, pointer_param};
use super::{
    DEADLINE_SET, DEADLINE_TAKE, HASH_INSERT, HASH_LOOKUP, HASH_REMOVE, LPM_LOOKUP, METER_TAKE, Module, Res,
    enum_attribute,
};
use crate::CodegenError;

/// `llvm::CallingConv::PreserveMost`.
const PRESERVE_MOST: u32 = 14;

/// Declares a function that [`Module::call_out`] calls.
pub(super) fn declare<'c>(
    context: &'c Context,
    llvm: &LlvmModule<'c>,
    attributes: &[Attribute],
    name: &str,
    ty: FunctionType<'c>,
) -> FunctionValue<'c> {
    let function = llvm.add_function(&format!("out.{name}"), ty, Some(Linkage::Internal));
    function.set_call_conventions(PRESERVE_MOST);
    attributes.iter().for_each(|attribute| function.add_attribute(AttributeLoc::Function, *attribute));
    function.add_attribute(AttributeLoc::Function, enum_attribute(context, "noinline", 0));
    function
}

impl<'c> Module<'c, '_> {
    /// Calls a function that [`declare`] made.
    pub(super) fn call_out(
        &self,
        function: FunctionValue<'c>,
        args: &[BasicMetadataValueEnum<'c>],
    ) -> Res<CallSiteValue<'c>> {
        let call = self.builder.build_call(function, args, "")?;
        call.set_call_convention(PRESERVE_MOST);
        Ok(call)
    }

    /// Defines the functions.
    pub(super) fn define_out_of_line(&self) -> Res<()> {
        self.forward(self.hash_lookup, HASH_LOOKUP, true)?;
        self.forward(self.hash_insert, HASH_INSERT, true)?;
        self.forward(self.hash_remove, HASH_REMOVE, true)?;
        self.forward(self.lpm_lookup, LPM_LOOKUP, false)?;
        self.forward(self.meter_take, METER_TAKE, false)?;
        self.forward(self.deadline_set, DEADLINE_SET, false)?;
        self.forward(self.deadline_take, DEADLINE_TAKE, false)?;
        let copy = self.packet_copy;
        self.builder.position_at_end(self.context.append_basic_block(copy, "entry"));
        let packet = self.copy(pointer_param(copy, 0)?, pointer_param(copy, 1)?, int_param(copy, 2)?)?;
        self.builder.build_return(Some(&packet))?;
        self.define_release()
    }

    /// Defines a function that calls one of the runtime, which is cold or not.
    fn forward(&self, function: FunctionValue<'c>, runtime: &str, is_cold: bool) -> Res<()> {
        let callee = self.llvm.add_function(runtime, function.get_type(), Some(Linkage::External));
        for function in [function, callee] {
            function.add_attribute(AttributeLoc::Function, enum_attribute(self.context, "nounwind", 0));
            if is_cold {
                function.add_attribute(AttributeLoc::Function, enum_attribute(self.context, "cold", 0));
            }
            // Keys and values are read, not kept. Nothing is said of other memory: a look-up may note the time of use.
            let pointers = function.get_param_iter().enumerate().filter(|(_, param)| param.is_pointer_value());
            for param in pointers.map(|(index, _)| index as u32).filter(|index| *index > 0) {
                function.add_attribute(AttributeLoc::Param(param), enum_attribute(self.context, "nocapture", 0));
                function.add_attribute(AttributeLoc::Param(param), enum_attribute(self.context, "readonly", 0));
            }
        }
        self.builder.position_at_end(self.context.append_basic_block(function, "entry"));
        let args: Vec<_> = function.get_param_iter().map(BasicMetadataValueEnum::from).collect();
        let call = self.builder.build_call(callee, &args, "")?;
        let result = call.try_as_basic_value().basic();
        let result = result.ok_or_else(|| CodegenError::Internal(format!("{runtime} gives no value")))?;
        self.builder.build_return(Some(&result))?;
        Ok(())
    }
}

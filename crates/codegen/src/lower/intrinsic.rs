//! Functions that LLVM knows by name.

use inkwell::intrinsics::Intrinsic;
use inkwell::types::BasicTypeEnum;
use inkwell::values::{BasicMetadataValueEnum, BasicValueEnum, IntValue};

use super::{Core, Res};
use crate::{CodegenError, internal};

impl<'c> Core<'c, '_> {
    /// Calls one whose result is a number; `types` are those that tell its variants apart.
    pub(crate) fn intrinsic(
        &self,
        name: &str,
        types: &[BasicTypeEnum<'c>],
        arguments: &[BasicMetadataValueEnum<'c>],
    ) -> Res<IntValue<'c>> {
        let function = Intrinsic::find(name)
            .and_then(|intrinsic| intrinsic.get_declaration(&self.llvm, types))
            .ok_or_else(|| CodegenError::Internal(format!("LLVM has no {name}")))?;
        match self.builder.build_call(function, arguments, "")?.try_as_basic_value().basic() {
            Some(BasicValueEnum::IntValue(value)) => Ok(value),
            _ => internal(format!("{name} gives no number")),
        }
    }
}

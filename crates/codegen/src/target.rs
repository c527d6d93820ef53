//! The processor that code is generated for: the host's own, with all its features.

use inkwell::OptimizationLevel;
use inkwell::module::Module;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{CodeModel, InitializationConfig, RelocMode, Target, TargetMachine};

use crate::{CodegenError, OptLevel};

/// The host as a target.
pub(crate) struct Host {
    machine: TargetMachine,
    /// LLVM's name of the processor.
    pub cpu: String,
    /// Its features in LLVM's notation: `+avx2,-avx512f,…`.
    pub features: String,
    level: OptLevel,
}

impl Host {
    /// The target machine of the host.
    pub fn new(level: OptLevel) -> Result<Self, CodegenError> {
        Target::initialize_native(&InitializationConfig::default()).map_err(CodegenError::Target)?;
        let triple = TargetMachine::get_default_triple();
        let target = Target::from_triple(&triple).map_err(|error| CodegenError::Target(error.to_string()))?;
        let cpu = TargetMachine::get_host_cpu_name().to_string();
        let features = TargetMachine::get_host_cpu_features().to_string();
        let machine = target
            .create_target_machine(&triple, &cpu, &features, codegen_level(level), RelocMode::PIC, CodeModel::Default)
            .ok_or_else(|| CodegenError::Target(format!("no target machine for {triple} {cpu}")))?;
        Ok(Host { machine, cpu, features, level })
    }

    /// Gives a new module the host's triple and data layout.
    pub fn prepare(&self, module: &Module) {
        module.set_triple(&self.machine.get_triple());
        module.set_data_layout(&self.machine.get_target_data().get_data_layout());
    }

    /// Runs LLVM's standard pipeline of the level.
    pub fn optimise(&self, module: &Module) -> Result<(), CodegenError> {
        let pipeline = match self.level {
            OptLevel::O0 => "default<O0>",
            OptLevel::O3 => "default<O3>",
        };
        // Neighbouring words of a header go different ways: a vector of them is taken apart again at once.
        let options = PassBuilderOptions::create();
        options.set_loop_slp_vectorization(false);
        module
            .run_passes(pipeline, &self.machine, options)
            .map_err(|error| CodegenError::Internal(format!("LLVM's passes: {error}")))
    }

    /// The module as assembly.
    pub fn assembly(&self, module: &Module) -> Result<String, CodegenError> {
        let buffer = self
            .machine
            .write_to_memory_buffer(module, inkwell::targets::FileType::Assembly)
            .map_err(|error| CodegenError::Internal(format!("LLVM's assembly printer: {error}")))?;
        let text = String::from_utf8_lossy(buffer.as_slice());
        Ok(text.trim_end_matches('\0').to_owned())
    }
}

/// The level of LLVM's instruction selection and register allocation.
pub(crate) fn codegen_level(level: OptLevel) -> OptimizationLevel {
    match level {
        OptLevel::O0 => OptimizationLevel::None,
        OptLevel::O3 => OptimizationLevel::Aggressive,
    }
}

//! The kernel's virtual machine as a target of LLVM.

use std::ffi::{CStr, c_void};
use std::sync::Mutex;

use inkwell::OptimizationLevel;
use inkwell::context::{AsContextRef, Context};
use inkwell::llvm_sys::LLVMDiagnosticSeverity;
use inkwell::llvm_sys::core::{
    LLVMContextSetDiagnosticHandler, LLVMDisposeMessage, LLVMGetDiagInfoDescription, LLVMGetDiagInfoSeverity,
};
use inkwell::llvm_sys::prelude::LLVMDiagnosticInfoRef;
use inkwell::llvm_sys::target::LLVMInitializeBPFAsmParser;
use inkwell::module::Module;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{CodeModel, FileType, InitializationConfig, RelocMode, Target, TargetMachine, TargetTriple};

use crate::CodegenError;

/// Instruction set of Linux 5.12 and later: 32-bit arithmetic, atomic operations that fetch.
pub(super) const CPU: &str = "v3";

/// Everything becomes one function, whose state becomes registers, and what is known is taken out. None of these passes
/// makes multiplications that were not there, which those for loops and for sums do, of any width; loops stay as they
/// are, for the verifier goes through each round anyway.
const PASSES: &str = "always-inline,globaldce,function(sroa<modify-cfg>,early-cse<memssa>,simplifycfg,\
    instcombine<no-verify-fixpoint>,jump-threading,correlated-propagation,simplifycfg,\
    instcombine<no-verify-fixpoint>,gvn,sccp,bdce,instcombine<no-verify-fixpoint>,dse,adce,simplifycfg,\
    instcombine<no-verify-fixpoint>)";

/// The target.
pub(super) struct Bpf {
    machine: TargetMachine,
}

impl Bpf {
    pub fn new() -> Result<Self, CodegenError> {
        Target::initialize_bpf(&InitializationConfig::default());
        // The wrapper leaves it out.
        // SAFETY: registers a parser, as often as it is called.
        unsafe { LLVMInitializeBPFAsmParser() };
        let triple = TargetTriple::create("bpfel");
        let target = Target::from_triple(&triple).map_err(|error| CodegenError::Target(error.to_string()))?;
        let (level, model) = (OptimizationLevel::Aggressive, CodeModel::Default);
        let machine = target.create_target_machine(&triple, CPU, "", level, RelocMode::PIC, model);
        let machine = machine.ok_or_else(|| CodegenError::Target("LLVM has no target machine for BPF".into()))?;
        Ok(Bpf { machine })
    }

    /// Gives a new module the target's triple and data layout.
    pub fn prepare(&self, module: &Module) {
        module.set_triple(&self.machine.get_triple());
        module.set_data_layout(&self.machine.get_target_data().get_data_layout());
    }

    /// Runs LLVM's passes: [`PASSES`].
    pub fn optimise(&self, module: &Module) -> Result<(), CodegenError> {
        module
            .run_passes(PASSES, &self.machine, PassBuilderOptions::create())
            .map_err(|error| CodegenError::Internal(format!("LLVM's passes: {error}")))
    }

    /// The module as an object file.
    pub fn object(&self, module: &Module) -> Result<Vec<u8>, CodegenError> {
        self.write(module, FileType::Object)
    }

    /// The module as assembly.
    pub fn assembly(&self, module: &Module) -> Result<String, CodegenError> {
        let text = self.write(module, FileType::Assembly)?;
        Ok(String::from_utf8_lossy(&text).trim_end_matches('\0').to_owned())
    }

    fn write(&self, module: &Module, what: FileType) -> Result<Vec<u8>, CodegenError> {
        let buffer = self.machine.write_to_memory_buffer(module, what);
        let buffer = buffer.map_err(|error| CodegenError::Internal(format!("LLVM's BPF back end: {error}")))?;
        Ok(buffer.as_slice().to_vec())
    }
}

/// What LLVM complains of in a context. Without it LLVM prints that, and ends the process where it is an error.
pub(super) struct Complaints {
    found: Box<Mutex<Vec<String>>>,
}

impl Complaints {
    /// Listens to a context, which must not be used any more when this is gone.
    pub fn of(context: &Context) -> Self {
        let found = Box::new(Mutex::new(Vec::new()));
        let data = (&raw const *found).cast_mut().cast::<c_void>();
        // SAFETY: the context calls the handler with a pointer to the list, which lives as long as this value.
        unsafe { LLVMContextSetDiagnosticHandler(context.as_ctx_ref(), Some(note), data) };
        Complaints { found }
    }

    /// The errors so far.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.found.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

extern "C" fn note(info: LLVMDiagnosticInfoRef, data: *mut c_void) {
    // SAFETY: LLVM gives a diagnostic, whose text is ours to dispose of, and the list that `Complaints::of` gave it.
    unsafe {
        if LLVMGetDiagInfoSeverity(info) != LLVMDiagnosticSeverity::LLVMDSError {
            return;
        }
        let text = LLVMGetDiagInfoDescription(info);
        let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
        LLVMDisposeMessage(text);
        let list = &*data.cast::<Mutex<Vec<String>>>();
        list.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(copy);
    }
}

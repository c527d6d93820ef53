//! The processor that code is generated for: the host's own, and LLVM's passes.

use std::sync::Once;

use inkwell::OptimizationLevel;
use inkwell::llvm_sys::support::LLVMParseCommandLineOptions;
use inkwell::module::Module;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{CodeModel, InitializationConfig, RelocMode, Target, TargetMachine};

use crate::{CodegenError, OptLevel};

/// Features that are not used. With AVX-512, LLVM looks for values that could live in mask registers, which takes time
/// by the square of a function's length (half the time to compile the firewall); no code here gains from it.
const WITHOUT: &str = if cfg!(target_arch = "x86_64") { ",-avx512f" } else { "" };

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
        initialize()?;
        let triple = TargetMachine::get_default_triple();
        let target = Target::from_triple(&triple).map_err(|error| CodegenError::Target(error.to_string()))?;
        let cpu = TargetMachine::get_host_cpu_name().to_string();
        let features = TargetMachine::get_host_cpu_features().to_string() + WITHOUT;
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

    /// Verifies a module and runs LLVM's passes over it.
    pub fn optimise(&self, module: &Module) -> Result<(), CodegenError> {
        let name = || module.get_name().to_string_lossy().into_owned();
        module
            .verify()
            .map_err(|error| CodegenError::Internal(format!("LLVM refuses the module of `{}`: {error}", name())))?;
        let passes = match self.level {
            OptLevel::O0 => "default<O0>".to_owned(),
            OptLevel::O3 => pipeline(),
        };
        module
            .run_passes(&passes, &self.machine, PassBuilderOptions::create())
            .map_err(|error| CodegenError::Internal(format!("LLVM's passes: {error}")))
    }

    /// LLVM's name of the machine.
    pub fn triple(&self) -> String {
        self.machine.get_triple().as_str().to_string_lossy().into_owned()
    }

    /// The module as an object file.
    pub fn object(&self, module: &Module) -> Result<Vec<u8>, CodegenError> {
        let buffer = self
            .machine
            .write_to_memory_buffer(module, inkwell::targets::FileType::Object)
            .map_err(|error| CodegenError::Internal(format!("LLVM's object writer: {error}")))?;
        Ok(buffer.as_slice().to_vec())
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

/// LLVM's passes in order. Our own optimiser has joined, inlined and cleaned before, so each runs once or twice; the
/// standard pipeline's other ones (full GVN of loads and dead stores first of all) take most of its time and make no
/// code here faster: see `make bench B=compile` and `make bench B=l3`.
fn pipeline() -> String {
    let early = "simplifycfg<switch-range-to-icmp;keep-loops;speculate-blocks;simplify-cond-branch>";
    let late = "simplifycfg<switch-range-to-icmp;switch-to-lookup;no-keep-loops;hoist-common-insts;sink-common-insts;\
                speculate-blocks;simplify-cond-branch;speculate-unpredictables>";
    let combine = "instcombine<max-iterations=1;no-use-loop-info;no-verify-fixpoint>";
    let function = [
        // Into registers, and what is computed or loaded twice.
        "lower-expect",
        early,
        "sroa<modify-cfg>",
        "early-cse<memssa>",
        // Branches whose outcome an earlier one decides.
        "jump-threading",
        "correlated-propagation",
        early,
        combine,
        // Loops over a batch's packets, and over words that are summed.
        "loop-mssa(loop-rotate<header-duplication>,licm<allowspeculation>)",
        "loop(loop-idiom,indvars,loop-deletion)",
        "gvn<no-pre;no-memdep>",
        "early-cse<memssa>",
        "sccp",
        "bdce",
        late,
        "loop-vectorize",
        combine,
    ];
    format!("always-inline,globaldce,function<eager-inv>({}),globaldce,constmerge", function.join(","))
}

/// The level of LLVM's instruction selection and register allocation.
fn codegen_level(level: OptLevel) -> OptimizationLevel {
    match level {
        OptLevel::O0 => OptimizationLevel::None,
        OptLevel::O3 => OptimizationLevel::Aggressive,
    }
}

/// Makes LLVM ready for the host's processor.
pub(crate) fn initialize() -> Result<(), CodegenError> {
    Target::initialize_native(&InitializationConfig::default()).map_err(CodegenError::Target)?;
    configure();
    Ok(())
}

/// LLVM's options that are not a target machine's, set once for the process.
///
/// The register allocator looks for the best region to split a value's life at. In long functions with many branches
/// that took a third of all time, and what it found ran no faster.
fn configure() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let args = [c"millrace".as_ptr(), c"-grow-region-complexity-budget=100".as_ptr()];
        // SAFETY: as many strings, which end with zero, as are said; LLVM copies them. Options are read by threads that
        // compile, which come here first.
        unsafe { LLVMParseCommandLineOptions(args.len() as i32, args.as_ptr(), c"".as_ptr()) };
    });
}

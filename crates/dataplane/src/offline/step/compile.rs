//! Programs made ready to run, for any number of steppers.

use std::sync::{Arc, Mutex, PoisonError};

use baker::ir::Program;
use baker::opt::Level;
use baker::place::Split;
use codegen::OptLevel;
use codegen::bpf::Tier;
use codegen::kernel::{Hook, Options};

use super::cuts::place;
use super::error::StepError;
use super::stepper::Stepper;
use crate::engine::{Engine, EngineError, EngineKind, NativeEngine, TableAccess, engine};
use crate::externs::ExternTable;
use crate::tables::Tables;
use crate::xdp::{KernelCode, KernelEngine, KernelEngineError, PartitionError, Partitioned, partition_by};

/// A program that was made ready to run on an engine, for any number of steppers.
pub struct Compiled {
    program: Arc<Program>,
    kind: EngineKind,
    /// The interpreter needs none.
    code: Option<NativeEngine>,
    /// In the kernel. Loading takes long, so steppers use it by turns.
    kernel: Option<Mutex<Arc<KernelCode>>>,
}

impl Compiled {
    /// Compiles the program where the engine needs it.
    pub fn new(program: Arc<Program>, kind: EngineKind) -> Result<Compiled, StepError> {
        let code = match kind {
            EngineKind::Native(opt, packets) => {
                Some(NativeEngine::compile(&program, opt, packets).map_err(EngineError::from)?)
            }
            EngineKind::Kernel(packets) => {
                return Self::cut(&place(&program, &[], Hook::Xdp), packets, OptLevel::O3, Options::default());
            }
            EngineKind::Interp => None,
        };
        Ok(Compiled { program, kind, code, kernel: None })
    }

    /// Compiles a program that was cut in two, the kernel's part for its test run.
    pub fn cut(split: &Split, packets: Level, workers: OptLevel, options: Options) -> Result<Compiled, StepError> {
        let kernel = KernelCode::split(split, packets, options)?;
        Self::beside(split, kernel, packets, workers)
    }

    /// Compiles as much of a program as the kernel takes for its test run, as [`crate::xdp::partition`] does for its
    /// interfaces, and workers' code for the rest. Nothing is made where nothing can run there.
    pub fn in_kernel(
        program: &Program,
        packets: Level,
        workers: OptLevel,
        hook: Hook,
    ) -> Result<Partitioned<Compiled>, StepError> {
        let options = Options { hook, ..Options::default() };
        let Partitioned { placement, too_much, split, made } = partition_by(program, hook, |split| {
            KernelCode::split(split, packets, options).map_err(PartitionError::from)
        })?;
        let made = made.map(|kernel| Self::beside(&split, kernel, packets, workers)).transpose()?;
        Ok(Partitioned { placement, too_much, split, made })
    }

    /// The workers' part beside the kernel's.
    fn beside(split: &Split, kernel: KernelCode, packets: Level, workers: OptLevel) -> Result<Compiled, StepError> {
        // Its channels are the program's, and then some.
        let program = Arc::new(split.workers.clone());
        let code = NativeEngine::compile(&program, workers, packets).map_err(EngineError::from)?;
        let kernel = Some(Mutex::new(Arc::new(kernel)));
        Ok(Compiled { program, kind: EngineKind::Kernel(packets), code: Some(code), kernel })
    }

    /// Why the kernel's part runs on the virtual machine and not in the kernel, where it does.
    pub fn refusal(&self) -> Option<String> {
        let kernel = self.kernel.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        kernel.refusal().map(ToString::to_string)
    }

    /// The form that the kernel took.
    pub fn tier(&self) -> Option<Tier> {
        self.kernel.as_ref().map(|kernel| kernel.lock().unwrap_or_else(PoisonError::into_inner).tier())
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// The engine.
    pub fn kind(&self) -> EngineKind {
        self.kind
    }

    /// With empty tables of its own, and the functions of controllers that the program calls. Of a program in the
    /// kernel there is one stepper at a time.
    pub fn stepper(&self, externs: Option<Arc<ExternTable>>) -> Result<Stepper, StepError> {
        let program = self.program.clone();
        let (engine, tables): (Box<dyn Engine>, _) = match (&self.code, &self.kernel) {
            (code, Some(kernel)) => {
                let mut kernel = kernel.lock().unwrap_or_else(PoisonError::into_inner);
                let unused = Arc::get_mut(&mut kernel).expect("one stepper at a time of a program in the kernel");
                unused.clear().map_err(KernelEngineError::from)?;
                let engine = KernelEngine::new(kernel.clone(), code.clone());
                let tables = engine.tables();
                (Box::new(engine), tables)
            }
            (Some(code), None) => {
                let tables = Tables::new(&program).map_err(EngineError::from)?;
                (Box::new(code.clone()), TableAccess::Native(Arc::new(tables)))
            }
            (None, None) => engine(&program, self.kind, externs.as_ref())?,
        };
        let mut stepper = Stepper::with_engine(program, engine, tables)?;
        if let Some(externs) = externs {
            stepper.set_externs(externs);
        }
        Ok(stepper)
    }
}

impl Stepper {
    /// Compiles the program where the engine needs it. Tables are empty, counters zero. It calls no functions of
    /// controllers.
    pub fn new(program: Arc<Program>, kind: EngineKind) -> Result<Stepper, StepError> {
        let externs = ExternTable::none(&program).map_err(EngineError::from)?;
        Self::with_externs(program, kind, externs)
    }

    /// As [`Stepper::new`] with the functions of controllers that the program calls.
    pub fn with_externs(
        program: Arc<Program>,
        kind: EngineKind,
        externs: Option<Arc<ExternTable>>,
    ) -> Result<Stepper, StepError> {
        Compiled::new(program, kind)?.stepper(externs)
    }
}

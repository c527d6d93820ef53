//! Cases by several variants: each engine, with each access mode.

use std::sync::Arc;
use std::time::{Duration, Instant};

use baker::ir::Program;
use baker::opt::Level;
use codegen::OptLevel;
use codegen::kernel::Hook;
use dataplane::step::{Compiled, StepError};
use dataplane::{Access, EngineKind};

use super::case::Case;
use super::run::{CaseFailure, Observed, observe, run_with};

/// An engine with an access mode.
pub struct Variant {
    /// Its name in reports, such as `worker, copy`.
    pub name: String,
    compiled: Arc<Compiled>,
    access: Access,
}

/// What came of a case by one variant.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How long it took.
    pub time: Duration,
    /// What went otherwise than the case says, if anything did.
    pub failure: Option<CaseFailure>,
}

/// What the kernel has to do with a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// It runs as much of it as it can.
    Runs,
    /// It lets this process load nothing, for this reason: the same code runs on Millrace's own BPF machine.
    Refused(String),
    /// Nothing of the program can run there, for this reason. There is no such variant.
    Nothing(String),
}

/// The variants that run cases.
#[derive(Default)]
pub struct Suite {
    variants: Vec<Variant>,
}

impl Suite {
    /// The interpreter's name in reports and on the command line.
    pub const INTERP: &str = EngineKind::Interp.name();
    /// That of machine code.
    pub const WORKER: &str = EngineKind::NATIVE.name();
    /// That of the kernel.
    pub const XDP: &str = "xdp";
    /// That of the kernel at traffic control.
    pub const TC: &str = "tc";
    /// That of the BPF machine which stands in for the kernel.
    pub const MACHINE: &str = "bpf machine";
    /// And at traffic control.
    pub const MACHINE_AT_TC: &str = "bpf machine at tc";

    /// Adds the interpreter.
    ///
    /// # Errors
    /// Why there is none.
    pub fn add_interp(&mut self, program: &Arc<Program>) -> Result<(), StepError> {
        let compiled = Compiled::new(program.clone(), EngineKind::Interp)?;
        self.add(Self::INTERP, compiled, &[Access::default()]);
        Ok(())
    }

    /// Adds machine code, in each access mode.
    ///
    /// # Errors
    /// Why there is none.
    pub fn add_worker(&mut self, program: &Arc<Program>) -> Result<(), StepError> {
        let compiled = Compiled::new(program.clone(), EngineKind::NATIVE)?;
        self.add(Self::WORKER, compiled, &Access::ALL);
        Ok(())
    }

    /// Adds the kernel's test run, at the hook that the program was lowered for, with as much of the program as the
    /// kernel takes, as `millrace run` puts it there, and machine code for the rest.
    ///
    /// # Errors
    /// Why there is none, where that is neither a lack of rights nor the program.
    pub fn add_kernel(&mut self, program: &Program) -> Result<Kernel, StepError> {
        let hook = Hook::of(program);
        let [own, machine] = match hook {
            Hook::Xdp => [Self::XDP, Self::MACHINE],
            Hook::Tc => [Self::TC, Self::MACHINE_AT_TC],
        };
        let partitioned = Compiled::in_kernel(program, Level::Cgpc, OptLevel::O3, hook)?;
        let Some(compiled) = partitioned.made else { return Ok(Kernel::Nothing(partitioned.why_nothing(program))) };
        let (name, kernel) = match compiled.refusal() {
            Some(why) => (machine, Kernel::Refused(why)),
            None => (own, Kernel::Runs),
        };
        self.add(name, compiled, &[Access::default()]);
        Ok(kernel)
    }

    /// Adds an engine, with these access modes.
    pub fn add(&mut self, name: &str, compiled: Compiled, accesses: &[Access]) {
        let compiled = Arc::new(compiled);
        self.variants.extend(accesses.iter().map(|access| {
            let name = if accesses.len() == 1 { name.to_owned() } else { format!("{name}, {access}") };
            Variant { name, compiled: compiled.clone(), access: *access }
        }));
    }

    /// The variants, in the order in which they were added.
    pub fn variants(&self) -> &[Variant] {
        &self.variants
    }

    /// Runs a case by each variant.
    pub fn run(&self, case: &Case) -> Vec<Outcome> {
        let run = |variant: &Variant| {
            let start = Instant::now();
            let failure = run_with(&variant.compiled, variant.access, case).err();
            Outcome { time: start.elapsed(), failure }
        };
        self.variants.iter().map(run).collect()
    }

    /// The failures of cases in all variants.
    pub fn failures(&self, cases: &[Case]) -> Vec<CaseFailure> {
        cases.iter().flat_map(|case| self.run(case)).filter_map(|outcome| outcome.failure).collect()
    }

    /// What came of each step of a case, where all variants agree on it; `None` where they do not.
    ///
    /// # Errors
    /// See [`observe`].
    pub fn observe(&self, case: &Case) -> Result<Option<Vec<Observed>>, CaseFailure> {
        let mut found: Option<Vec<Observed>> = None;
        for variant in &self.variants {
            let observed = observe(&variant.compiled, variant.access, case)?;
            if found.as_ref().is_some_and(|found| *found != observed) {
                return Ok(None);
            }
            found = Some(observed);
        }
        Ok(found)
    }
}

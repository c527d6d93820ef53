//! Engines: what runs a program over a batch of packets. Native code, or the reference interpreter.
//!
//! Numbers of frames go in with the worker's context, and what leaves the program is in the context's list of outputs.
//! `interface` is what all engines have; `native` and `interp` are engines and import nothing else of this folder;
//! `tables` reaches the tables of either.

mod interface;
mod interp;
mod native;
mod tables;

use std::sync::{Arc, Mutex};

use baker::ir::Program;
use baker::ir::interp::{Externs, Machine};
use baker::opt::reach::Reach;

use crate::externs::ExternTable;
use crate::tables::Tables;

pub use interface::{Engine, EngineError, EngineKind};
pub use interp::InterpEngine;
pub use native::{NativeEngine, RunFnEngine};
pub use tables::TableAccess;

/// An engine with the tables it uses, for one worker.
pub(crate) fn engine(
    program: &Arc<Program>,
    kind: EngineKind,
    externs: Option<&Arc<ExternTable>>,
) -> Result<(Box<dyn Engine>, TableAccess), EngineError> {
    let (engines, tables) = Engines::new(program, kind, externs, None)?;
    Ok((engines.engine(), tables))
}

/// Engines for any number of workers, all over the same tables.
pub(crate) enum Engines {
    Native(NativeEngine),
    Interp(Arc<Mutex<Machine>>),
}

impl Engines {
    /// Compiles the program, and allocates its tables unless there are some.
    /// Without `externs` the program calls none.
    pub fn new(
        program: &Arc<Program>,
        kind: EngineKind,
        externs: Option<&Arc<ExternTable>>,
        tables: Option<&Arc<Tables>>,
    ) -> Result<(Self, TableAccess), EngineError> {
        if tables.is_some() && !matches!(kind, EngineKind::Native(..)) {
            return Err(EngineError::Unshared);
        }
        Ok(match kind {
            EngineKind::Native(opt, packets) => {
                let tables = match tables {
                    Some(tables) => tables.clone(),
                    None => Arc::new(Tables::new(program)?),
                };
                (Engines::Native(NativeEngine::compile(program, opt, packets)?), TableAccess::Native(tables))
            }
            EngineKind::Interp => {
                let mut machine = Machine::new(program.clone());
                if let Some(externs) = externs {
                    let externs: Arc<dyn Externs> = externs.clone();
                    machine.set_externs(externs);
                }
                let machine = Arc::new(Mutex::new(machine));
                (Engines::Interp(machine.clone()), TableAccess::Interp(machine))
            }
            EngineKind::Kernel(_) => return Err(EngineError::OneByOne),
        })
    }

    /// How far they reach.
    pub fn reach(&self) -> Reach {
        match self {
            Engines::Native(engine) => engine.reach(),
            Engines::Interp(_) => Reach::WHOLE,
        }
    }

    /// One worker's.
    pub fn engine(&self) -> Box<dyn Engine> {
        match self {
            Engines::Native(engine) => Box::new(engine.clone()),
            Engines::Interp(machine) => Box::new(InterpEngine::new(machine.clone())),
        }
    }
}

//! An instance: a program that runs between ports.

use std::sync::Arc;

use baker::ir::{CounterSlots, Program};

use crate::context::WorkerContext;
use crate::counters::{CounterBlock, ObservedPort, Observer, PortCounters, Snapshot};
use crate::crew::{self, Crew};
use crate::engine::{EngineError, EngineKind, Engines, TableAccess};
use crate::frames::{FrameConfig, FrameError, FramePool};
use crate::ports::{self, Driver, PortError, PortSpec};
use crate::sweep::Sweeper;
use crate::worker::{FINISH, PollMode, STOP, Worker, WorkerPort};

/// How to run a program.
#[derive(Clone, Debug)]
pub struct Options {
    /// What runs it.
    pub engine: EngineKind,
    /// Its frames.
    pub frames: FrameConfig,
    /// What a worker does when it has nothing to do.
    pub poll: PollMode,
    /// Number of workers.
    pub workers: usize,
    /// CPU to pin each worker to. Where empty, several workers are pinned to the first CPUs that this process may use, and
    /// a single one runs where the kernel has it.
    pub cpus: Vec<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            engine: EngineKind::NATIVE,
            frames: FrameConfig::default(),
            poll: PollMode::Interrupt,
            workers: 1,
            cpus: Vec::new(),
        }
    }
}

/// A port and its place in the program.
#[derive(Clone, Debug)]
pub struct PortConfig {
    /// Name and driver.
    pub spec: PortSpec,
    /// Its number: what `rx.port` and `tx.port` say.
    pub number: u8,
    /// Number of the port that takes the packets that came in here and go to the host; `None`: they are dropped with
    /// the reason `no_host`.
    pub host: Option<u8>,
}

impl PortConfig {
    /// A port with a driver given directly and no host port.
    pub fn new(name: &str, number: u8, driver: Driver) -> Self {
        PortConfig { spec: PortSpec { name: name.to_owned(), driver }, number, host: None }
    }
}

/// Why an instance does not start. One line each.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Two ports have one number.
    #[error("ports {0} and {1} both have number {2}: give each its own")]
    PortNumber(String, String, u8),
    /// Two ports have one name.
    #[error("two ports are named {0}: give each its own name")]
    PortName(String),
    /// A host port that is not there.
    #[error("port {0}: its host port has number {1}, but there is no such port")]
    HostPort(String, u8),
    /// A port could not be opened.
    #[error("port {0}: {1}")]
    Port(String, PortError),
    /// Not possible frames.
    #[error(transparent)]
    Frames(#[from] FrameError),
    /// No engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// No or too many workers.
    #[error("{0} workers: use 1 to {most}", most = crew::MOST)]
    Workers(usize),
    /// Not one CPU per worker.
    #[error("{cpus} CPUs are named for {workers} workers: name one for each, or none")]
    Cpus {
        /// Number of workers.
        workers: usize,
        /// Number of CPUs.
        cpus: usize,
    },
    /// Two workers on one CPU.
    #[error("CPU {0} is named twice: each worker needs its own")]
    CpuTwice(usize),
    /// More workers than CPUs.
    #[error("{workers} workers, but this process may use {cpus} CPUs: each worker needs its own, so use fewer")]
    FewCpus {
        /// Number of workers.
        workers: usize,
        /// Number of CPUs.
        cpus: usize,
    },
    /// No such CPU, or not for us.
    #[error("CPU {0}: cannot run a worker there: {1}")]
    Cpu(usize, std::io::Error),
    /// No memory or thread.
    #[error("the system refused memory or a thread for a worker: {0}")]
    Worker(#[from] std::io::Error),
}

/// An instance with its ports open and its tables ready to be filled, but that processes no packet yet.
pub struct Prepared {
    program: Arc<Program>,
    /// With the CPU that each is pinned to.
    workers: Vec<(Worker, Option<usize>)>,
    tables: TableAccess,
    pool: Arc<FramePool>,
    observer: Observer,
}

/// A running instance. Dropping it stops it.
#[derive(Debug)]
pub struct Instance {
    crew: Crew,
    tables: TableAccess,
    pool: Arc<FramePool>,
    observer: Observer,
    _sweeper: Option<Sweeper>,
}

/// What an instance did.
#[derive(Clone, Debug)]
pub struct Report {
    /// Its counters at the end.
    pub snapshot: Snapshot,
    /// What went wrong at its ports, one line each.
    pub errors: Vec<String>,
    /// Number of frames.
    pub frames: u32,
    /// Frames that are back in the pool: all of them, or there is a fault in an engine.
    pub free_frames: u32,
}

impl Instance {
    /// Opens the ports and compiles the program. Packets are processed from [`Prepared::run`] on.
    pub fn prepare(program: Arc<Program>, options: &Options, ports: &[PortConfig]) -> Result<Prepared, StartError> {
        let cpus = crew::cpus(options.workers, &options.cpus)?;
        let host_of = host_ports(ports)?;
        let pool = Arc::new(FramePool::new(&program, options.frames)?);
        let share = pool.count() / cpus.len() as u32;
        let least = program.limits.copies.saturating_add(1);
        if share < least {
            let least = least.saturating_mul(cpus.len() as u32);
            return Err(FrameError::TooFew { count: pool.count(), least }.into());
        }
        let (engines, tables) = Engines::new(&program, options.engine)?;
        let mut ports_of: Vec<Vec<WorkerPort>> = cpus.iter().map(|_| Vec::new()).collect();
        let mut observer = Observer { program: program.clone(), blocks: Vec::new(), ports: Vec::new() };
        for PortConfig { spec, number, .. } in ports {
            let queues = ports::open(&spec.driver, cpus.len(), pool.max_packet());
            let queues = queues.map_err(|error| StartError::Port(spec.name.clone(), error))?;
            let counters: Vec<Arc<PortCounters>> = queues.iter().map(|_| Arc::default()).collect();
            for ((queue, counters), worker) in queues.into_iter().zip(&counters).zip(&mut ports_of) {
                worker.push(WorkerPort::new(spec.name.clone(), *number, queue, counters.clone()));
            }
            let (name, device) = (spec.name.clone(), spec.driver.to_string());
            observer.ports.push(ObservedPort { name, number: *number, device, counters });
        }
        let mut workers = Vec::new();
        for (ports, cpu) in ports_of.into_iter().zip(cpus) {
            let counters = Arc::new(CounterBlock::new(CounterSlots::new(&program).len()));
            observer.blocks.push(counters.clone());
            let native = tables.native();
            let context = WorkerContext::with_share(&program, pool.clone(), native.cloned(), counters, share)?;
            // There are more places than workers, and nobody else has a program's new tables.
            let registration =
                native.map(|tables| tables.epochs().register().expect("a place among the epochs for every worker"));
            let engine = engines.engine();
            workers.push((Worker::new(&program, context, engine, ports, host_of, options.poll, registration), cpu));
        }
        Ok(Prepared { program, workers, tables, pool, observer })
    }

    /// Starts a program with empty tables; [`Instance::prepare`] is for those who fill them first.
    pub fn start(program: Arc<Program>, options: &Options, ports: &[PortConfig]) -> Result<Instance, StartError> {
        Self::prepare(program, options, ports)?.run()
    }

    /// The tables, to be read and changed while packets are processed.
    pub fn tables(&self) -> TableAccess {
        self.tables.clone()
    }

    /// The counters now.
    pub fn snapshot(&self) -> Snapshot {
        self.observer.snapshot()
    }

    /// Reads the counters from other threads.
    pub fn observer(&self) -> Observer {
        self.observer.clone()
    }

    /// Whether all workers still run; one ends by itself only after [`Instance::wait`] or a fault.
    pub fn is_running(&self) -> bool {
        self.crew.is_running()
    }

    /// Processes what the ports hold already, stops, and waits for that.
    pub fn stop(mut self) -> Report {
        self.end(STOP)
    }

    /// Waits until every port has finished, as capture files and generators do, and stops. A network interface never
    /// finishes.
    pub fn wait(mut self) -> Report {
        self.end(FINISH)
    }

    fn end(&mut self, how: u8) -> Report {
        let errors = self.crew.end(how);
        Report { snapshot: self.snapshot(), errors, frames: self.pool.count(), free_frames: self.pool.free_frames() }
    }
}

impl Prepared {
    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// The tables, to be filled.
    pub fn tables(&self) -> TableAccess {
        self.tables.clone()
    }

    /// The CPUs that the workers will be pinned to; empty where they are not.
    pub fn cpus(&self) -> Vec<usize> {
        self.workers.iter().filter_map(|(_, cpu)| *cpu).collect()
    }

    /// Starts the workers. Fails where a CPU is not to be had.
    pub fn run(self) -> Result<Instance, StartError> {
        let Prepared { program, workers, tables, pool, observer } = self;
        let sweeper = Sweeper::start(&program, tables.clone())?;
        Ok(Instance { crew: Crew::start(workers)?, tables, pool, observer, _sweeper: sweeper })
    }
}

/// Number of the host port by the number of the port of entry. Checks names and numbers.
fn host_ports(ports: &[PortConfig]) -> Result<[Option<u8>; 256], StartError> {
    let mut host_of = [None; 256];
    for (index, port) in ports.iter().enumerate() {
        for other in &ports[..index] {
            if other.number == port.number {
                let (a, b) = (other.spec.name.clone(), port.spec.name.clone());
                return Err(StartError::PortNumber(a, b, port.number));
            }
            if other.spec.name == port.spec.name {
                return Err(StartError::PortName(port.spec.name.clone()));
            }
        }
        if let Some(host) = port.host
            && !ports.iter().any(|other| other.number == host)
        {
            return Err(StartError::HostPort(port.spec.name.clone(), host));
        }
        host_of[port.number as usize] = port.host;
    }
    Ok(host_of)
}

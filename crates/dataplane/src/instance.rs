//! An instance: a program that runs between ports.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::JoinHandle;

use baker::ir::{CounterSlots, Program};
use codegen::OptLevel;

use crate::context::WorkerContext;
use crate::counters::{CounterBlock, ObservedPort, Observer, PortCounters, Snapshot};
use crate::engine::{EngineError, EngineKind, TableAccess, engine};
use crate::frames::{FrameConfig, FrameError, FramePool};
use crate::ports::{self, Driver, PortError, PortSpec};
use crate::sweep::Sweeper;
use crate::sys;
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
    /// CPU to pin each worker to; where empty, one worker that the kernel may move. At most one so far.
    pub cpus: Vec<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            engine: EngineKind::Native(OptLevel::O3),
            frames: FrameConfig::default(),
            poll: PollMode::Interrupt,
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
    /// More workers than are supported.
    #[error("{0} CPUs: one worker is supported so far, so name one CPU")]
    Workers(usize),
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
    worker: Worker,
    cpu: Option<usize>,
    tables: TableAccess,
    pool: Arc<FramePool>,
    observer: Observer,
}

/// A running instance. Dropping it stops it.
#[derive(Debug)]
pub struct Instance {
    control: Arc<AtomicU8>,
    thread: Option<JoinHandle<Vec<String>>>,
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
        if options.cpus.len() > 1 {
            return Err(StartError::Workers(options.cpus.len()));
        }
        let host_of = host_ports(ports)?;
        let pool = Arc::new(FramePool::new(&program, options.frames)?);
        let (engine, tables) = engine(&program, options.engine)?;
        let mut worker_ports = Vec::new();
        let mut observed = Vec::new();
        for PortConfig { spec, number, .. } in ports {
            let queues = ports::open(&spec.driver, 1, pool.max_packet());
            let queues = queues.map_err(|error| StartError::Port(spec.name.clone(), error))?;
            let counters = Arc::new(PortCounters::default());
            let port = |queue| WorkerPort::new(spec.name.clone(), *number, queue, counters.clone());
            observed.push(ObservedPort {
                name: spec.name.clone(),
                number: *number,
                device: spec.driver.to_string(),
                counters: counters.clone(),
            });
            worker_ports.extend(queues.into_iter().map(port));
        }
        let counters = Arc::new(CounterBlock::new(CounterSlots::new(&program).len()));
        let observer = Observer { program: program.clone(), blocks: vec![counters.clone()], ports: observed };
        let context = WorkerContext::new(&program, pool.clone(), tables.native().cloned(), counters)?;
        let registration = tables.native().and_then(|tables| tables.epochs().register());
        let worker = Worker::new(&program, context, engine, worker_ports, host_of, options.poll, registration);
        Ok(Prepared { program, worker, cpu: options.cpus.first().copied(), tables, pool, observer })
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

    /// Whether the worker still runs; it ends by itself only after [`Instance::wait`] or a fault.
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
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
        self.control.store(how, Ordering::Relaxed);
        let errors = match self.thread.take().map(JoinHandle::join) {
            Some(Ok(errors)) => errors,
            Some(Err(panic)) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
                vec![format!("internal error: the worker failed: {text}")]
            }
            None => Vec::new(),
        };
        Report { snapshot: self.snapshot(), errors, frames: self.pool.count(), free_frames: self.pool.free_frames() }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.end(STOP);
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

    /// Starts the worker. Fails where its CPU is not to be had.
    pub fn run(self) -> Result<Instance, StartError> {
        let Prepared { program, worker, cpu, tables, pool, observer } = self;
        let sweeper = Sweeper::start(&program, tables.clone())?;
        let control = Arc::new(AtomicU8::new(crate::worker::RUN));
        let (pinned, result) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().name("worker-0".into()).spawn({
            let control = control.clone();
            move || {
                let pin = cpu.map_or(Ok(()), sys::pin_to_cpu);
                let failed = pin.is_err();
                // The receiver waits for exactly this message.
                let _ = pinned.send(pin);
                if failed { Vec::new() } else { worker.run(&control) }
            }
        })?;
        if let (Ok(Err(error)), Some(cpu)) = (result.recv(), cpu) {
            return Err(StartError::Cpu(cpu, error));
        }
        Ok(Instance { control, thread: Some(thread), tables, pool, observer, _sweeper: sweeper })
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

//! An instance: a program that runs between ports.

mod next;
mod site;

use std::sync::Arc;
use std::time::Duration;

use baker::ir::{CounterSlots, DropId, Program};

use crate::access::{Access, LocalMemory};
use crate::controller::{Controllers, ExternTable, Named, NamedTables, Waiting};
use crate::counters::{CounterBlock, PortCounters};
use crate::crew::{self, Crew};
use crate::engine::{EngineError, EngineKind, Engines, TableAccess};
use crate::frames::{FrameConfig, FrameError, FramePool};
use crate::handover::Handover;
use crate::mtus::{Asked, Mtus};
use crate::observer::{ObservedPort, Observer, Snapshot};
use crate::ports::{self, Driver, Opened, Own, PortError, PortSpec};
use crate::running::{Ports, WorkerPort};
use crate::sweep::Sweeper;
use crate::sys::Doorbell;
use crate::worker::{FINISH, PollMode, STOP, Worker};
use crate::xdp::{FastPath, PortRole};

pub use self::next::{Next, ReloadError};
use self::site::{Built, Parts, Site};

/// How to run a program.
#[derive(Clone, Debug)]
pub struct Options {
    /// What runs it.
    pub engine: EngineKind,
    /// Where a part of the program runs in the kernel, that part; the program is the workers' ([`baker::place::Split`]) then.
    pub fast_path: Option<Arc<FastPath>>,
    /// Take XDP programs of others off the interfaces of ports that need one.
    pub replace_xdp: bool,
    /// The name by which others hear of it, such as those who want its interfaces.
    pub name: String,
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
            fast_path: None,
            replace_xdp: false,
            name: "millrace".into(),
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
    /// How workers get at its packets.
    pub access: Access,
    /// Who gets those for its interface's own addresses.
    pub own: Own,
    /// What it sends at most, in bytes behind the Ethernet header, even where its interface sends more.
    pub mtu: Option<u32>,
}

impl PortConfig {
    /// A port with a driver given directly and no host port.
    pub fn new(name: &str, number: u8, driver: Driver) -> Self {
        PortConfig {
            spec: PortSpec { name: name.to_owned(), driver },
            number,
            host: None,
            access: Access::default(),
            own: Own::default(),
            mtu: None,
        }
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
    /// The fast path is not at the ports.
    #[error("the kernel's part of the program cannot be started: {0}")]
    FastPath(std::io::Error),
    /// A controller that is wired and was not given.
    #[error("the program is wired to a controller {0}, which is not there")]
    Controller(String),
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
    site: Site,
    /// With the CPU that each is pinned to.
    workers: Vec<(Worker, Option<usize>)>,
    waiting: Vec<Waiting>,
    externs: Option<Arc<ExternTable>>,
    end_counters: Arc<CounterBlock>,
    tables: TableAccess,
    observer: Observer,
    notes: Vec<String>,
}

/// A running instance. Dropping it stops it.
#[derive(Debug)]
pub struct Instance {
    // Ended in this order.
    controllers: Controllers,
    crew: Crew,
    site: Site,
    /// What runs on workers.
    program: Arc<Program>,
    externs: Option<Arc<ExternTable>>,
    /// Counts what is dropped when both have ended.
    end_counters: Arc<CounterBlock>,
    tables: TableAccess,
    observer: Observer,
    sweeper: Option<Sweeper>,
    mtus: Option<Mtus>,
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
        Self::prepare_with(program, options, ports, Vec::new())
    }

    /// As [`Instance::prepare`], with the controllers that the program is wired to or whose functions it calls. They run, also
    /// those that it is not wired to, from [`Prepared::run`] on.
    pub fn prepare_with(
        program: Arc<Program>,
        options: &Options,
        ports: &[PortConfig],
        mut controllers: Vec<Named>,
    ) -> Result<Prepared, StartError> {
        let offered = controllers.iter_mut().flat_map(|(_, controller)| controller.externs());
        let externs = ExternTable::of_offered(&program, offered, None).map_err(EngineError::from)?;
        let cpus = crew::cpus(options.workers, &options.cpus)?;
        let host_of = host_ports(ports)?;
        let copies = ports.iter().any(|port| port.access != Access::InPlace);
        let pool = Arc::new(FramePool::with_local(&program, options.frames, if copies { cpus.len() } else { 0 })?);
        let common = ports::Common::new(
            cpus.len(),
            &pool,
            options.fast_path.clone(),
            options.replace_xdp,
            &options.name,
            ports.iter().map(|port| &port.spec.driver),
        );
        let doorbells = cpus.iter().map(|_| Doorbell::new().map(Arc::new)).collect::<Result<Vec<_>, _>>()?;
        let kernel = options.fast_path.as_ref().map(|path| path.part());
        let (engines, tables) =
            Engines::new(&program, options.engine, externs.as_ref(), kernel.as_ref().map(|part| part.tables()))?;
        let mut ports_of: Vec<Vec<WorkerPort>> = cpus.iter().map(|_| Vec::new()).collect();
        let (mut observed, mut notes) = (Vec::new(), Vec::new());
        for &PortConfig { ref spec, number, host, access, own, mtu: _ } in ports {
            let opened = ports::open(&spec.driver, PortRole { number, host }, own, &common);
            let Opened { queues, about, warnings } =
                opened.map_err(|error| StartError::Port(spec.name.clone(), error))?;
            let about = about.into_iter().chain(access.about(engines.reach())).chain(warnings);
            notes.extend(about.map(|about| format!("port {}: {about}", spec.name)));
            let count = queues.first().and_then(|queue| queue.count());
            let counters: Vec<Arc<PortCounters>> = queues.iter().map(|_| Arc::default()).collect();
            for ((queue, counters), worker) in queues.into_iter().zip(&counters).zip(&mut ports_of) {
                worker.push(WorkerPort::new(spec.name.clone(), number, access, queue, counters.clone()));
            }
            let (name, device) = (spec.name.clone(), spec.driver.to_string());
            observed.push(ObservedPort { name, number, device, counters, count });
        }
        let site = Site {
            engine: options.engine,
            frames: pool.count() - common.reserved(),
            pool,
            handovers: doorbells.iter().map(|doorbell| Arc::new(Handover::new(doorbell.clone()))).collect(),
            doorbells,
            ports: ports_of.iter().map(Vec::len).collect(),
            fast_path: options.fast_path.clone(),
            asked: Asked::new(ports)?,
        };
        let parts = Parts { program: &program, engines: &engines, tables: &tables, externs: externs.as_ref(), kernel };
        let Built { running, waiting, observed: counters, end_counters } = site.build(parts, controllers)?;
        let observer = Observer::new(counters, observed, options.fast_path.clone());
        let workers = running.into_iter().zip(ports_of).zip(cpus).enumerate();
        let workers = workers.map(|(index, ((running, ports), cpu))| {
            let local = copies.then(|| LocalMemory::new(&site.pool, index)).transpose()?;
            let ports = Ports::new(site.pool.clone(), ports, host_of, local);
            let (handover, doorbell) = (site.handovers[index].clone(), site.doorbells[index].clone());
            Ok((Worker::new(ports, running, handover, doorbell, options.poll), cpu))
        });
        let workers = workers.collect::<std::io::Result<_>>()?;
        Ok(Prepared { program, site, workers, waiting, externs, end_counters, tables, observer, notes })
    }

    /// Starts a program with empty tables; [`Instance::prepare`] is for those who fill them first.
    pub fn start(program: Arc<Program>, options: &Options, ports: &[PortConfig]) -> Result<Instance, StartError> {
        Self::prepare(program, options, ports)?.run()
    }

    /// The tables, to be read and changed while packets are processed.
    pub fn tables(&self) -> TableAccess {
        self.tables.clone()
    }

    /// What runs on workers.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// The controllers that run, by name.
    pub fn controllers(&self) -> impl Iterator<Item = &str> {
        self.controllers.names()
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

    /// For how long the worker that was seen least recently has not been seen. That is a fraction of a second, or something is wrong.
    pub fn unseen(&self) -> Duration {
        self.site.handovers.iter().map(|handover| handover.unseen()).max().unwrap_or_default()
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
        // What it has handed over by then workers finish.
        self.site.fast_path.iter().for_each(|path| path.stop());
        // Controllers end before the workers that run what they inject; but they are needed until the ports have finished.
        let finished = if how == FINISH { self.crew.end(FINISH) } else { Vec::new() };
        self.controllers.stop();
        let mut errors = self.crew.end(STOP);
        errors.extend(finished);
        let (dropped, failed) = self.controllers.finish();
        let slots = CounterSlots::new(&self.program);
        self.end_counters.add(slots.drop(DropId::CONTROLLER_GONE), dropped);
        errors.extend(failed);
        let pool = &self.site.pool;
        Report { snapshot: self.snapshot(), errors, frames: pool.count(), free_frames: pool.free_frames() }
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

    /// The tables, by name.
    pub fn named_tables(&self) -> NamedTables {
        NamedTables::new(self.program.clone(), self.tables())
    }

    /// Fills tables with what packets have made of those of a process that has ended, where that left its part in the kernel; how many
    /// entries.
    pub fn inherit(&self) -> Option<usize> {
        self.site.fast_path.as_ref()?.inherit()
    }

    /// The CPUs that the workers will be pinned to; empty where they are not.
    pub fn cpus(&self) -> Vec<usize> {
        self.workers.iter().filter_map(|(_, cpu)| *cpu).collect()
    }

    /// How the ports work where that depends on the system, one line each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Whether packets come to a part of the program in the kernel at some port.
    pub fn runs_in_kernel(&self) -> bool {
        self.site.fast_path.as_ref().is_some_and(|path| path.has_ports())
    }

    /// Starts the workers. Fails where a CPU is not to be had.
    pub fn run(self) -> Result<Instance, StartError> {
        let Prepared { program, site, workers, waiting, externs, end_counters, tables, observer, notes: _ } = self;
        let sweeper = Sweeper::start(&program, tables.clone())?;
        let mtus = Mtus::start(&program, tables.clone(), &site.asked)?;
        let named = NamedTables::new(program.clone(), tables.clone());
        let controllers = Controllers::start(&program, waiting, &named, observer.roster())?;
        site.fast_path.iter().try_for_each(|path| path.start()).map_err(StartError::FastPath)?;
        let crew = Crew::start(workers)?;
        Ok(Instance { controllers, crew, site, program, externs, end_counters, tables, observer, sweeper, mtus })
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

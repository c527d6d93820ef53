//! Making an instance ready: ports opened, the program compiled, memory shared out.

use std::sync::Arc;

use baker::ir::Program;

use super::error::StartError;
use super::mtus::{MtuPorts, Mtus};
use super::options::{Options, PortConfig};
use super::run::Instance;
use super::site::{Built, Parts, Site};
use super::sweep::Sweeper;
use super::worker_pool::{self, WorkerPool};
use crate::controller::{Controllers, Named, NamedTables, Waiting};
use crate::counters::{CounterBlock, PortCounters, WorkerCounters};
use crate::engine::{EngineError, Engines, TableAccess};
use crate::externs::ExternTable;
use crate::observer::{ObservedPort, Observer};
use crate::packets::{Access, FramePool, LocalMemory};
use crate::ports::{self, Extras, Opened};
use crate::sys::Doorbell;
use crate::workers::{Handover, Ports, Worker, WorkerPort};
use crate::xdp::PortRole;

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

impl Instance {
    /// Opens the ports and compiles the program. Packets are processed from [`Prepared::run`] on.
    pub fn prepare(program: Arc<Program>, options: &Options, ports: &[PortConfig]) -> Result<Prepared, StartError> {
        Self::prepare_with(program, options, ports, Vec::new())
    }

    /// As [`Instance::prepare`], with the controllers that the program is wired to or whose functions it calls. They
    /// run, also those that it is not wired to, from [`Prepared::run`] on.
    pub fn prepare_with(
        program: Arc<Program>,
        options: &Options,
        ports: &[PortConfig],
        mut controllers: Vec<Named>,
    ) -> Result<Prepared, StartError> {
        let offered = controllers.iter_mut().flat_map(|(_, controller)| controller.externs());
        let externs = ExternTable::of_offered(&program, offered, None).map_err(EngineError::from)?;
        let cpus = worker_pool::cpus(options.workers, &options.cpus)?;
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
        for &PortConfig { ref spec, number, host, access, own, gso, mtu: _ } in ports {
            let opened = ports::open(&spec.driver, PortRole { number, host }, Extras { own, gso }, &common);
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
            frames: (pool.count() - common.reserved()).saturating_sub(pool.hold_frames()),
            pool,
            handovers: doorbells.iter().map(|doorbell| Arc::new(Handover::new(doorbell.clone()))).collect(),
            doorbells,
            cpus: cpus.clone(),
            controller_frames: options.controller_frames.clone(),
            ports: ports_of.iter().map(Vec::len).collect(),
            fast_path: options.fast_path.clone(),
            port_infos: ports.iter().map(PortConfig::info).collect(),
            mtu_ports: MtuPorts::new(ports)?,
        };
        let parts = Parts { program: &program, engines: &engines, tables: &tables, externs: externs.as_ref(), kernel };
        let Built { running, waiting, observed: counters, end_counters } = site.build(parts, controllers)?;
        let own: Vec<Arc<WorkerCounters>> = cpus.iter().map(|_| Arc::default()).collect();
        let observed = (observed, own.clone());
        let observer = Observer::new(counters, observed, options.fast_path.clone(), Some(site.pool.clone()));
        let copies_to = (observer.capture().clone(), observer.samples().clone());
        let workers = running.into_iter().zip(ports_of).zip(cpus).enumerate();
        let workers = workers.map(|(index, ((running, ports), cpu))| {
            let local = copies.then(|| LocalMemory::new(&site.pool, index)).transpose()?;
            let ports = Ports::new(site.pool.clone(), ports, host_of, local, copies_to.clone());
            let (handover, doorbell) = (site.handovers[index].clone(), site.doorbells[index].clone());
            Ok((Worker::new(ports, running, handover, doorbell, options.poll, own[index].clone()), cpu))
        });
        let workers = workers.collect::<std::io::Result<_>>()?;
        Ok(Prepared { program, site, workers, waiting, externs, end_counters, tables, observer, notes })
    }

    /// Starts a program with empty tables; [`Instance::prepare`] is to fill them first.
    pub fn start(program: Arc<Program>, options: &Options, ports: &[PortConfig]) -> Result<Instance, StartError> {
        Self::prepare(program, options, ports)?.run()
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

    /// Fills tables with what packets have made of those of a process that has ended, where that left its part in the
    /// kernel; how many entries.
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
        let mtus = Mtus::start(&program, tables.clone(), &site.mtu_ports)?;
        let named = NamedTables::new(program.clone(), tables.clone());
        // Before controllers: they take up what the program of an ended process has in its tables, which that one must
        // not change any more. What is handed over meanwhile waits at the workers' sockets.
        site.fast_path.iter().try_for_each(|path| path.start()).map_err(StartError::FastPath)?;
        let controllers = Controllers::start(waiting, &named, observer.roster())?;
        let worker_pool = WorkerPool::start(workers)?;
        site.fast_path.iter().try_for_each(|path| path.load_aside()).map_err(StartError::FastPath)?;
        Ok(Instance { controllers, worker_pool, site, program, externs, end_counters, tables, observer, sweeper, mtus })
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

//! A running instance, and how it takes over another program and configuration.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baker::check::Compilation;
use baker::ir::{Program, TableEntry, TableId};
use baker::opt::timing;
use cli::failure::Failure;
use codegen::cache;
use codegen::kernel::Hook;
use control::application::{AnyReloads, AnySettings, Registry};
use control::applications::{self, KeptOfAll, SettingsWays};
use control::config::{Config, changes};
use control::entries::{Notation, PortNames};
use control::exits::Exits;
use control::socket::{Reloaded, Shown};
use control::state::Persister;
use dataplane::ports::{Gso, OwnAddresses, PortSpec};
use dataplane::{Access, Carried, EngineKind, Instance, PortConfig, Report};

use super::endpoints::{Endpoints, Given};
use super::engine;
use super::instance::{ports, read};
use super::packets::Packets;
use crate::apps;
use ::applications::BUILT_IN;

/// All that is said of a port; the device in words.
type PortDescription = (String, u8, String, Option<u8>, Access, OwnAddresses, Gso, Option<u32>);

/// What an instance was started with, or what it took over since.
#[derive(Clone)]
pub struct StartedWith {
    compilation: Arc<Compilation>,
    program: Arc<Program>,
    config: Config,
    ports: Vec<PortDescription>,
}

impl StartedWith {
    /// A program, its configuration, and the ports that the configuration and the command line make.
    pub fn new(compilation: Arc<Compilation>, program: &Arc<Program>, config: &Config, ports: &[PortConfig]) -> Self {
        let port = |port: &PortConfig| {
            let PortConfig { spec, number, host, access, own, gso, mtu } = port;
            (spec.name.clone(), *number, spec.driver.to_string(), *host, *access, *own, *gso, *mtu)
        };
        StartedWith {
            compilation,
            program: program.clone(),
            config: config.clone(),
            ports: ports.iter().map(port).collect(),
        }
    }

    /// Whether it is the same program, letter by letter.
    fn is_same_program(&self, other: &StartedWith) -> bool {
        let [own, others] = [self, other].map(|with| with.compilation.sources.iter().map(|(_, file)| &file.text));
        own.eq(others)
    }

    /// What of a configuration is in force from the start to the end, and was changed.
    fn fixed(&self, new: &StartedWith) -> Vec<&'static str> {
        let (old, new_config) = (&self.config, &new.config);
        let sections = [
            ("ports", self.ports == new.ports),
            ("frames", old.frames == new_config.frames && old.controller_frames == new_config.controller_frames),
            ("workers", old.workers == new_config.workers),
            ("control", old.control == new_config.control),
        ];
        sections.into_iter().filter(|(_, same)| !same).map(|(name, _)| name).collect()
    }
}

/// What is read again for a reload.
pub struct Reread {
    /// The program, as on the command line.
    pub app: String,
    /// The configuration's file.
    pub config: Option<PathBuf>,
    /// Ports of the command line.
    pub ports: Vec<PortSpec>,
    /// What the program is lowered for.
    pub hook: Hook,
    /// Access mode of the command line.
    pub access: Option<Access>,
    /// Where the command line has it answer by HTTP.
    pub given: Given,
    /// What workers run the program by.
    pub workers: EngineKind,
    /// Whether packets come to a part of it in the kernel.
    pub in_kernel: bool,
    /// How accesses to packets are optimised.
    pub packets: Packets,
    /// Of the ports.
    pub names: PortNames,
    /// What these do with packets that leave the program.
    pub exits: Exits,
}

/// A running instance.
pub struct Live(Mutex<State>);

struct State {
    /// None once it has ended.
    instance: Option<Instance>,
    with: StartedWith,
    /// Whether the program measures how long packets are in PPFs.
    timed: bool,
    settings: SettingsWays,
    /// Controllers that can be asked.
    registry: Registry,
    /// Where the tables are kept on disk.
    persister: Option<Persister>,
    /// What controllers keep beside them.
    kept: KeptOfAll,
}

impl Live {
    /// An instance that runs what it was started with.
    pub fn new(
        instance: Instance,
        with: StartedWith,
        settings: SettingsWays,
        registry: Registry,
        (persister, kept): (Option<Persister>, KeptOfAll),
    ) -> Self {
        Live(Mutex::new(State { instance: Some(instance), with, timed: false, settings, registry, persister, kept }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether its workers run. While it takes over a program they do.
    pub fn is_running(&self) -> bool {
        self.0.try_lock().map_or(true, |state| state.instance.as_ref().is_some_and(Instance::is_running))
    }

    /// Whether its workers go round. While it takes over a program, which waits for them, they are taken to.
    pub fn is_responding(&self) -> bool {
        const PATIENCE: Duration = Duration::from_secs(5);
        let responds = |instance: &Instance| instance.is_running() && instance.unseen() < PATIENCE;
        self.0.try_lock().map_or(true, |state| state.instance.as_ref().is_some_and(responds))
    }

    /// Ends it, if it has not ended yet.
    pub fn stop(&self) -> Option<Report> {
        let mut state = self.lock();
        let report = state.instance.take()?.stop();
        state.persister = None;
        Some(report)
    }

    /// Reads program and configuration again and puts them in force while packets are processed. Where anything is
    /// wrong with them all stays as it is, and the error says what.
    pub fn reload(&self, reread: &Reread, endpoints: &Endpoints) -> Result<(Reloaded, Option<Arc<Shown>>), String> {
        let mut state = self.lock();
        let said = |failure: Failure| failure.to_string().trim_start_matches("error: ").to_owned();
        let with = read_again(reread, &state.with.config).map_err(said)?;
        let fixed = state.with.fixed(&with);
        if !fixed.is_empty() {
            return Err(format!("[{}] of the configuration changed, which takes a restart", fixed.join("], [")));
        }
        let bound = endpoints.bind(&reread.given, &with.config)?;
        let mut reloaded = Reloaded {
            warnings: with.config.warnings.iter().map(ToString::to_string).collect(),
            ..Reloaded::default()
        };
        let shown = match with.is_same_program(&state.with) {
            true => {
                state.change(&with, &mut reloaded)?;
                None
            }
            false => Some(state.take_over(&with, reread, &mut reloaded)?),
        };
        state.with = with;
        state.keep();
        endpoints.put(bound, &mut reloaded);
        Ok((reloaded, shown))
    }

    /// Has the program measure how long packets are in PPFs, or not any more. Where it can't all stays as it is, and
    /// the error says why.
    pub fn time(&self, reread: &Reread, timed: bool) -> Result<Arc<Shown>, String> {
        if reread.workers == EngineKind::Interp {
            return Err("the interpreter measures no times; --engine worker, xdp and tc do".into());
        }
        let mut state = self.lock();
        let (with, before) = (state.with.clone(), std::mem::replace(&mut state.timed, timed));
        let mut reloaded = Reloaded::default();
        let shown = state.take_over(&with, reread, &mut reloaded).inspect_err(|_| state.timed = before)?;
        reloaded.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        state.keep();
        Ok(shown)
    }
}

/// The program and the configuration as they are now. What is in no file is as it was.
fn read_again(reread: &Reread, config: &Config) -> Result<StartedWith, Failure> {
    let source = apps::find(&reread.app)?;
    let compilation = apps::check(&source)?;
    let program = apps::lower_for(reread.hook, &source, &compilation)?;
    let config = match &reread.config {
        Some(file) => read(file, &program)?,
        None => config.clone(),
    };
    let program = reread.packets.profiled(config.pinned(program), &config)?;
    let ports = ports(&config, &reread.ports, reread.access)?;
    Ok(StartedWith::new(Arc::new(compilation), &program, &config, &ports))
}

impl State {
    fn instance(&mut self) -> Result<&mut Instance, String> {
        self.instance.as_mut().ok_or_else(|| "the instance has ended".into())
    }

    /// Keeps on disk what is in force now.
    fn keep(&self) {
        let (Some(persister), Some(instance)) = (&self.persister, &self.instance) else { return };
        let configured = self.with.config.configured(&self.with.program);
        persister.persist(instance.program().clone(), configured, instance.tables(), self.kept.clone());
    }

    /// The program is the same.
    fn change(&mut self, with: &StartedWith, reloaded: &mut Reloaded) -> Result<(), String> {
        let program = &with.program;
        let configured = self.with.config.configured(&self.with.program);
        let changes = changes(&configured, (program, &with.config), |_| true);
        let mut tables = self.instance()?.tables();
        let undo = changes.set(program, &mut tables).map_err(|error| error.to_string())?;
        let offer = |(name, settings): &(&str, Arc<dyn AnyReloads>)| {
            let made = with.config.controllers.iter().find(|(own, _)| own == name).map(|(_, made)| made.clone());
            settings.offer(made.unwrap_or_default()).map_err(|error| format!("controller {name}: {error}"))
        };
        if let Err(error) = self.settings.iter().try_for_each(offer) {
            undo.undo(&mut tables);
            return Err(error);
        }
        changes.remove(&mut tables);
        (reloaded.set, reloaded.removed) = (changes.set.len(), changes.removed.len());
        reloaded.controllers = self.settings.iter().map(|(name, _)| (*name).to_owned()).collect();
        Ok(())
    }

    /// Another program takes over.
    fn take_over(
        &mut self,
        with: &StartedWith,
        reread: &Reread,
        reloaded: &mut Reloaded,
    ) -> Result<Arc<Shown>, String> {
        let needed = BUILT_IN.of_program(&with.program).map_err(|error| error.to_string())?;
        needed.begin(&with.config.controllers).map_err(|error| error.to_string())?;
        let configured = self.with.config.configured(&self.with.program);
        let (before, kept_before) = (self.settings.clone(), self.kept.clone());
        let wanted = if self.timed { Arc::new(timing::timed(&with.program)) } else { with.program.clone() };
        let instance = self.instance()?;
        let running: Vec<String> = instance.controllers().map(str::to_owned).collect();
        let next = instance
            .next(&wanted, needed.controllers)
            .map_err(|error| engine::reload_error(error, &with.compilation))?;
        let (program, mut tables) = (next.program().clone(), next.tables());
        let is_carried =
            |table: TableId| matches!(next.carried()[table.0 as usize], Carried::Kept(_) | Carried::Copied(..));
        let changes = changes(&configured, (&program, &with.config), is_carried);
        let is_removed = |table: TableId, entry: &TableEntry| {
            let same = |(own, removed): &(TableId, TableEntry)| {
                (*own, &removed.key, removed.prefix_len) == (table, &entry.key, entry.prefix_len)
            };
            changes.removed.iter().any(same)
        };
        instance.copy(&next, |table, entry| !is_removed(table, entry)).map_err(|error| error.to_string())?;
        let named = next.named_tables();
        let undo = changes.set(&program, &mut tables).map_err(|error| error.to_string())?;
        let install = |(name, made): &(String, AnySettings)| {
            BUILT_IN.install(name, &named, made).map_err(|error| format!("controller {name}: {error}"))
        };
        if let Err(error) = with.config.controllers.iter().try_for_each(install) {
            undo.undo(&mut tables);
            return Err(error);
        }
        // Those that run go on with what they have, but for their settings.
        let kept = |name: &str| before.iter().find(|(own, _)| *own == name && running.iter().any(|one| one == name));
        let settings = needed.reloads.into_iter();
        let settings: SettingsWays =
            settings.map(|(name, new)| (name, kept(name).map_or(new, |(_, old)| old.clone()))).collect();
        let mut kept_of_all = needed.kept;
        for (name, new) in kept_of_all.iter_mut().filter(|(name, _)| running.iter().any(|one| one == name)) {
            let old = kept_before.iter().find(|(own, _)| own == name);
            old.into_iter().for_each(|(_, old)| *new = old.clone());
        }
        applications::begin(&settings, &with.config.controllers);
        let carried = program.tables.iter().zip(next.carried());
        reloaded.tables = carried.map(|(table, carried)| (table.name.clone(), carried.to_string())).collect();
        let about = |partitioned: &dataplane::xdp::Partitioned<_>| {
            engine::about(reread.hook, &with.program, &partitioned.placement, &partitioned.too_much)
        };
        reloaded.engine = next.partitioned().map(about);
        let placement = next.partitioned().map(|partitioned| &partitioned.placement).filter(|_| reread.in_kernel);
        let graph = engine::graph(&with.program, placement, reread.hook, reread.workers);
        reloaded.warnings.extend(cache::take_notes());
        reloaded.warnings.extend(instance.take_over(next));
        changes.remove(&mut tables);
        (reloaded.replaced, reloaded.set, reloaded.removed) = (true, changes.set.len(), changes.removed.len());
        reloaded.controllers = with.config.controllers.iter().map(|(name, _)| name.clone()).collect();
        (self.settings, self.kept) = (settings, kept_of_all);
        self.registry.replace(needed.query_targets, |name| running.iter().any(|one| one == name));
        let notation = Notation::new(program.clone(), reread.names.clone());
        Ok(Shown::new(program, (graph, reread.exits.clone()), notation, tables))
    }
}

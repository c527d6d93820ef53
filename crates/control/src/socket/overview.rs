//! What a running instance knows of itself, for all who look at it: clients of the socket, monitoring systems.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use collectors::Exporter;
use collectors::ipfix::{Flows, IpfixAgent};
use collectors::sflow::{Sampled, SflowAgent};
use dataplane::xdp::{Copies, Front};
use dataplane::{Capture, LookUpSnapshot, Observer, TimeSnapshot};
use serde_json::json;

use super::protocol::{
    CodeState, ControllerState, Counters, IpfixState, KernelState, SflowState, Status, TableInfo, TimerState,
};
use super::shown::Shown;
use super::timing::{LookUps, PpfTiming};
use super::ways::ProgramWays;
use crate::application::metrics::Family;
use crate::application::{METRICS, QueryTarget, Registry};

/// What an instance says about itself; the rest of [`Status`] is known to its [`Overview`].
pub type About = Status;

/// All that is counted, at one time.
#[derive(Clone, Debug)]
pub struct Seen {
    /// What runs.
    pub status: Status,
    /// Counters.
    pub counters: Counters,
    /// Tables. Of an array it is not counted how many of its entries are set.
    pub tables: Vec<TableInfo>,
    /// How long packets were in PPFs, where that is measured now.
    pub times: Vec<PpfTiming>,
    /// Look-ups of packets in tables, likewise.
    pub look_ups: Vec<LookUps>,
    /// Controllers that have metrics.
    pub asked: Vec<String>,
    /// Those of controllers that have answered.
    pub controllers: Vec<(String, Vec<Family>)>,
}

/// A running instance, as it is looked at.
#[derive(Debug)]
pub struct Overview {
    about: About,
    started: Instant,
    observer: Observer,
    registry: Registry,
    sflow: Exporter<SflowAgent>,
    ipfix: Exporter<IpfixAgent>,
    shown: Arc<Mutex<Arc<Shown>>>,
}

impl Overview {
    /// Of an instance that just started; `registry` has the controllers that can be asked, and `flows` come from them.
    pub fn new(about: About, shown: Arc<Shown>, observer: Observer, (registry, flows): (Registry, Flows)) -> Overview {
        let shown = Arc::new(Mutex::new(shown));
        let sampled = Sampled { observer: observer.clone(), ways: Arc::new(ProgramWays(shown.clone())) };
        let (sflow, ipfix) = (Exporter::new(sampled), Exporter::new(flows));
        Overview { about, started: Instant::now(), observer, registry, sflow, ipfix, shown }
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Shown>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The program that runs, with its tables. While another one takes over it is still the old one.
    pub(super) fn shown(&self) -> Arc<Shown> {
        self.lock().clone()
    }

    /// Another one runs.
    pub(super) fn show(&self, shown: Arc<Shown>) {
        *self.lock() = shown;
    }

    /// Where copies go of packets that come in.
    pub(super) fn capture(&self) -> &Arc<Capture> {
        self.observer.capture()
    }

    /// Has all packets copied that come in at the kernel's part of the program.
    pub(super) fn capture_in_kernel(&self) -> std::io::Result<Option<Front>> {
        self.observer.copies_in_kernel(Copies { one_in: 1, bytes: Front::MOST_BYTES })
    }

    /// What sends samples and counters to collectors.
    pub fn sflow(&self) -> &Exporter<SflowAgent> {
        &self.sflow
    }

    /// What sends flows to collectors.
    pub fn ipfix(&self) -> &Exporter<IpfixAgent> {
        &self.ipfix
    }

    /// The controllers that can be asked.
    pub(super) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The counters now.
    pub fn counters(&self) -> Counters {
        Counters::from(self.observer.snapshot())
    }

    /// How long packets were in PPFs, where that is measured now.
    pub(super) fn times(&self) -> Vec<PpfTiming> {
        let shown = self.shown();
        let of = |time: TimeSnapshot| {
            let engine = shown.engine(&time.ppf);
            PpfTiming::new(time, engine)
        };
        self.observer.times().into_iter().filter_map(of).collect()
    }

    /// Look-ups in tables that packets made, where that is measured now.
    pub(super) fn look_ups(&self) -> Vec<LookUps> {
        let some = self.observer.look_ups().into_iter().filter(|own| own.count > 0);
        some.map(|LookUpSnapshot { table, count, missed }| LookUps { table, count, missed }).collect()
    }

    /// Looks at everything that is counted, for monitoring: in this time at most, so what controllers have not said by
    /// then is missing. No worker and no other client waits for it.
    pub fn look(&self, patience: Duration) -> Seen {
        let end = Instant::now() + patience;
        let (status, counters, shown) = (self.status(), self.counters(), self.shown());
        let offer = |target: &QueryTarget| target.offers.iter().any(|offer| offer.name == METRICS);
        let with = json!({ "sessions": false });
        let ask = |target: QueryTarget| {
            let answer = target.queries.ask_until(METRICS, &with, end)?.ok()?;
            Some((target.name.to_owned(), serde_json::from_value(answer).ok()?))
        };
        let targets: Vec<_> = self.registry.all().into_iter().filter(offer).collect();
        let asked = targets.iter().map(|target| target.name.to_owned()).collect();
        let controllers = targets.into_iter().filter_map(ask).collect();
        let (times, look_ups) = (self.times(), self.look_ups());
        Seen { status, counters, tables: shown.sizes(), times, look_ups, asked, controllers }
    }

    /// What runs, and what becomes of it.
    pub fn status(&self) -> Status {
        let uptime = self.started.elapsed().as_millis();
        let snapshot = self.observer.snapshot();
        let timers = snapshot.timers.into_iter().map(TimerState::named).collect();
        let controllers = snapshot.controllers.into_iter().map(ControllerState::named).collect();
        let frames = self.observer.frames();
        let holders = [
            ("pool", frames.pool),
            ("workers", frames.workers),
            ("ports", frames.ports),
            ("hold tables", frames.holds),
            ("queues", frames.queues),
            ("groups", frames.groups),
            ("controllers", frames.controllers),
            ("passing", frames.passing),
        ];
        let holders = holders.map(|(holder, frames)| (holder.to_owned(), frames)).into_iter().collect();
        let uptime_ms = u64::try_from(uptime).unwrap_or(u64::MAX);
        let kernel = self.observer.progress().map(KernelState::from);
        let (sflow, ipfix) = (self.sflow.state().map(SflowState::from), self.ipfix.state().map(IpfixState::from));
        let code = CodeState::now();
        Status { uptime_ms, kernel, code, sflow, ipfix, timers, controllers, holders, ..self.about.clone() }
    }
}

//! What is told of the mirror.

use std::time::Instant;

use control::application::metrics::{Family, Kind};
use serde::{Deserialize, Serialize};

/// How it is with the mirror. As JSON, too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// `in step`; `loading`: the kernel is to be asked, or is being asked, for all that it has; `failed`: the kernel
    /// can't be asked, and packets are forwarded by what is there; `off`, by the settings.
    pub state: String,
    /// For so many milliseconds.
    pub since_ms: u64,
    /// Routes in the program's tables: IPv4,
    pub routes4: u64,
    /// and IPv6.
    pub routes6: u64,
    /// Next hops in the program's tables.
    pub next_hops: u64,
    /// Neighbours that the kernel knows of.
    pub neighbours: u64,
    /// Routes of the kernel in the place of which stands one that an operator or the configuration has set.
    pub by_hand: u64,
    /// Times that the kernel was asked for all that it has.
    pub dumps: u64,
    /// How long that took last, with what was to be written.
    pub dump_ms: u64,
    /// Times that the kernel had no room for its events.
    pub overruns: u64,
    /// Prefixes that a dump has put right.
    pub corrected: u64,
    /// Times that the kernel was asked to find out about neighbours.
    pub asked: u64,
    /// Routes that found no room in the tables.
    pub refused: u64,
    /// What went wrong last.
    pub error: Option<String>,
    /// Ports, and the kernel's interfaces to what is behind them.
    pub ports: Vec<(String, Option<String>)>,
}

/// The same, kept by the mirror's thread.
#[derive(Debug)]
pub struct Known {
    state: State,
    since: Instant,
}

impl Default for Known {
    fn default() -> Self {
        Known { state: State { state: "loading".into(), ..State::default() }, since: Instant::now() }
    }
}

impl Known {
    /// It is in this state now.
    pub fn now(&mut self, state: &str) {
        if self.state.state != state {
            (self.state.state, self.since) = (state.to_owned(), Instant::now());
        }
    }

    /// Something went wrong; whether that is news.
    pub fn failed(&mut self, error: &str) -> bool {
        let is_news = self.state.state != "failed" || self.state.error.as_deref() != Some(error);
        self.state.error = Some(error.to_owned());
        self.now("failed");
        is_news
    }

    /// For changes of the rest.
    pub fn rest(&mut self) -> &mut State {
        &mut self.state
    }

    /// To be shown.
    pub fn shown(&self) -> State {
        let since_ms = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        State { since_ms, ..self.state.clone() }
    }

    /// As metrics.
    pub fn metrics(&self) -> Vec<Family> {
        let own = &self.state;
        let mut routes = Family::new(Kind::Gauge, "routes_routes", "Routes of the kernel in the program's tables.");
        routes.add(&[("family", "ipv4")], own.routes4);
        routes.add(&[("family", "ipv6")], own.routes6);
        let single = |kind, name, about, value| {
            let mut family = Family::new(kind, name, about);
            family.add(&[], value);
            family
        };
        let in_step = u64::from(own.state == "in step");
        vec![
            single(Kind::Gauge, "routes_in_step", "Whether the tables are as the kernel has it.", in_step),
            routes,
            single(Kind::Gauge, "routes_next_hops", "Next hops in the program's tables.", own.next_hops),
            single(Kind::Gauge, "routes_by_hand", "Routes that operators or the configuration have set.", own.by_hand),
            single(Kind::Counter, "routes_dumps_total", "Times that the kernel was asked for everything.", own.dumps),
            single(Kind::Counter, "routes_overruns_total", "Times that events were lost.", own.overruns),
            single(Kind::Counter, "routes_corrected_total", "Prefixes that a dump has put right.", own.corrected),
            single(Kind::Counter, "routes_asked_total", "Requests to find out about neighbours.", own.asked),
            single(Kind::Counter, "routes_refused_total", "Routes that found no room in the tables.", own.refused),
        ]
    }
}

//! Takes flows and sends them.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use super::flow::Flows;
use super::message::Messages;
use super::settings::Settings;
use crate::exporter::Agent;
use crate::rounds::Rounds;
use crate::sockets::{Sent, Sockets};

/// Between two looks whether there are flows. None waits longer than two of them.
const LOOK: Duration = Duration::from_millis(200);

/// What an agent has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Flows that were sent, or could not be.
    pub flows: u64,
    /// Flows for which there was no room.
    pub lost: u64,
    /// Messages.
    pub sent: Sent,
}

/// An agent, until it is dropped: then what is left is sent.
#[derive(Debug)]
pub struct IpfixAgent {
    settings: Settings,
    state: Arc<Mutex<State>>,
    flows: Flows,
    rounds: Option<Rounds>,
}

impl Agent for IpfixAgent {
    type Settings = Settings;
    type Source = Flows;
    type State = State;

    fn start(settings: Settings, flows: &Flows) -> io::Result<IpfixAgent> {
        let state = Arc::default();
        let lost = flows.lost();
        let mut running = Running {
            sockets: Sockets::open(&settings.collectors)?,
            messages: Messages::new(settings.domain),
            every: settings.templates,
            told: None,
            flows: flows.clone(),
            lost,
            state: Arc::clone(&state),
        };
        flows.want(Some(settings.active));
        let rounds = Rounds::start("ipfix", LOOK, move |_| running.round());
        let rounds = rounds.inspect_err(|_| flows.want(None))?;
        Ok(IpfixAgent { settings, state, flows: flows.clone(), rounds: Some(rounds) })
    }

    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn state(&self) -> State {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for IpfixAgent {
    fn drop(&mut self) {
        self.rounds = None;
        self.flows.want(None);
    }
}

struct Running {
    sockets: Sockets,
    messages: Messages,
    /// Between two messages with templates.
    every: Duration,
    /// When the last one was sent.
    told: Option<Instant>,
    flows: Flows,
    /// What was lost before.
    lost: u64,
    state: Arc<Mutex<State>>,
}

impl Running {
    /// Sends all that has come.
    fn round(&mut self) {
        let now = SystemTime::now();
        if self.told.is_none_or(|told| told.elapsed() >= self.every) {
            self.told = Some(Instant::now());
            self.sockets.send(&self.messages.templates(now));
        }
        let mut flows = 0;
        while let Some(flow) = self.flows.take() {
            flows += 1;
            if let Some(full) = self.messages.flow(&flow, now) {
                self.sockets.send(&full);
            }
        }
        if !self.messages.is_empty() {
            self.sockets.send(&self.messages.take(now));
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.flows += flows;
        state.lost = self.flows.lost() - self.lost;
        state.sent.clone_from(self.sockets.sent());
    }
}

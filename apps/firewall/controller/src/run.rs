//! The running controller: puts rules in force, logs denied packets, tells collectors of flows, answers.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use baker::ir::Program;
use control::application::{CompiledSettings, Given, QueryError};
use dataplane::controller::{Event, Link, NameError, Punted};
use dataplane::monotonic_ns;

use super::application::install;
use super::counting::{COUNTED, Counting};
use super::denied::Denied;
use super::flows::{Flows, rule_name};
use super::queries;
use super::record::FlowRecord;

/// How often it looks whether somebody wants flows to be counted or recorded.
const PAUSE: Duration = Duration::from_millis(100);
/// The channel of records.
const RECORDS: &str = "records.output";

/// What of the configuration is in no table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Names of the rules, in order; those without one are empty.
    pub names: Vec<String>,
    /// Whether packets and bytes of flows are counted also where nobody looks.
    pub accounting: bool,
}

/// Runs until it is to stop.
pub fn run(given: &Given<Settings>, link: &mut Link) -> Result<(), String> {
    let text = |error: NameError| error.to_string();
    let denied = Denied::new(link).map_err(text)?;
    // A program of one's own may follow flows in another way.
    let mut counted = match counts(link.program()) {
        true => Some((Flows::new(link.tables()).map_err(text)?, Counting::new(link.tables()).map_err(text)?)),
        false => None,
    };
    let (mut is_warned, mut looks) = (false, Instant::now());
    let mut settings = settings_of(&given.reloads.begun());
    given.reloads.wakes(link.waker());
    given.queries.wakes(link.waker());
    loop {
        // Not for each packet: tables are asked.
        if looks <= Instant::now() {
            looks = Instant::now() + PAUSE;
            if let Some((flows, counting)) = &mut counted {
                counting.set(settings.accounting, given.flows.wanted())?;
                flows.tidy();
            } else if !is_warned && given.flows.wanted().is_some() {
                is_warned = true;
                tracing::warn!("collectors get no flows: the program has no table {COUNTED}");
            }
        }
        match link.receive(PAUSE) {
            Event::Packet(packet) if packet.channel() == RECORDS => tell(given, &packet, &settings.names),
            Event::Packet(packet) => denied.log(&packet),
            Event::Room | Event::Timer(_) | Event::Idle => {}
            Event::Stop => return Ok(()),
        }
        given.reloads.apply(|compiled| {
            install(link.tables(), compiled)?;
            settings = settings_of(compiled);
            Ok(())
        });
        given.queries.answer(|name, with| {
            let Some((flows, counting)) = &mut counted else {
                return Err(QueryError::NotFound(format!("the program has no table {COUNTED}")));
            };
            counting.look();
            counting.set(settings.accounting, given.flows.wanted()).map_err(QueryError::Bad)?;
            queries::answer(flows, counting, &settings.names, name, with)
        });
    }
}

/// Whether a program can count what flows carry.
fn counts(program: &Program) -> bool {
    program.tables.iter().any(|table| table.name == COUNTED)
}

/// Tells collectors of a flow.
fn tell(given: &Given<Settings>, packet: &Punted, names: &[String]) {
    let Some(record) = FlowRecord::read(packet.bytes()) else { return };
    given.flows.put(|| {
        let rule = |number| rule_name(names, number).unwrap_or_default();
        record.flow(monotonic_ns(), SystemTime::now(), rule)
    });
}

fn settings_of(compiled: &CompiledSettings<Settings>) -> Arc<Settings> {
    compiled.own.clone().unwrap_or_default()
}

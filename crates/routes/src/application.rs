//! The mirror as a controller: of programs that have an instance of `net/next_hop`.

use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use baker::ir::Program;
use control::application::{
    Answer, Application, CompiledSettings, Given, Offer, Queries, QueryError, Reloads, Section, SettingsUse,
};
use control::document::Errors;
use dataplane::controller::{Controller, Event, Link};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::{Value as Json, json};

use crate::lookup::{self, Lookup};
use crate::mirror::Mirror;
use crate::program::{Tables, instance};
use crate::session::{Session, SessionError};
use crate::settings::{self, Settings};
use crate::state::Known;

/// Pauses between attempts where the kernel can't be asked.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How long the mirror waits at most before it looks whether there is something to do.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// The routes of the kernel in the tables of programs that import `net/next_hop`.
pub struct RoutesApplication;

impl Application for RoutesApplication {
    const NAME: &'static str = "routes";
    type Settings = Settings;
    const SETTINGS: SettingsUse = SettingsUse::Optional;
    const QUERIES: &'static [Offer] = &[
        Offer {
            name: "state",
            about: "whether the tables are as the kernel has it, and what was done",
            changes: false,
        },
        Offer { name: "lookup", about: "where packets to an address go", changes: false },
        Offer { name: "metrics", about: "what was counted", changes: false },
    ];

    fn controller(&self, Given { reloads, queries, .. }: Given<Settings>) -> Box<dyn Controller> {
        Box::new(Routes { reloads, queries, known: Known::default() })
    }

    fn serves(&self, program: &Program) -> bool {
        instance(program).is_some()
    }

    fn read(&self, section: &Section, errors: &mut Errors, _: &mut Errors) -> CompiledSettings<Settings> {
        CompiledSettings { entries: Vec::new(), own: Some(Arc::new(settings::read(section, errors))) }
    }
}

/// The controller.
struct Routes {
    reloads: Reloads<Settings>,
    queries: Queries,
    known: Known,
}

/// Why a session is over.
enum End {
    /// The link ends.
    Stop,
    /// There are other settings.
    Settings,
    Failed(SessionError),
}

impl Controller for Routes {
    fn run(&mut self, link: &mut Link) -> Result<(), String> {
        self.reloads.wakes(link.waker());
        self.queries.wakes(link.waker());
        let text = |error: dataplane::controller::NameError| error.to_string();
        let Some(tables) = Tables::find(link.tables()).map_err(text)? else { return Ok(()) };
        let lookup = Lookup::new(link.tables()).map_err(text)?.ok_or("the program has no instance of net/next_hop")?;
        let mut pause = FIRST_PAUSE;
        loop {
            let settings = self.settings();
            if !settings.mirror {
                self.known.now("off");
            } else if self.known.shown().state != "failed" {
                self.known.now("loading");
            }
            let end = match settings.mirror {
                true => self.session(link, &tables, &lookup, &settings, &mut pause),
                false => self.idle(link, &lookup, None),
            };
            match end {
                End::Stop => return Ok(()),
                End::Settings => pause = FIRST_PAUSE,
                End::Failed(error) => {
                    // Once for each: it is tried again and again.
                    if self.known.failed(&error.to_string()) {
                        tracing::error!("{error}; packets are forwarded by the routes that are there");
                    }
                    if matches!(self.idle(link, &lookup, Some(pause)), End::Stop) {
                        return Ok(());
                    }
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }
}

impl Routes {
    fn settings(&self) -> Settings {
        self.reloads.begun().own.map_or_else(Settings::default, |own| (*own).clone())
    }

    /// Answers queries, and takes other settings; whether there are any.
    fn serve(&mut self, link: &Link, lookup: &Lookup) -> bool {
        let known = &self.known;
        self.queries.answer(|query, with| answer(known, lookup, link, query, with));
        let mut changed = false;
        self.reloads.apply(|_| {
            changed = true;
            Ok(())
        });
        changed
    }

    /// Does nothing for so long, or until something is said.
    fn idle(&mut self, link: &mut Link, lookup: &Lookup, pause: Option<Duration>) -> End {
        let end = pause.and_then(|pause| std::time::Instant::now().checked_add(pause));
        loop {
            let left = end.map_or(LONGEST_WAIT, |end| end.saturating_duration_since(std::time::Instant::now()));
            if let Event::Stop = link.receive(left.min(LONGEST_WAIT)) {
                return End::Stop;
            }
            if self.serve(link, lookup) || end.is_some_and(|end| std::time::Instant::now() >= end) {
                return End::Settings;
            }
        }
    }

    /// Keeps the tables in step until something fails or is said.
    fn session(
        &mut self,
        link: &mut Link,
        tables: &Tables,
        lookup: &Lookup,
        settings: &Settings,
        pause: &mut Duration,
    ) -> End {
        let mirror = Mirror::new(link.tables(), tables.clone(), link.ports(), settings.clone());
        let mut session = match Session::open(mirror, settings) {
            Ok(session) => session,
            Err(error) => return End::Failed(error),
        };
        loop {
            let queries = self.queries.clone();
            let mut meanwhile = |known: &Known| {
                queries.answer(|query, with| answer(known, lookup, link, query, with));
                !link.is_stopping()
            };
            match session.work(&mut self.known, &mut meanwhile) {
                Ok(()) => {}
                Err(SessionError::Stopped) => return End::Stop,
                Err(error) => return End::Failed(error),
            }
            *pause = FIRST_PAUSE;
            while let Some(event) = link.poll() {
                if let Event::Stop = event {
                    return End::Stop;
                }
            }
            if self.serve(link, lookup) {
                return End::Settings;
            }
            if link.arm() {
                let wait = session.pause().min(LONGEST_WAIT);
                let waited = wait_for(link, &session, wait);
                link.disarm();
                if let Err(error) = waited {
                    return End::Failed(SessionError::Netlink(error.into()));
                }
            }
        }
    }
}

/// Waits until the kernel or the link has something, but no longer than this.
fn wait_for(link: &Link, session: &Session, time: Duration) -> Result<(), Errno> {
    let fd = link.fd();
    let mut both = [PollFd::new(fd.as_fd(), PollFlags::POLLIN), PollFd::new(session.as_fd(), PollFlags::POLLIN)];
    // Not earlier than what is due.
    let milliseconds = u16::try_from(time.as_millis() + 1).unwrap_or(u16::MAX);
    match poll(&mut both, PollTimeout::from(milliseconds)) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error),
    }
}

fn answer(known: &Known, lookup: &Lookup, link: &Link, query: &str, with: &Json) -> Answer {
    match query {
        "state" => Ok(json!(known.shown())),
        "metrics" => Ok(json!(known.metrics())),
        "lookup" => {
            let address = with.get("address").and_then(Json::as_str).and_then(|text| text.parse::<IpAddr>().ok());
            let bad = || QueryError::Bad("lookup takes `address`, an IPv4 or IPv6 address".into());
            let address = address.ok_or_else(bad)?;
            let flow = with.get("flow").and_then(Json::as_u64).unwrap_or(0) as u32;
            Ok(shown(lookup.find(address, flow), link))
        }
        other => Err(QueryError::Unknown(format!("there is no query {other:?}"))),
    }
}

fn shown(answer: lookup::Answer, link: &Link) -> Json {
    match answer {
        lookup::Answer::Host => json!({ "to": "host" }),
        lookup::Answer::Drop(reason) => {
            let reasons = &link.program().drop_reasons;
            let reason = reasons.iter().find(|own| own.value() == reason).map(|own| own.name.clone());
            json!({ "to": "drop", "reason": reason })
        }
        lookup::Answer::Route(route) => {
            let port = link.ports().iter().find(|port| port.number == route.port).map(|port| port.name.clone());
            let mac = |mac: [u8; 6]| mac.map(|byte| format!("{byte:02x}")).join(":");
            json!({
                "to": "port",
                "port": port.unwrap_or_else(|| route.port.to_string()),
                "source": route.source.map(|source| source.to_string()),
                "src": mac(route.mac.0),
                "dst": mac(route.mac.1),
                "mtu": route.mtu,
                "next_hop": route.number,
            })
        }
    }
}

//! What is counted, by service and by server, and where requests are logged.

use collectors::ipfix::Flows;
use control::access_log::AccessLog;
use control::application::metrics::{Family, Histogram, Kind};
use indexmap::IndexMap;
use wire::flow_key::FlowKey;

use crate::cluster::Cluster;
use crate::connection::effect::Metric;
use crate::connection::exchange::{Ending, Finished};
use crate::log::access_log::Line;
use crate::log::flow;
use crate::settings::Settings;

/// Classes of statuses: 1xx to 5xx.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// Statuses of Millrace's own answers.
const ANSWERS: [u16; 7] = [400, 408, 413, 431, 502, 503, 504];

/// Of one service.
#[derive(Clone, Debug, Default)]
struct ServiceMetrics {
    connections: u64,
    /// By class of the response's status, of servers only.
    responses: [u64; 5],
    /// By [`ANSWERS`].
    answers: [u64; ANSWERS.len()],
    /// By [`Ending::ALL`].
    endings: [u64; Ending::ALL.len()],
    retries: u64,
    invalid_ack: u64,
    passthrough: u64,
    up: u64,
    down: u64,
    connect: Histogram,
    first_byte: Histogram,
}

/// Of one server.
#[derive(Clone, Debug, Default)]
pub struct ServerMetrics {
    /// Requests that it was to get.
    pub requests: u64,
    /// Connections to it.
    pub connections: u64,
    /// Requests that it could not have, so that others got them, or the client an answer.
    pub failed: u64,
    /// How long connecting took.
    pub connect: Histogram,
    responses: [u64; 5],
    up: u64,
    down: u64,
    first_byte: Histogram,
}

/// All of it.
#[derive(Debug, Default)]
pub struct Metrics {
    services: IndexMap<String, ServiceMetrics>,
    servers: Vec<ServerMetrics>,
    log: Option<AccessLog>,
    /// Where exchanges go for collectors of IPFIX.
    pub flows: Flows,
}

fn class(status: u16) -> usize {
    usize::from(status / 100).clamp(1, CLASSES.len()) - 1
}

impl Metrics {
    /// Takes over another configuration: what was counted stays. The log's file is opened anew.
    pub fn configure(&mut self, settings: &Settings) {
        for service in &settings.services {
            self.services.entry(service.name.clone()).or_default();
        }
        let same = self.log.as_ref().map(AccessLog::settings) == settings.log.as_ref();
        if !same {
            self.log = settings.log.as_ref().and_then(AccessLog::open);
        }
        control::line_log::reopen_all();
    }

    /// Whether requests are logged.
    pub fn logs(&self) -> bool {
        self.log.is_some()
    }

    /// Those of a server.
    pub fn server(&mut self, number: usize) -> &mut ServerMetrics {
        if self.servers.len() <= number {
            self.servers.resize(number + 1, ServerMetrics::default());
        }
        &mut self.servers[number]
    }

    /// Those of a server that there may be none of yet.
    pub fn of_server(&self, number: usize) -> ServerMetrics {
        self.servers.get(number).cloned().unwrap_or_default()
    }

    /// Those of a service, by its number in the configuration.
    fn service(&mut self, settings: &Settings, number: usize) -> Option<&mut ServiceMetrics> {
        self.services.get_mut(&settings.services.get(number)?.name)
    }

    /// A connection begins.
    pub fn connected(&mut self, settings: &Settings, service: usize) {
        self.service(settings, service).into_iter().for_each(|own| own.connections += 1);
    }

    /// Something has happened on a connection of a service.
    pub fn count(&mut self, settings: &Settings, service: usize, metric: Metric) {
        match metric {
            Metric::InvalidAck => self.service(settings, service).into_iter().for_each(|own| own.invalid_ack += 1),
            Metric::Passthrough => self.service(settings, service).into_iter().for_each(|own| own.passthrough += 1),
            Metric::Request { server, connects } => {
                let own = self.server(server);
                own.requests += 1;
                own.connections += u64::from(connects);
            }
            Metric::Connected { server, time } => self.server(server).connect.note(time),
            Metric::Failed { server } => self.server(server).failed += 1,
        }
    }

    /// Connections that pass through unread, of all services.
    pub fn all_passthrough(&self) -> u64 {
        self.services.values().map(|own| own.passthrough).sum()
    }

    /// An exchange of a service is over.
    pub fn finish(&mut self, settings: &Settings, service: usize, Finished { exchange, ending, .. }: &Finished) {
        let ending = *ending;
        if let Some(own) = self.service(settings, service) {
            match exchange.status {
                Some(status) if ending == Ending::Answered => {
                    let known = ANSWERS.iter().position(|answer| *answer == status);
                    known.into_iter().for_each(|known| own.answers[known] += 1);
                }
                Some(status) => own.responses[class(status)] += 1,
                None => {}
            }
            let which = Ending::ALL.iter().position(|known| *known == ending);
            which.into_iter().for_each(|which| own.endings[which] += 1);
            own.retries += u64::from(exchange.retries);
            own.up += exchange.up.bytes;
            own.down += exchange.down.bytes;
            exchange.connect.into_iter().for_each(|time| own.connect.note(time));
            exchange.first_byte.into_iter().for_each(|time| own.first_byte.note(time));
        }
        let Some(server) = exchange.server.filter(|_| ending != Ending::Answered) else { return };
        let own = self.server(server);
        own.up += exchange.up.bytes;
        own.down += exchange.down.bytes;
        exchange.status.into_iter().for_each(|status| own.responses[class(status)] += 1);
        exchange.first_byte.into_iter().for_each(|time| own.first_byte.note(time));
    }

    /// Logs an exchange that is over, where there is a log, and tells collectors: of a client, of a service.
    pub fn log(&self, cluster: &Cluster, client: &FlowKey, service: usize, finished: &Finished) {
        if let Some(log) = &self.log {
            log.line(|format| Line::new(cluster, client, service, finished).text(format));
        }
        self.flows.put(|| flow::of(cluster, client, service, finished));
    }

    /// Everything, for queries. `current` has the connections that there are, by service.
    pub fn families(&self, cluster: &Cluster, current: &IndexMap<String, u64>, now: u64) -> Vec<Family> {
        let mut families = self.of_services(current);
        families.extend(self.of_servers(cluster, now));
        let mut lines = Family::new(Kind::Counter, "log_lines", "lines of the access log");
        if let Some((lost, written)) = self.log.as_ref().map(AccessLog::counts) {
            lines.add(&[("line", "written")], written);
            lines.add(&[("line", "lost")], lost);
        }
        families.push(lines);
        families
    }

    fn of_services(&self, current: &IndexMap<String, u64>) -> Vec<Family> {
        let family = |kind, name: &str, about: &str| Family::new(kind, &format!("service_{name}"), about);
        let mut requests = family(Kind::Counter, "requests", "requests that are over, by how they ended");
        let mut responses = family(Kind::Counter, "responses", "responses of servers by class of their status");
        let mut answers = family(Kind::Counter, "answers", "answers of Millrace's own by status");
        let mut connections = family(Kind::Counter, "connections", "connections of clients that sent a request");
        let mut now = family(Kind::Gauge, "connections_now", "connections of clients that there are");
        let mut retries = family(Kind::Counter, "retries", "servers that requests were sent to in vain");
        let mut invalid_ack =
            family(Kind::Counter, "invalid_ack", "segments dropped since they acknowledge what was not sent");
        let mut passthrough =
            family(Kind::Counter, "passthrough", "connections taken up of a process before that go on unread");
        let mut bytes = family(Kind::Counter, "bytes", "bytes of requests (up) and responses (down) that have arrived");
        let mut connect = family(Kind::Histogram, "connect_us", "time to connect to a server");
        let mut first_byte = family(Kind::Histogram, "first_byte_us", "from a request to the response's first byte");
        for (name, own) in &self.services {
            let service = ("service", name.as_str());
            let endings = Ending::ALL.iter().zip(own.endings);
            endings.for_each(|(ending, count)| requests.add(&[service, ("ended", ending.name())], count));
            let classes = CLASSES.into_iter().zip(own.responses);
            classes.for_each(|(class, count)| responses.add(&[service, ("class", class)], count));
            for (status, count) in ANSWERS.into_iter().zip(own.answers) {
                answers.add(&[service, ("status", &status.to_string())], count);
            }
            connections.add(&[service], own.connections);
            now.add(&[service], current.get(name).copied().unwrap_or(0));
            retries.add(&[service], own.retries);
            invalid_ack.add(&[service], own.invalid_ack);
            passthrough.add(&[service], own.passthrough);
            bytes.add(&[service, ("direction", "up")], own.up);
            bytes.add(&[service, ("direction", "down")], own.down);
            connect.add(&[service], &own.connect);
            first_byte.add(&[service], &own.first_byte);
        }
        vec![
            requests,
            responses,
            answers,
            connections,
            now,
            retries,
            invalid_ack,
            passthrough,
            bytes,
            connect,
            first_byte,
        ]
    }

    fn of_servers(&self, cluster: &Cluster, now: u64) -> Vec<Family> {
        let family = |kind, name: &str, about: &str| Family::new(kind, &format!("server_{name}"), about);
        let mut requests = family(Kind::Counter, "requests", "requests that servers were to get");
        let mut responses = family(Kind::Counter, "responses", "responses by class of their status");
        let mut connections = family(Kind::Counter, "connections", "connections to servers");
        let mut active = family(Kind::Gauge, "connections_now", "connections to servers that there are");
        let mut failed = family(Kind::Counter, "failed", "requests that a server did not take");
        let mut bytes = family(Kind::Counter, "bytes", "bytes of requests (up) and responses (down) that have arrived");
        let mut up = family(Kind::Gauge, "up", "1 where checks find the server working");
        let mut since = family(Kind::Gauge, "state_ms", "time since that changed");
        let mut connect = family(Kind::Histogram, "connect_us", "time to connect");
        let mut first_byte = family(Kind::Histogram, "first_byte_us", "from a request to the response's first byte");
        for (number, known) in cluster.servers.iter().enumerate().filter(|(_, known)| known.configured) {
            let own = self.of_server(number);
            let labels = [("pool", known.pool.name.as_str()), ("server", known.server.name.as_str())];
            let with = |more| [labels[0], labels[1], more];
            requests.add(&labels, own.requests);
            let classes = CLASSES.into_iter().zip(own.responses);
            classes.for_each(|(class, count)| responses.add(&with(("class", class)), count));
            connections.add(&labels, own.connections);
            active.add(&labels, u64::from(known.active));
            failed.add(&labels, own.failed);
            bytes.add(&with(("direction", "up")), own.up);
            bytes.add(&with(("direction", "down")), own.down);
            up.add(&labels, u64::from(known.up));
            since.add(&labels, now.saturating_sub(known.since) / 1_000_000);
            connect.add(&labels, &own.connect);
            first_byte.add(&labels, &own.first_byte);
        }
        vec![requests, responses, connections, active, failed, bytes, up, since, connect, first_byte]
    }
}

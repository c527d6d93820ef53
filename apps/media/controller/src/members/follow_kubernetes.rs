//! Members among the endpoints of a Kubernetes service: a list of its slices, then watches, each from the version that
//! the one before has come to. Where what followed a version is forgotten, it is listed again. As long as the API
//! server can't be reached the members are those that were known last.

use std::collections::BTreeMap;
use std::path::Path;

use hyper::Method;
use tokio::time::{Instant, sleep, sleep_until};

use super::attempts::{Attempts, PAUSES};
use super::client::{Connection, Fault};
use super::follow_etcd::COLLECTS;
use super::found::judge;
use super::kubernetes::{self, Said, Slice};
use super::report::Reporter;
use crate::pools::learnt::News;
use crate::settings::members::{Endpoint, Kubernetes};

/// Slices of one service at most: of those that are there by default each has a hundred endpoints.
const MOST_SLICES: usize = 1024;
/// Where pods find their namespace.
const NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
/// Where pods are told the API server.
const API: [&str; 2] = ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"];

/// What is known of the slices.
#[derive(Default)]
struct Known {
    slices: BTreeMap<String, Slice>,
    /// Up to where; none: they are to be listed.
    version: Option<String>,
}

impl Known {
    async fn tell(&self, reporter: &Reporter) {
        let found = kubernetes::found(&self.slices);
        let judged = judge(found.iter().map(|(name, found)| (name.as_str(), found)));
        reporter.members(judged, self.version.clone().unwrap_or_default()).await;
    }
}

/// Follows members, for ever.
pub(super) async fn run(of: Kubernetes, reporter: Reporter) {
    let (mut attempts, mut known) = (Attempts::new(), Known::default());
    loop {
        attempts.begin();
        let ended = follow(&of, &mut known, &reporter).await;
        match (ended, attempts.end()) {
            // The API server ends each watch after a while.
            (Ok(()), true) => continue,
            (Ok(()), false) => {}
            (Err(fault), _) => reporter.tell(News::Lost(fault.to_string())).await,
        }
        sleep(attempts.pause(1, PAUSES[1])).await;
    }
}

/// What a file holds in one line.
fn line_of(path: &Path) -> Result<String, Fault> {
    let text = std::fs::read_to_string(path).map_err(|error| Fault::Other(format!("{}: {error}", path.display())))?;
    Ok(text.trim().to_owned())
}

/// Where the API server is.
fn api(of: &Kubernetes) -> Result<Endpoint, Fault> {
    if let Some(own) = &of.api {
        return Ok(own.clone());
    }
    let [host, port] = API.map(|key| std::env::var(key).ok());
    let found = host.zip(port.and_then(|port| port.parse().ok()));
    let (host, port) = found.ok_or_else(|| {
        Fault::Other(format!("`api` is not said, and {} is not in the environment, as it is in a pod", API[0]))
    })?;
    Ok(Endpoint { secure: true, host, port })
}

fn said(fault: Fault) -> Fault {
    match fault {
        Fault::Status(status, text) if status != 410 => Fault::Other(kubernetes::failure(status, &text)),
        other => other,
    }
}

/// Lists, where that is needed, and watches until the watch ends.
async fn follow(of: &Kubernetes, known: &mut Known, reporter: &Reporter) -> Result<(), Fault> {
    let endpoint = api(of)?;
    let namespace = match &of.namespace {
        Some(own) => own.clone(),
        None => line_of(Path::new(NAMESPACE))?,
    };
    // It is read for each connection, as it is written anew every hour.
    let token = of.token.as_deref().map(line_of).transpose()?;
    let headers = token.into_iter().map(|token| ("Authorization", format!("Bearer {token}")));
    let mut connection = Connection::open(&endpoint, &of.tls, headers.collect()).await?;
    if known.version.is_none() {
        *known = list(&mut connection, of, &namespace).await?;
        known.tell(reporter).await;
    }
    let from = known.version.clone().unwrap_or_default();
    let path = kubernetes::watch(&namespace, &of.service, &from);
    let mut watch = match connection.watch(Method::GET, &path, String::new()).await.map_err(said) {
        Err(Fault::Status(..)) => {
            known.version = None;
            return Ok(());
        }
        other => other?,
    };
    reporter.tell(News::Connected(endpoint.to_string())).await;
    let mut due: Option<Instant> = None;
    loop {
        let line = tokio::select! {
            line = watch.next_line() => line?,
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                due = None;
                known.tell(reporter).await;
                continue;
            }
        };
        let Some(line) = line else { break };
        let version = match kubernetes::line(&line, of.port.as_ref())? {
            Said::Slice(name, Some(slice), version) => {
                if known.slices.len() < MOST_SLICES || known.slices.contains_key(&name) {
                    known.slices.insert(name, slice);
                }
                version
            }
            Said::Slice(name, None, version) => {
                known.slices.remove(&name);
                version
            }
            Said::Bookmark(version) => version,
            Said::Expired => {
                known.version = None;
                break;
            }
            Said::Ended(why) => return Err(Fault::Other(why)),
        };
        known.version = Some(version);
        due.get_or_insert_with(|| Instant::now() + COLLECTS);
    }
    if due.is_some() {
        known.tell(reporter).await;
    }
    Ok(())
}

async fn list(connection: &mut Connection, of: &Kubernetes, namespace: &str) -> Result<Known, Fault> {
    let (mut known, mut behind) = (Known::default(), None);
    loop {
        let path = kubernetes::list(namespace, &of.service, behind.as_deref());
        let page = connection.ask(Method::GET, &path, String::new()).await;
        let page = kubernetes::page(&page.map_err(said)?, of.port.as_ref())?;
        known.slices.extend(page.slices);
        known.version = Some(page.version);
        behind = page.behind;
        if behind.is_none() || known.slices.len() >= MOST_SLICES {
            return Ok(known);
        }
    }
}

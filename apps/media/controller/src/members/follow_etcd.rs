//! Members in etcd: a list of their keys, then a watch from its revision on. Whatever goes wrong, it is begun anew at
//! the next endpoint, and until then the members are those that were known last.

use std::time::Duration;

use hyper::Method;
use tokio::time::{Instant, sleep, sleep_until};

use super::attempts::{Attempts, PAUSES};
use super::client::{Connection, Fault, Watch};
use super::etcd::{self, Ask, Said};
use super::found::Kept;
use super::report::Reporter;
use crate::pools::learnt::News;
use crate::settings::members::{Endpoint, Etcd};

/// Keys that are asked for at once; fewer where the answer would be too large.
const PAGE: usize = 256;
/// Changes are collected for so long.
pub(super) const COLLECTS: Duration = Duration::from_millis(50);

/// A request with its answer; what etcd says is wrong is said in its words.
pub(super) async fn ask(connection: &mut Connection, ask: Ask) -> Result<Vec<u8>, Fault> {
    connection.ask(Method::POST, ask.path, ask.body).await.map_err(said)
}

fn said(fault: Fault) -> Fault {
    match fault {
        Fault::Status(status, text) => Fault::Other(etcd::failure(status, &text)),
        other => other,
    }
}

/// A connection to an endpoint. Who is asked must know a leader: one that is cut off from the others would be silent.
pub(super) async fn open(endpoint: &Endpoint, of: &Etcd) -> Result<Connection, Fault> {
    let mut connection =
        Connection::open(endpoint, &of.tls, vec![("Grpc-Metadata-hasleader", "true".to_owned())]).await?;
    // Each connection has a token of its own: one that etcd knows no more ends with its connection.
    if let Some(own) = &of.credentials {
        let token = etcd::token(&ask(&mut connection, etcd::authenticate(own)).await?)?;
        connection.add_header("Authorization", token);
    }
    Ok(connection)
}

/// Follows members, for ever.
pub(super) async fn run(of: Etcd, reporter: Reporter) {
    let (mut at, mut attempts) = (0, Attempts::new());
    loop {
        let endpoint = &of.endpoints[at % of.endpoints.len()];
        attempts.begin();
        let Err(fault) = follow(endpoint, &of, &reporter).await else {
            // It is listed again where it was.
            sleep(PAUSES[0]).await;
            continue;
        };
        reporter.tell(News::Lost(fault.to_string())).await;
        attempts.end();
        sleep(attempts.pause(of.endpoints.len(), PAUSES[1])).await;
        at += 1;
    }
}

/// Lists and watches at an endpoint, until it is to be listed again there.
///
/// # Errors
/// The endpoint has failed.
async fn follow(endpoint: &Endpoint, of: &Etcd, reporter: &Reporter) -> Result<(), Fault> {
    let (connection, mut kept, mut revision) = list(endpoint, of).await?;
    reporter.tell(News::Connected(endpoint.to_string())).await;
    reporter.members(kept.judge(), revision.to_string()).await;
    let asked = etcd::watch(&of.prefix, revision + 1);
    let mut watch = connection.watch(Method::POST, asked.path, asked.body).await.map_err(said)?;
    let mut due: Option<Instant> = None;
    loop {
        let said = tokio::select! {
            said = next(&mut watch, &of.prefix) => said?,
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                due = None;
                reporter.members(kept.judge(), revision.to_string()).await;
                continue;
            }
        };
        let changes = match said {
            Some(Said::Changes(to, changes)) => {
                revision = revision.max(to);
                changes
            }
            Some(Said::Ended(why)) => return Err(Fault::Other(why)),
            Some(Said::Compacted) | None => return Ok(()),
        };
        let mut lacks = false;
        for change in changes {
            match change.found {
                Some(found) => kept.set(&change.name, found),
                None => lacks |= kept.remove(&change.name),
            }
        }
        if lacks {
            return Ok(());
        }
        due.get_or_insert_with(|| Instant::now() + COLLECTS);
    }
}

/// What a watch says next; none: a line that is too long, of which nothing is known.
async fn next(watch: &mut Watch, prefix: &str) -> Result<Option<Said>, Fault> {
    match watch.next_line().await {
        Ok(Some(line)) => Ok(Some(etcd::line(&line, prefix)?)),
        Ok(None) => Err(Fault::Other("the watch has ended".to_owned())),
        Err(Fault::TooLarge) => Ok(None),
        Err(fault) => Err(fault),
    }
}

/// All keys of the prefix, as far as they are kept, and their revision.
async fn list(endpoint: &Endpoint, of: &Etcd) -> Result<(Connection, Kept, i64), Fault> {
    let mut connection = open(endpoint, of).await?;
    let (mut kept, mut from, mut revision) = (Kept::default(), of.prefix.as_bytes().to_vec(), 0);
    let mut limit = PAGE;
    loop {
        let page = match ask(&mut connection, etcd::range(&of.prefix, &from, limit, revision)).await {
            Ok(text) => etcd::page(&text)?,
            Err(Fault::TooLarge) if limit > 1 => {
                limit /= 4;
                // The rest of the answer is in the way.
                connection = open(endpoint, of).await?;
                continue;
            }
            Err(fault) => return Err(fault),
        };
        revision = if revision == 0 { page.revision } else { revision };
        for entry in &page.entries {
            let (name, found) = entry.member(&of.prefix);
            kept.set(&name, found);
        }
        match page.entries.last() {
            Some(last) if page.more && kept.has_room() => from = [&last.key[..], &[0]].concat(),
            _ => return Ok((connection, kept, revision)),
        }
        limit = PAGE;
    }
}

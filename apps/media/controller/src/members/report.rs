//! What the proxy is told of members.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::found::Judged;
use crate::pools::learnt::News;
use crate::settings::members::Source;

/// What waits for the proxy at most; who has more to tell waits, too.
const MOST: usize = 16;

/// Something of a pool.
#[derive(Clone, Debug)]
pub struct Report {
    /// The pool.
    pub pool: String,
    /// Who knows its members.
    pub source: Arc<Source>,
    /// What there is to tell.
    pub news: News,
}

/// Where reports go, and where they come from.
pub fn channel() -> (mpsc::Sender<Report>, mpsc::Receiver<Report>) {
    mpsc::channel(MOST)
}

/// Tells the proxy of a pool.
#[derive(Clone, Debug)]
pub(super) struct Reporter {
    pub(super) pool: String,
    pub(super) source: Arc<Source>,
    pub(super) reports: mpsc::Sender<Report>,
}

impl Reporter {
    /// Tells something. Where the proxy is gone nobody wants to know.
    pub(super) async fn tell(&self, news: News) {
        let report = Report { pool: self.pool.clone(), source: self.source.clone(), news };
        let _ = self.reports.send(report).await;
    }

    /// Tells who the members are, as of a revision.
    pub(super) async fn members(&self, judged: Judged, revision: String) {
        let left_out = judged.left_out.into_iter().map(|(key, why)| (key, why.name())).collect();
        self.tell(News::Members { servers: judged.servers, left_out, revision }).await;
    }
}

//! What the thread that serves viewers by HTTP asks of the proxy, which is another thread's.

use std::net::IpAddr;

use tokio::sync::{mpsc, oneshot};

use crate::log::http_line::HttpLine;
use crate::proxy::http::{Asked, Verdict};
use crate::sockets::shared::Shared;

/// Questions, and lines of the log, that wait at most.
const MOST: usize = 4096;

/// A question, or a line of the access log.
#[derive(Debug)]
pub enum Ask {
    /// Whether a client may have something.
    Admit(IpAddr, Asked, oneshot::Sender<Verdict>),
    /// A request is over.
    Line(Box<HttpLine>),
}

/// Where the proxy is asked.
#[derive(Clone, Debug)]
pub struct Asks(mpsc::Sender<Ask>);

impl Asks {
    /// Whether a client may have something; none where the proxy is gone.
    pub async fn admit(&self, address: IpAddr, asked: Asked) -> Option<Verdict> {
        let (sender, answer) = oneshot::channel();
        self.0.send(Ask::Admit(address, asked, sender)).await.ok()?;
        answer.await.ok()
    }

    /// A line of the access log. It never waits; where too many do, it is lost.
    pub fn line(&self, line: HttpLine) {
        let _ = self.0.try_send(Ask::Line(Box::new(line)));
    }
}

/// Answers questions, from a task of the proxy's own thread, as long as anybody may ask.
pub fn answer(shared: Shared) -> Asks {
    let (sender, mut asks) = mpsc::channel(MOST);
    tokio::spawn(async move {
        while let Some(ask) = asks.recv().await {
            match ask {
                Ask::Admit(address, asked, sender) => {
                    let _ = sender.send(shared.event(|proxy| proxy.admit_http(address, &asked)));
                }
                Ask::Line(line) => shared.log(|format| line.text(format)),
            }
        }
    });
    Asks(sender)
}

//! A thread that asks an instance again and again, so that keys are answered while the instance is not. Where the
//! instance ends it connects again.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use control::socket::{Client, ClientError};

use crate::look::{Detail, Look, Watched};
use crate::views::View;

/// Between attempts to connect.
const AGAIN: Duration = Duration::from_secs(1);

/// What is to be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The view that is shown.
    pub view: View,
    /// Between two looks; none: no further one.
    pub every: Option<Duration>,
}

/// What the instance said.
#[derive(Debug)]
pub enum Said {
    /// A look at all.
    Look(Box<Look>),
    /// What the view needs beside it.
    Detail(Detail),
    /// There is no instance, and why.
    Gone(String),
}

/// The thread, as its user sees it. It ends when this is dropped.
pub struct Asker {
    wanted: Sender<Wanted>,
    said: Receiver<Said>,
}

impl Asker {
    /// Starts to ask an instance; `connect` is called whenever there is no connection.
    pub fn start(
        connect: impl Fn() -> Result<Client, ClientError> + Send + 'static,
        first: Wanted,
    ) -> std::io::Result<Asker> {
        let (wanted, to_do) = channel();
        let (out, said) = channel();
        let asking = Asking { connect, watched: None, wanted: first, out };
        thread::Builder::new().name("asker".into()).spawn(move || asking.run(&to_do))?;
        Ok(Asker { wanted, said })
    }

    /// Something else is to be asked from now on.
    pub fn want(&self, wanted: Wanted) {
        // Where the thread is gone, `said` tells.
        let _ = self.wanted.send(wanted);
    }

    /// What was said since.
    pub fn said(&self) -> Result<Vec<Said>, &'static str> {
        let mut all = Vec::new();
        loop {
            match self.said.try_recv() {
                Ok(said) => all.push(said),
                Err(std::sync::mpsc::TryRecvError::Empty) => return Ok(all),
                Err(std::sync::mpsc::TryRecvError::Disconnected) => return Err("the thread that asks has ended"),
            }
        }
    }
}

struct Asking<C> {
    connect: C,
    watched: Option<Watched>,
    wanted: Wanted,
    out: Sender<Said>,
}

impl<C: Fn() -> Result<Client, ClientError>> Asking<C> {
    /// Until nobody wants anything more.
    fn run(mut self, to_do: &Receiver<Wanted>) {
        // When the next look is due, as long as there is to be one.
        let mut last = Instant::now();
        if !self.say(|own| own.look()) {
            return;
        }
        loop {
            let pause = if self.watched.is_none() { Some(AGAIN) } else { self.wanted.every };
            let left = pause.map(|pause| (last + pause).saturating_duration_since(Instant::now()));
            let next = match left {
                Some(left) => to_do.recv_timeout(left),
                None => to_do.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            let alive = match next {
                Ok(wanted) => {
                    let is_other = wanted.view != self.wanted.view;
                    self.wanted = wanted;
                    !is_other || self.watched.is_none() || self.say(|own| Ok(own.detail()?.into_iter().collect()))
                }
                Err(RecvTimeoutError::Timeout) => {
                    last = Instant::now();
                    self.say(|own| own.look())
                }
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if !alive {
                return;
            }
        }
    }

    /// Says what was found, or that there is no instance. Whether anybody listens.
    fn say(&mut self, ask: impl FnOnce(&mut Self) -> Result<Vec<Said>, ClientError>) -> bool {
        let said = ask(self).unwrap_or_else(|error| {
            self.watched = None;
            vec![Said::Gone(error.to_string())]
        });
        said.into_iter().all(|said| self.out.send(said).is_ok())
    }

    fn look(&mut self) -> Result<Vec<Said>, ClientError> {
        let watched = match &mut self.watched {
            Some(watched) => watched,
            none => none.insert(Watched::new((self.connect)()?)),
        };
        let look = Said::Look(Box::new(watched.look()?));
        Ok([look].into_iter().chain(self.detail()?).collect())
    }

    fn detail(&mut self) -> Result<Option<Said>, ClientError> {
        let Some(watched) = &mut self.watched else { return Ok(None) };
        let detail = match &self.wanted.view {
            View::Tables => watched.tables()?,
            View::Topic(topic) => watched.answer(topic)?,
            _ => return Ok(None),
        };
        Ok(Some(Said::Detail(detail)))
    }
}

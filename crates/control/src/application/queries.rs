//! Questions and commands on their way to a running controller: what it offers besides its packets, by name.
//!
//! An application says which queries its controller offers ([`Offer`]), and looks from time to time whether a client
//! asks ([`Queries::answer`]), on its own thread: so it needs no lock for what it knows. Arguments and answers are
//! JSON.

use std::sync::{Arc, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use dataplane::controller::Waker;
use dataplane::rendezvous::{Rendezvous, Unanswered};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::messages::{did_you_mean, list};

/// The query that answers with what a controller has counted, where it is offered: a list of
/// [`Family`](super::metrics::Family). With `"sessions": false` it leaves out what belongs to one session.
pub const METRICS: &str = "metrics";

/// How long a query waits for the controller.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long one that has not much time waits before it asks again, where the controller answers another query.
const PAUSE: Duration = Duration::from_millis(1);

/// A query that a controller offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Its name.
    pub name: &'static str,
    /// What it answers or does, in a line.
    pub about: &'static str,
    /// Whether it changes anything, so that its sender is logged.
    pub changes: bool,
}

/// Why a query was not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// No controller of this name, or no such query.
    #[error("{0}")]
    Unknown(String),
    /// Its arguments can't be read.
    #[error("{0}")]
    Bad(String),
    /// What it asks for is not there.
    #[error("{0}")]
    NotFound(String),
    /// The controller has ended, or does not get round to it.
    #[error("controller {0} does not answer")]
    Silent(String),
}

/// An answer, as JSON.
pub type Answer = Result<Json, QueryError>;

/// One controller's; clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Queries(Rendezvous<(String, Json), Answer>);

impl Queries {
    /// Asks, and waits for the answer. None: there is none in time.
    pub fn ask(&self, name: &str, with: Json) -> Option<Answer> {
        self.0.ask((name.to_owned(), with), PATIENCE).ok()
    }

    /// As [`Queries::ask`], but until then at most, also where other queries come first.
    pub fn ask_until(&self, name: &str, with: &Json, end: Instant) -> Option<Answer> {
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.0.try_ask((name.to_owned(), with.clone()), left) {
                Err(Unanswered::Busy) if left > PAUSE => thread::sleep(PAUSE),
                answer => return answer.ok(),
            }
        }
    }

    /// The controller's side: from now on it is woken at each query, by its link: [`Queries::answer`] finds it
    /// then.
    pub fn wakes(&self, waker: Waker) {
        self.0.wakes(move || waker.wake());
    }

    /// The controller's side: answers, if there is a query. `answer` gets the query's name and its arguments.
    pub fn answer(&self, answer: impl FnOnce(&str, &Json) -> Answer) {
        let Some(((name, with), reply)) = self.0.take() else { return };
        reply.answer(answer(&name, &with));
    }
}

/// A controller that can be asked.
#[derive(Clone, Debug)]
pub struct QueryTarget {
    /// Its name.
    pub name: &'static str,
    /// What it offers.
    pub offers: &'static [Offer],
    /// Its queue of queries.
    pub queries: Queries,
}

/// The controllers of the program that runs that can be asked; clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Registry(Arc<RwLock<Vec<QueryTarget>>>);

/// A query and its controller, for lists of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Offered {
    /// The controller.
    pub controller: String,
    /// The query.
    pub query: String,
    /// What it answers or does.
    pub about: String,
    /// Whether it changes anything. An instance that does not say so is not asked by mistake.
    #[serde(default = "yes")]
    pub changes: bool,
}

fn yes() -> bool {
    true
}

impl Registry {
    /// Of these.
    pub fn new(all: Vec<QueryTarget>) -> Registry {
        Registry(Arc::new(RwLock::new(all)))
    }

    /// Another program runs, with these. Those that ran before and are `kept` are asked as before.
    pub fn replace(&self, all: Vec<QueryTarget>, kept: impl Fn(&str) -> bool) {
        let mut now = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let old = |new: &QueryTarget| now.iter().find(|old| old.name == new.name && kept(new.name)).cloned();
        *now = all.into_iter().map(|new| old(&new).unwrap_or(new)).collect();
    }

    /// All queries.
    pub fn offered(&self) -> Vec<Offered> {
        let offered = |query_targets: &QueryTarget, offer: &Offer| Offered {
            controller: query_targets.name.into(),
            query: offer.name.into(),
            about: offer.about.into(),
            changes: offer.changes,
        };
        self.all()
            .iter()
            .flat_map(|query_targets| query_targets.offers.iter().map(|offer| offered(query_targets, offer)))
            .collect()
    }

    /// The controllers.
    pub fn all(&self) -> Vec<QueryTarget> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The offer of a query of a controller, and its queue.
    pub fn find(&self, controller: &str, query: &str) -> Result<(Offer, Queries), QueryError> {
        let all = self.all();
        let names = || all.iter().map(|query_targets| query_targets.name);
        let Some(query_targets) = all.iter().find(|query_targets| query_targets.name == controller) else {
            let hint = did_you_mean(controller, names());
            let known = if all.is_empty() { "none".to_owned() } else { list(names()) };
            return Err(QueryError::Unknown(format!(
                "the program has no controller {controller:?} that can be asked{hint}; there is {known}"
            )));
        };
        let names = || query_targets.offers.iter().map(|offer| offer.name);
        let Some(offer) = query_targets.offers.iter().find(|offer| offer.name == query) else {
            let hint = did_you_mean(query, names());
            return Err(QueryError::Unknown(format!(
                "controller {controller} has no query {query:?}{hint}; accepted: {}",
                list(names())
            )));
        };
        Ok((*offer, query_targets.queries.clone()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use serde_json::json;

    use super::*;

    const OFFERS: &[Offer] = &[Offer { name: "double", about: "twice the number", changes: false }];

    #[test]
    fn each_who_asks_gets_the_own_answer() {
        let (queries, stop) = (Queries::default(), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    queries.answer(|name, with| match with.as_u64() {
                        Some(number) => Ok(json!({ name: number * 2 })),
                        None => Err(QueryError::Bad("no number".into())),
                    });
                    thread::yield_now();
                }
            });
            let ask = |number: u64| {
                let queries = &queries;
                scope.spawn(move || {
                    for round in 0..50 {
                        let own = number * 1000 + round;
                        assert_eq!(queries.ask("double", json!(own)), Some(Ok(json!({ "double": own * 2 }))));
                    }
                })
            };
            let all: Vec<_> = (0..4).map(ask).collect();
            let failed = all.into_iter().filter_map(|thread| thread.join().err()).count();
            assert_eq!(queries.ask("x", json!("y")), Some(Err(QueryError::Bad("no number".into()))));
            stop.store(true, Ordering::Relaxed);
            assert_eq!(failed, 0);
        });
    }

    #[test]
    fn what_is_not_offered_is_named_with_what_is() {
        let registry = Registry::default();
        let message =
            |registry: &Registry, controller, query| registry.find(controller, query).unwrap_err().to_string();
        assert_eq!(
            message(&registry, "toy", "double"),
            "the program has no controller \"toy\" that can be asked; there is none"
        );
        registry.replace(vec![QueryTarget { name: "toy", offers: OFFERS, queries: Queries::default() }], |_| true);
        assert_eq!(
            message(&registry, "tay", "double"),
            "the program has no controller \"tay\" that can be asked; did you mean `toy`?; there is toy"
        );
        assert_eq!(
            message(&registry, "toy", "duble"),
            "controller toy has no query \"duble\"; did you mean `double`?; accepted: double"
        );
        assert_eq!((&*registry.offered()[0].about, registry.offered()[0].changes), ("twice the number", false));
    }

    #[test]
    fn who_stays_is_asked_as_before() {
        let new = || QueryTarget { name: "toy", offers: OFFERS, queries: Queries::default() };
        let first = new();
        let registry = Registry::new(vec![first.clone()]);
        let same = || registry.find("toy", "double").unwrap().1.0.is_same(&first.queries.0);
        registry.replace(vec![new()], |_| true);
        assert!(same());
        registry.replace(vec![new()], |_| false);
        assert!(!same());
    }
}

//! What there is to see each second: one look at the instance for all viewers.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use control::socket::{Code, Counters, Refusal, Service, Status};
use endpoint::Lasts;
use futures_util::stream;
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, watch};
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};
use utoipa::ToSchema;

use crate::answer::refused;
use crate::history::{History, INTERVAL};

/// Time between two looks.
const ROUND: Duration = Duration::from_secs(1);
/// Viewers at a time.
const VIEWERS: usize = 12;
/// How long one views at a time. A client connects again then, as it does when its connection is lost.
const VIEW: Duration = Duration::from_secs(600);

/// What a viewer gets each second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Look {
    /// When, in milliseconds since 1970.
    pub time_ms: u64,
    /// What runs.
    pub status: Status,
    /// What was counted.
    pub counters: Counters,
}

/// The last look, for who waits for the next one, and what was counted before.
pub struct Live {
    sender: watch::Sender<Option<Arc<str>>>,
    viewers: Arc<Semaphore>,
    history: Mutex<History>,
}

impl Live {
    pub fn new() -> Live {
        let viewers = Arc::new(Semaphore::new(VIEWERS));
        Live { sender: watch::Sender::new(None), viewers, history: Mutex::default() }
    }

    /// What was counted in the last hour.
    pub fn history(&self) -> History {
        self.history.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Looks at the instance each second, for as long as there is one.
    pub async fn look(self: Arc<Self>, service: Weak<Service>) {
        let mut ticks = interval(ROUND);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for round in 0u64.. {
            ticks.tick().await;
            let Some(service) = service.upgrade() else { return };
            let own = self.clone();
            let is_sample = round.is_multiple_of(INTERVAL.as_secs() / ROUND.as_secs());
            let looked = spawn_blocking(move || own.once(&service, is_sample));
            if let Err(error) = looked.await {
                tracing::error!("the instance can't be looked at: {error}");
            }
        }
    }

    fn once(&self, service: &Service, is_sample: bool) {
        let overview = service.overview();
        let look = Look { time_ms: now_ms(), status: overview.status(), counters: overview.counters() };
        if is_sample {
            self.history.lock().unwrap_or_else(PoisonError::into_inner).add(look.time_ms, &look.counters);
        }
        // Plain data with text as keys, so this can't fail.
        let text = serde_json::to_string(&look).expect("a look is JSON");
        self.sender.send_replace(Some(text.into()));
    }

    /// Looks as events, the last one first.
    pub fn view(&self) -> Response {
        let Ok(place) = self.viewers.clone().try_acquire_owned() else {
            let message = format!("there are {VIEWERS} viewers already");
            return refused(Refusal { code: Code::Busy, message });
        };
        let mut looks = self.sender.subscribe();
        if looks.borrow().is_some() {
            looks.mark_changed();
        }
        let events = stream::unfold((looks, place), |(mut looks, place)| async move {
            looks.changed().await.ok()?;
            let look = looks.borrow_and_update().clone()?;
            let event = Event::default().event("look").data(&*look);
            Some((Ok::<_, std::convert::Infallible>(event), (looks, place)))
        });
        let mut response = Sse::new(events).keep_alive(KeepAlive::default()).into_response();
        response.extensions_mut().insert(Lasts(VIEW));
        response
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

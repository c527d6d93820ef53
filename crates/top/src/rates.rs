//! Rates: differences of counters over the time between two looks.

use cli::report::per_second;
use control::socket::{ControllerState, Counters, Times};

use crate::look::Look;

/// The time between two looks at one process.
#[derive(Clone, Copy)]
pub struct Span<'l> {
    /// The later look.
    pub now: &'l Look,
    /// The earlier one, where there is one of the same process.
    before: Option<&'l Look>,
}

impl<'l> Span<'l> {
    /// Between these. An instance that was started again meanwhile has no rates yet.
    pub fn new(now: &'l Look, before: Option<&'l Look>) -> Self {
        Span { now, before: before.filter(|before| is_same_process(before, now) && before.at < now.at) }
    }

    /// How often per second something was counted, or in another unit of it. A counter that was not there yet, or was
    /// higher, has begun anew since.
    pub fn rate(&self, count: impl Fn(&Counters) -> Option<u64>) -> Option<f64> {
        self.since(|look| count(&look.counters))
    }

    /// The same for what the status has of a controller.
    pub fn wakes(&self, controller: &str) -> Option<f64> {
        self.since(|look| look.status.controllers.get(controller).map(|own| own.wakes))
    }

    /// Times of a controller between the looks.
    pub fn times(&self, controller: &str, own: fn(&ControllerState) -> &Times) -> Option<Times> {
        let of = |look: &'l Look| look.status.controllers.get(controller).map(own);
        let before = of(self.before?);
        of(self.now).map(|now| before.map_or_else(|| now.clone(), |before| now.since(before)))
    }

    fn since(&self, count: impl Fn(&Look) -> Option<u64>) -> Option<f64> {
        let before = self.before?;
        let seconds = (self.now.at - before.at).as_secs_f64();
        Some(per_second(count(self.now)?, count(before).unwrap_or(0), seconds))
    }
}

/// Whether two looks are at one process, which was not started again between them. Process ids come again, so the time
/// since the start counts, too.
pub fn is_same_process(before: &Look, now: &Look) -> bool {
    before.status.pid == now.status.pid && before.status.uptime_ms <= now.status.uptime_ms
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn look(at: Instant, pid: u32, uptime_ms: u64, packets: Option<u64>) -> Look {
        let mut counters = Counters::default();
        counters.ppfs.extend(packets.map(|packets| ("a.b".to_owned(), packets)));
        let mut status = control::socket::Status { pid, uptime_ms, ..Default::default() };
        let own = control::socket::ControllerState { wakes: packets.unwrap_or(0), ..Default::default() };
        status.controllers.insert("c".into(), own);
        Look { at, status, counters, topics: Vec::new() }
    }

    fn rates(before: &Look, now: &Look) -> [Option<f64>; 2] {
        let span = Span::new(now, Some(before));
        [span.rate(|counters| counters.ppfs.get("a.b").copied()), span.wakes("c")]
    }

    #[test]
    fn rates_are_of_the_time_that_was_measured() {
        let start = Instant::now();
        let later = start + Duration::from_millis(2500);
        let (before, now) = (look(start, 7, 1000, Some(100)), look(later, 7, 3500, Some(600)));
        assert_eq!(rates(&before, &now), [Some(200.0); 2]);
        assert_eq!(rates(&now, &now), [None; 2], "no time has passed");
        assert_eq!(Span::new(&now, None).rate(|_| Some(1)), None);
        assert_eq!(Span::new(&now, Some(&before)).rate(|_| None), None, "nothing is counted under this name");
    }

    #[test]
    fn counters_begin_anew() {
        let start = Instant::now();
        let later = start + Duration::from_secs(2);
        // By a reload: lower, or not there before.
        let now = look(later, 7, 3000, Some(60));
        assert_eq!(rates(&look(start, 7, 1000, Some(100)), &now), [Some(30.0); 2]);
        assert_eq!(rates(&look(start, 7, 1000, None), &now), [Some(30.0); 2]);
        // By another process, perhaps of the same number.
        assert_eq!(rates(&look(start, 6, 1000, Some(10)), &now), [None; 2]);
        assert_eq!(rates(&look(start, 7, 4000, Some(10)), &now), [None; 2]);
    }
}

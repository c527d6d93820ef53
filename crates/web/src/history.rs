//! What was counted in the last hour: a sample now and then, the oldest one forgotten.

use std::collections::VecDeque;
use std::time::Duration;

use control::socket::Counters;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Time between samples.
pub const INTERVAL: Duration = Duration::from_secs(10);
/// Samples that are kept.
const SAMPLES: usize = 360;
/// Ports, and reasons for drops, that are kept.
const SERIES: usize = 256;

/// Values by sample; none where it was not known then.
type Values = VecDeque<Option<u64>>;

/// What was counted by each sample, from the start of the instance on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct History {
    /// When the samples were taken, the oldest first, in milliseconds since 1970.
    #[schema(value_type = Vec<u64>)]
    pub times_ms: VecDeque<u64>,
    /// Of ports.
    pub ports: IndexMap<String, PortHistory>,
    /// Packets dropped, by reason, where there are any.
    #[schema(value_type = IndexMap<String, Vec<Option<u64>>>)]
    pub drops: IndexMap<String, Values>,
}

/// Of a port, by sample; null where it was not there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PortHistory {
    /// Packets received.
    #[schema(value_type = Vec<Option<u64>>)]
    pub rx_packets: Values,
    /// Bytes received.
    #[schema(value_type = Vec<Option<u64>>)]
    pub rx_bytes: Values,
    /// Packets sent.
    #[schema(value_type = Vec<Option<u64>>)]
    pub tx_packets: Values,
    /// Bytes sent.
    #[schema(value_type = Vec<Option<u64>>)]
    pub tx_bytes: Values,
}

impl PortHistory {
    fn all(&mut self) -> [&mut Values; 4] {
        [&mut self.rx_packets, &mut self.rx_bytes, &mut self.tx_packets, &mut self.tx_bytes]
    }
}

impl History {
    /// Adds a sample, taken at this time.
    pub fn add(&mut self, time_ms: u64, counters: &Counters) {
        let before = self.times_ms.len();
        self.times_ms.push_back(time_ms);
        for (name, port) in &counters.ports {
            let known = self.ports.len();
            let Some(own) = entry(&mut self.ports, name, known) else { continue };
            let now = [port.rx_packets, port.rx_bytes, port.tx_packets, port.tx_bytes];
            own.all().into_iter().zip(now).for_each(|(values, now)| put(values, before, now));
        }
        for (reason, &count) in counters.drops.iter().filter(|(_, count)| **count > 0) {
            let known = self.drops.len();
            if let Some(values) = entry(&mut self.drops, reason, known) {
                put(values, before, count);
            }
        }
        let is_over = self.times_ms.len() > SAMPLES;
        let length = self.times_ms.len();
        let ports = self.ports.values_mut().flat_map(|own| own.all());
        for values in ports.chain(self.drops.values_mut()) {
            values.resize(length, None);
            if is_over {
                values.pop_front();
            }
        }
        if is_over {
            self.times_ms.pop_front();
        }
        // Of what is gone for an hour nothing is left.
        let is_known = |values: &Values| values.iter().any(Option::is_some);
        self.ports.retain(|_, own| is_known(&own.rx_packets));
        self.drops.retain(|_, values| is_known(values));
    }
}

/// The series of this name, where there is room for it.
fn entry<'m, T: Default>(all: &'m mut IndexMap<String, T>, name: &str, known: usize) -> Option<&'m mut T> {
    if known >= SERIES && !all.contains_key(name) {
        return None;
    }
    Some(all.entry(name.to_owned()).or_default())
}

/// The value of a sample that has so many before it.
fn put(values: &mut Values, before: usize, now: u64) {
    values.resize(before, None);
    values.push_back(Some(now));
}

#[cfg(test)]
mod tests {
    use control::socket::PortState;

    use super::*;

    fn counters(port: &str, packets: u64, drops: &[(&str, u64)]) -> Counters {
        let mut counters = Counters::default();
        counters.ports.insert(port.into(), PortState { rx_packets: packets, ..PortState::default() });
        counters.drops.extend(drops.iter().map(|(reason, count)| ((*reason).to_owned(), *count)));
        counters
    }

    #[test]
    fn an_hour_is_kept_and_no_more() {
        let mut history = History::default();
        for sample in 0..1000 {
            history.add(sample, &counters("a", sample, &[]));
        }
        assert_eq!(history.times_ms, (640..1000).collect::<Vec<_>>());
        assert_eq!(history.ports["a"].rx_packets, (640..1000).map(Some).collect::<Vec<_>>());
        assert_eq!(history.ports["a"].tx_bytes.len(), 360);
    }

    #[test]
    fn what_comes_and_goes_has_gaps() {
        let mut history = History::default();
        history.add(0, &counters("a", 1, &[("zero", 0)]));
        history.add(1, &counters("b", 2, &[("late", 5)]));
        assert_eq!(history.ports["a"].rx_packets, [Some(1), None]);
        assert_eq!(history.ports["b"].rx_packets, [None, Some(2)]);
        assert_eq!(history.drops.keys().collect::<Vec<_>>(), ["late"]);
        (0..400).for_each(|sample| history.add(sample, &counters("b", 3, &[])));
        assert!(!history.ports.contains_key("a") && history.drops.is_empty());
        for name in 0..1000 {
            history.add(0, &counters(&format!("p{name}"), 1, &[]));
        }
        assert!(history.ports.len() <= SERIES);
    }
}

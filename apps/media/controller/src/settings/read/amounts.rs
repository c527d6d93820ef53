//! Reads times and rates.

use std::time::Duration;

use baker::syntax::duration;

use super::*;

/// Reads a time of a table, from a second to a day.
pub fn time(table: &Table, path: &Path, key: &str, default: Duration, errors: &mut Errors) -> Duration {
    let Some(value) = table.get(key) else { return default };
    let accepted = "a time from \"1s\" to \"24h\", such as \"60s\"";
    let time = |text: &str| duration(text).map(Duration::from_nanos);
    let found = document::parsed(value, &path.key(key), accepted, errors, |text| {
        time(text).filter(|time| (1..=24 * 3600).contains(&time.as_secs()))
    });
    found.unwrap_or(default)
}

/// The same where `"0s"` means that there is none.
pub fn time_or_none(table: &Table, path: &Path, key: &str, default: Duration, errors: &mut Errors) -> Duration {
    let none = |value: &Value| value.get_ref().as_str().is_some_and(|text| duration(text) == Some(0));
    if table.get(key).is_some_and(none) { Duration::ZERO } else { time(table, path, key, default, errors) }
}

impl Reader<'_, '_> {
    pub(super) fn time(&mut self, table: &Table, path: &Path, key: &str, default: Duration) -> Duration {
        time(table, path, key, default, self.errors)
    }

    pub(super) fn time_or_none(&mut self, table: &Table, path: &Path, key: &str, default: Duration) -> Duration {
        time_or_none(table, path, key, default, self.errors)
    }

    /// A rate in bits per second, if there is one.
    pub(super) fn rate(&mut self, table: &Table, path: &Path, key: &str) -> Option<u64> {
        rate(table, path, key, self.errors)
    }
}

/// Reads a rate of a table in bits per second, if there is one.
pub fn rate(table: &Table, path: &Path, key: &str, errors: &mut Errors) -> Option<u64> {
    let accepted = "a rate from \"1 kbit/s\" to \"1000 Gbit/s\", such as \"100 Mbit/s\"";
    document::parsed(table.get(key)?, &path.key(key), accepted, errors, |text| {
        let units = [("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3), ("bit/s", 1.0)];
        let (number, unit) =
            units.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?.trim_end(), *unit)))?;
        let plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let rate = number.parse::<f64>().ok().filter(|_| plain)? * unit;
        (1e3..=1e12).contains(&rate).then_some(rate as u64)
    })
}

//! Times, rates and shares as a lab's file has them.

use std::time::Duration;

use control::document::{Errors, Path, Value, string, wrong_kind};
use toml::de::DeValue;

const TIME: &str = "a time such as \"20 ms\", with s, ms or us";
const RATE: &str = "a rate such as \"100 Mbit/s\", with bit/s, kbit/s, Mbit/s or Gbit/s";

/// `"20 ms"`, up to `most`.
pub fn time(value: &Value, path: &Path, most: Duration, errors: &mut Errors) -> Option<Duration> {
    let accepted = format!("{TIME}; at most {most:?}");
    let seconds = number(value, path, &[("us", 1e-6), ("ms", 1e-3), ("s", 1.0)], &accepted, errors)?;
    in_range(value, path, seconds, 0.0, most.as_secs_f64(), &accepted, errors).map(Duration::from_secs_f64)
}

/// `"100 Mbit/s"`, in bit/s.
pub fn rate(value: &Value, path: &Path, errors: &mut Errors) -> Option<u64> {
    let units = [("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3), ("bit/s", 1.0)];
    let accepted = format!("{RATE}; from 1 kbit/s to 1000 Gbit/s");
    let rate = number(value, path, &units, &accepted, errors)?;
    let (least, most) = (lab::MIN_RATE as f64, lab::MAX_RATE as f64);
    in_range(value, path, rate, least, most, &accepted, errors).map(|rate| rate as u64)
}

/// A probability: 0 to 1, or a percentage as text.
pub fn share(value: &Value, path: &Path, errors: &mut Errors) -> Option<f64> {
    const ACCEPTED: &str = "a share from 0 to 1, such as 0.01, or \"1 %\"";
    let share = match value.get_ref() {
        DeValue::Float(float) => float.as_str().replace('_', "").parse().ok(),
        DeValue::Integer(integer) => integer.as_str().parse().ok(),
        DeValue::String(_) => Some(number(value, path, &[("%", 0.01)], ACCEPTED, errors)?),
        _ => {
            wrong_kind(value, path, ACCEPTED, errors);
            return None;
        }
    };
    in_range(value, path, share.unwrap_or(f64::NAN), 0.0, 1.0, ACCEPTED, errors)
}

/// A number with one of these units, times what the unit is.
fn number(value: &Value, path: &Path, units: &[(&str, f64)], accepted: &str, errors: &mut Errors) -> Option<f64> {
    let text = string(value, path, accepted, errors)?;
    let with = |(unit, factor): &(&str, f64)| {
        let number = text.trim().strip_suffix(unit)?.trim_end();
        // Digits only: "inf" and "1e9" are numbers for Rust, too.
        let plain = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        number.parse::<f64>().ok().filter(|_| plain).map(|number| number * factor)
    };
    let found = units.iter().find_map(with);
    if found.is_none() {
        errors.add(value.span().start, path, format!("{text:?} cannot be read"), accepted);
    }
    found
}

fn in_range(
    value: &Value,
    path: &Path,
    number: f64,
    least: f64,
    most: f64,
    accepted: &str,
    errors: &mut Errors,
) -> Option<f64> {
    let inside = (least..=most).contains(&number);
    if !inside {
        errors.add(value.span().start, path, "this is out of range", accepted);
    }
    inside.then_some(number)
}

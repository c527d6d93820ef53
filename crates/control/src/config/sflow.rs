//! `[sflow]`: collectors of sFlow, and what is sent to them.

use std::net::IpAddr;
use std::time::Duration;

use baker::syntax::duration;
use collectors::sflow::Settings;
use collectors::sflow::settings::PORT;
use dataplane::sampling;

use super::collectors::collectors;
use crate::document::{self, Errors, Path, Value};

/// One packet of so many is sampled, where it is not said.
const ONE_IN: u32 = 1000;
/// Bytes of a packet that are sent: the headers, as the specification has it.
const HEADER: u32 = 128;
/// Between two looks at counters.
const POLL: Duration = Duration::from_secs(20);
/// The shortest time between two looks, and the longest.
const POLLS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(86_400)];

/// `[sflow]`.
pub(super) fn sflow(value: Option<&Value>, errors: &mut Errors) -> Option<Settings> {
    let root = Path::Root;
    let (value, path) = (value?, root.key("sflow"));
    let table = document::table(value, &path, errors)?;
    document::only(table, &path, &["collectors", "agent", "one_in", "header", "poll"], errors);
    let mut number = |key: &str, min: u32, max: u32, usual: u32| match table.get(key) {
        Some(value) => document::integer(value, &path.key(key), min.into(), max.into(), errors).map(|own| own as u32),
        None => Some(usual),
    };
    let one_in = number("one_in", 1, 1 << 24, ONE_IN);
    let header = number("header", 14, sampling::MOST_BYTES as u32, HEADER);
    let agent = match table.get("agent") {
        Some(value) => document::parsed(value, &path.key("agent"), "this machine's address", errors, |text| {
            text.parse::<IpAddr>().ok().map(Some)
        }),
        None => Some(None),
    };
    let poll = match table.get("poll") {
        Some(value) => {
            let accepted = "\"0s\" for no counters, or a time from \"1s\" to \"1d\"";
            document::parsed(value, &path.key("poll"), accepted, errors, |text| {
                let time = Duration::from_nanos(duration(text)?);
                (time.is_zero() || (POLLS[0]..=POLLS[1]).contains(&time)).then_some(time)
            })
        }
        None => Some(POLL),
    };
    let collectors = collectors((value, table), &path, PORT, errors);
    Some(Settings {
        collectors: collectors?,
        agent: agent?,
        one_in: one_in?,
        header: header?,
        poll: poll.map(|time| Some(time).filter(|time| !time.is_zero()))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<Settings>, Vec<String>> {
        let mut errors = Errors::new("test.toml", text);
        let root = document::root(text, &mut errors);
        let found = sflow(root.get("sflow"), &mut errors);
        let all: Vec<_> = errors.finish().iter().map(ToString::to_string).collect();
        if all.is_empty() { Ok(found) } else { Err(all) }
    }

    #[test]
    fn what_is_not_said_is_as_usual() {
        assert_eq!(read(""), Ok(None));
        let collectors = |all: &[&str]| all.iter().map(|own| own.parse().unwrap()).collect();
        let usual = Settings {
            collectors: collectors(&["192.0.2.1:6343", "[2001:db8::1]:6343", "[::1]:7000"]),
            agent: None,
            one_in: 1000,
            header: 128,
            poll: Some(Duration::from_secs(20)),
        };
        let text = "[sflow]\ncollectors = [\"192.0.2.1\", \"2001:db8::1\", \"[::1]:7000\", \"192.0.2.1:6343\"]";
        assert_eq!(read(text), Ok(Some(usual)));
        let text = "sflow = { collectors = [\"::1\"], agent = \"10.0.0.1\", one_in = 1, header = 256, poll = \"0s\" }";
        let own = Settings {
            collectors: collectors(&["[::1]:6343"]),
            agent: Some("10.0.0.1".parse().unwrap()),
            one_in: 1,
            header: 256,
            poll: None,
        };
        assert_eq!(read(text), Ok(Some(own)));
    }

    #[test]
    fn mistakes_are_told() {
        for (text, said) in [
            ("", "sflow: `collectors` is missing"),
            ("collectors = []", "sflow.collectors: there are 0"),
            ("collectors = [\"collector\"]", "sflow.collectors[0]: \"collector\" is none; accepted: addresses such as"),
            ("collectors = [\"0.0.0.0\"]", "sflow.collectors[0]: \"0.0.0.0\" is none"),
            ("collectors = [\"::1\"]\none_in = 0", "sflow.one_in: 0 is out of range"),
            ("collectors = [\"::1\"]\nheader = 1500", "sflow.header: 1500 is out of range"),
            ("collectors = [\"::1\"]\npoll = \"1ms\"", "sflow.poll: \"1ms\" is none; accepted: \"0s\" for no counters"),
            ("collectors = [\"::1\"]\nagent = \"me\"", "sflow.agent: \"me\" is none"),
            ("collectors = [\"::1\"]\nrate = 1", "sflow.rate: unknown key"),
        ] {
            let errors = read(&format!("[sflow]\n{text}")).unwrap_err();
            assert!(errors.len() == 1 && errors[0].contains(said), "{text}: {errors:?}");
        }
    }
}

//! `[ipfix]`: collectors of IPFIX.

use std::time::Duration;

use baker::syntax::duration;
use collectors::ipfix::Settings;
use collectors::ipfix::settings::PORT;

use super::collectors::collectors;
use crate::document::{self, Errors, Path, Value};

/// Each time, where it is not said.
const USUAL: Duration = Duration::from_secs(60);
/// The shortest time, and the longest.
const BETWEEN: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3600)];

/// `[ipfix]`.
pub(super) fn ipfix(value: Option<&Value>, errors: &mut Errors) -> Option<Settings> {
    let root = Path::Root;
    let (value, path) = (value?, root.key("ipfix"));
    let table = document::table(value, &path, errors)?;
    document::only(table, &path, &["collectors", "domain", "templates", "active"], errors);
    let domain = match table.get("domain") {
        Some(value) => document::integer(value, &path.key("domain"), 0, u32::MAX.into(), errors).map(|own| own as u32),
        None => Some(1),
    };
    let mut time = |name: &str| match table.get(name) {
        Some(value) => document::parsed(value, &path.key(name), "a time from \"1s\" to \"1h\"", errors, |text| {
            let time = Duration::from_nanos(duration(text)?);
            (BETWEEN[0]..=BETWEEN[1]).contains(&time).then_some(time)
        }),
        None => Some(USUAL),
    };
    let (templates, active) = (time("templates"), time("active"));
    let collectors = collectors((value, table), &path, PORT, errors);
    Some(Settings { collectors: collectors?, domain: domain?, templates: templates?, active: active? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<Settings>, Vec<String>> {
        let mut errors = Errors::new("test.toml", text);
        let root = document::root(text, &mut errors);
        let found = ipfix(root.get("ipfix"), &mut errors);
        let all: Vec<_> = errors.finish().iter().map(ToString::to_string).collect();
        if all.is_empty() { Ok(found) } else { Err(all) }
    }

    #[test]
    fn what_is_not_said_is_as_usual() {
        assert_eq!(read(""), Ok(None));
        let collectors = vec!["192.0.2.1:4739".parse().unwrap()];
        let usual = Settings { collectors, domain: 1, templates: USUAL, active: USUAL };
        assert_eq!(read("[ipfix]\ncollectors = [\"192.0.2.1\"]"), Ok(Some(usual.clone())));
        let own = Settings { domain: 0, templates: Duration::from_secs(5), ..usual };
        let text = "[ipfix]\ncollectors = [\"192.0.2.1\"]\ndomain = 0\ntemplates = \"5s\"";
        assert_eq!(read(text), Ok(Some(own)));
    }

    #[test]
    fn mistakes_are_told() {
        for (text, said) in [
            ("", "ipfix: `collectors` is missing"),
            ("collectors = [\"a\"]", "ipfix.collectors[0]: \"a\" is none; accepted: addresses such as"),
            ("collectors = [\"::1\"]\ntemplates = \"0s\"", "ipfix.templates: \"0s\" is none"),
            ("collectors = [\"::1\"]\nactive = \"2h\"", "ipfix.active: \"2h\" is none"),
            ("collectors = [\"::1\"]\ndomain = -1", "ipfix.domain: -1 is out of range"),
            ("collectors = [\"::1\"]\nport = 1", "ipfix.port: unknown key"),
        ] {
            let errors = read(&format!("[ipfix]\n{text}")).unwrap_err();
            assert!(errors.len() == 1 && errors[0].contains(said), "{text}: {errors:?}");
        }
    }
}

//! Reads `http`: where recordings are served.

use std::time::Duration;

use super::*;
use crate::settings::http::HttpSettings;

impl Reader<'_, '_> {
    pub(super) fn http(&mut self, table: &Table, path: &Path, settings: &Settings) -> Option<HttpSettings> {
        let (value, path) = (table.get("http")?, path.key("http"));
        let own = document::table(value, &path, self.errors)?;
        document::only(own, &path, &["listen", "window", "linger", "connections", "allow_origins"], self.errors);
        let accepted = "an address and a port, such as \"0.0.0.0:8080\" or \"[::]:8080\", or a list of them";
        let listen = self.several(own, &path, "listen", accepted, |text| text.parse().ok());
        if listen.is_empty() {
            self.errors.add(value.span().start, &path, "`listen` is missing", accepted);
        }
        let Some(cache) = &settings.cache else {
            let problem = "there is no cache, and what is recorded is served";
            self.errors.add(value.span().start, &path, problem, "`directory` in [controllers.media.cache]");
            return None;
        };
        let accepted = "\"*\", or origins such as \"https://player.example\"";
        Some(HttpSettings {
            listen,
            window: self.time(own, &path, "window", Duration::from_secs(60)),
            linger: self.time(own, &path, "linger", Duration::from_secs(60)),
            connections: self.number(own, &path, "connections", 1, 100_000, 4096) as usize,
            per_client: settings.limits.per_client,
            idle: settings.timeouts.idle,
            allow_origins: self.several(own, &path, "allow_origins", accepted, origin),
            segment: cache.own.segment_seconds,
        })
    }
}

/// `https://player.example:8443`, as browsers write it; `*`.
fn origin(text: &str) -> Option<String> {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.:[]".contains(&byte);
    let is_origin = host.is_some_and(|host| !host.is_empty() && host.bytes().all(plain));
    (text == "*" || is_origin).then(|| text.to_owned())
}

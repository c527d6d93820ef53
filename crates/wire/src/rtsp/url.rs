//! RTSP URLs. Their text is kept as it came: servers compare it, and digests cover it.

/// The port where a URL names none.
pub const PORT: u16 = 554;

/// The parts of `rtsp://user:password@host:port/path?query`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Url<'u> {
    /// `user:password`, as it is written.
    pub user: Option<&'u str>,
    /// The host, without brackets.
    pub host: &'u str,
    /// The port that it names.
    pub port: Option<u16>,
    /// From the first `/` on, query included; may be empty.
    pub path: &'u str,
}

impl<'u> Url<'u> {
    /// Reads a URL of the scheme `rtsp`; none where it is none.
    pub fn parse(text: &'u str) -> Option<Url<'u>> {
        let scheme = text.get(..7)?;
        if !scheme.eq_ignore_ascii_case("rtsp://") {
            return None;
        }
        let rest = &text[7..];
        if !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
            return None;
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        let (host, port) = host_port(host)?;
        Some(Url { user, host, port, path })
    }

    /// The port to connect to.
    pub fn port(&self) -> u16 {
        self.port.unwrap_or(PORT)
    }

    /// Host and port as they are written, without the user.
    pub fn authority(&self) -> String {
        authority(self.host, self.port)
    }

    /// The URL without user and password.
    pub fn without_user(&self) -> String {
        format!("rtsp://{}{}", self.authority(), self.path)
    }
}

/// Host and port as a URL has them.
pub fn authority(host: &str, port: Option<u16>) -> String {
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    port.map_or(host.clone(), |port| format!("{host}:{port}"))
}

/// `host`, `host:port`, `[address]:port`; the host without brackets.
pub fn host_port(text: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            (host, if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) })
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:%".contains(&byte);
    if host.is_empty() || !host.bytes().all(is_name) {
        return None;
    }
    let number = |port: &str| port.parse().ok().filter(|number| *number != 0 && !port.starts_with('+'));
    match port {
        None | Some("") => Some((host, None)),
        Some(port) => Some((host, Some(number(port)?))),
    }
}

/// The value of a parameter of a URL's query, as it is written.
pub fn parameter<'u>(text: &'u str, name: &str) -> Option<&'u str> {
    let (_, query) = text.split_once('?')?;
    query.split('&').find_map(|own| own.split_once('=').filter(|(own, _)| *own == name)).map(|(_, value)| value)
}

/// A URL without a parameter of its query.
pub fn without_parameter(text: &str, name: &str) -> String {
    let Some((path, query)) = text.split_once('?') else { return text.to_owned() };
    let others: Vec<&str> = query.split('&').filter(|own| own.split('=').next() != Some(name)).collect();
    if others.is_empty() { path.to_owned() } else { format!("{path}?{}", others.join("&")) }
}

/// Parameters whose values are secrets, by what their names hold.
const SECRETS: [&str; 6] = ["token", "pass", "pwd", "key", "auth", "secret"];

/// A URL as others than its user may see it: without user, and without the values of parameters that are secrets.
pub fn shown(text: &str) -> String {
    let text = Url::parse(text).map_or_else(|| text.to_owned(), |url| url.without_user());
    let Some((path, query)) = text.split_once('?') else { return text };
    let part = |own: &str| {
        let name = own.split('=').next().unwrap_or("");
        let secret = SECRETS.iter().any(|secret| name.to_ascii_lowercase().contains(secret));
        if secret { format!("{name}=***") } else { own.to_owned() }
    };
    format!("{path}?{}", query.split('&').map(part).collect::<Vec<_>>().join("&"))
}

/// What a control attribute or a `url` of `RTP-Info` stands for, seen from a base URL (RFC 2326 appendix C.1.1): an
/// absolute URL is itself, `*` and nothing are the base, a path from the root replaces the base's path, and the rest is
/// put behind the base with one `/` between them, as servers mean it (and not as RFC 1808 says it).
pub fn join(base: &str, reference: &str) -> String {
    if reference.is_empty() || reference == "*" {
        return base.to_owned();
    }
    if Url::parse(reference).is_some() || reference.contains("://") {
        return reference.to_owned();
    }
    if reference.starts_with('/')
        && let Some(url) = Url::parse(base)
    {
        return format!("rtsp://{}{reference}", url.authority());
    }
    format!("{}/{}", base.strip_suffix('/').unwrap_or(base), reference.trim_start_matches('/'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parts_are_found() {
        let url = Url::parse("rtsp://user:p@ss@[2001:db8::1]:8554/a/b?c=d/e").unwrap();
        assert_eq!(
            (url.user, url.host, url.port, url.path),
            (Some("user:p@ss"), "2001:db8::1", Some(8554), "/a/b?c=d/e")
        );
        assert_eq!(url.without_user(), "rtsp://[2001:db8::1]:8554/a/b?c=d/e");
        let url = Url::parse("RTSP://camera.example").unwrap();
        assert_eq!((url.user, url.host, url.port(), url.path), (None, "camera.example", 554, ""));
        assert_eq!(Url::parse("rtsp://h?x").unwrap().path, "?x");
        for wrong in
            ["", "rtsp://", "http://h/", "rtsp://h:0/", "rtsp://h:99999/", "rtsp://a b/", "rtsp://[::1/", "rtsp:/h"]
        {
            assert_eq!(Url::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn secrets_of_queries_are_found_and_not_shown() {
        let url = "rtsp://u:p@h/a?x=1&token=s3cret&y";
        assert_eq!((parameter(url, "token"), parameter(url, "tok"), parameter("a", "a")), (Some("s3cret"), None, None));
        assert_eq!(without_parameter(url, "token"), "rtsp://u:p@h/a?x=1&y");
        assert_eq!(without_parameter("rtsp://h/a?token=1", "token"), "rtsp://h/a");
        assert_eq!(shown(url), "rtsp://h/a?x=1&token=***&y");
        assert_eq!(shown("rtsp://h/a?user=x&PassWd=y/trackID=1"), "rtsp://h/a?user=x&PassWd=***");
        assert_eq!(shown("rtsp://h/a?channel=1"), "rtsp://h/a?channel=1");
    }

    #[test]
    fn controls_are_resolved_as_servers_mean_them() {
        let base = "rtsp://h:8554/dir/file/";
        assert_eq!(join(base, "*"), base);
        assert_eq!(join(base, "trackID=1"), "rtsp://h:8554/dir/file/trackID=1");
        assert_eq!(join("rtsp://h/a?b", "trackID=1"), "rtsp://h/a?b/trackID=1");
        assert_eq!(join(base, "rtsp://other/x"), "rtsp://other/x");
        assert_eq!(join(base, "/x/track1"), "rtsp://h:8554/x/track1");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,40}", tail in "(rtsp|RTSP)://[a-z@:\\[\\]/?0-9.]{0,30}") {
            for text in [&text, &tail] {
                if let Some(url) = Url::parse(text) {
                    let plain = url.without_user();
                    let again = Url::parse(&plain).unwrap();
                    prop_assert_eq!((again.host, again.port, again.path), (url.host, url.port, url.path));
                }
                let _ = join("rtsp://h/a", text);
            }
        }
    }
}

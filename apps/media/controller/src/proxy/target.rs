//! Which presentation a URL of a client means.

use std::net::IpAddr;
use std::sync::Arc;

use wire::rtsp::url::{self, Url};

use super::ClientId;
use super::peers::Peered;
use crate::cache::copies;
use crate::cache::start::{HOST, START, Start};
use crate::settings::access::Access;
use crate::settings::plain::Plain;
use crate::settings::{Credentials, Named, Settings};

/// A presentation at its origin. Clients that ask for the same may share one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Presentation {
    /// The URL at the origin, without user; where it comes from a pool, that is in the place of the host.
    pub url: String,
    /// The pool that it comes from.
    pub pool: Option<String>,
    /// Who asks for it there.
    pub credentials: Option<Credentials>,
    /// The client that alone has it, as it proves at the origin who it is, or may have to.
    pub prover: Option<ClientId>,
    /// How it is asked for at peers, which come before its origin.
    pub peers: Option<Peered>,
}

/// What a URL means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The presentation.
    pub presentation: Presentation,
    /// Its URL as the client has it, without a `/` at its end.
    pub base: String,
    /// The track that is meant; none: all of it.
    pub track: Option<usize>,
    /// The stream's name in the configuration, if it has one.
    pub name: Option<String>,
    /// Whether the configuration says that it has no end.
    pub live: Option<bool>,
    /// Whether the client names the origin itself, so that its URLs are the origin's.
    pub forwarded: bool,
    /// Whether it comes on the connection to its origin; where nothing is said, where it does not come over UDP.
    pub carried: Option<bool>,
    /// Whether its origin is to send it to a group.
    pub multicast: bool,
    /// Its source, where that has no RTSP.
    pub plain: Option<Arc<Plain>>,
    /// The name by which it is recorded, where it is to be.
    pub recorded_as: Option<String>,
    /// The key by which it is found in the cache where it is a film, and may be served from there.
    pub film: Option<String>,
    /// Who may view it.
    pub viewers: Arc<Access>,
    /// Who may publish it, where it does not come from an origin.
    pub publish: Option<Arc<Access>>,
    /// The proxies that it was asked for through, as `Via` has them.
    pub via: Option<String>,
}

/// The parameter of a URL's query that is a token of the proxy's own.
pub const TOKEN: &str = "token";
/// What stands in front of a track's number in its URL.
const TRACK: &str = "/trackID=";

/// The URL of a track, as clients get it.
pub fn track_url(base: &str, track: usize) -> String {
    format!("{base}{TRACK}{track}")
}

impl Target {
    /// A stream of the configuration.
    pub(super) fn named(own: &Named, viewers: Arc<Access>, settings: &Settings) -> Target {
        let (url, pool, credentials) = (own.url.clone(), own.pool.clone(), own.credentials.clone());
        let is_rtsp = own.plain.is_none() && own.publish.is_none() && own.live != Some(true);
        let of_url = || pool.is_none() && is_film(settings, &url);
        let film = (is_rtsp && own.cache.unwrap_or_else(of_url)).then(|| copies::key(&url, pool.as_deref()));
        Target {
            presentation: Presentation { url, pool, credentials, prover: None, peers: None },
            base: String::new(),
            track: None,
            name: Some(own.name.clone()),
            live: own.live,
            forwarded: false,
            carried: own.carried,
            multicast: own.multicast,
            plain: own.plain.clone(),
            recorded_as: own.record.is_on().then(|| own.name.clone()),
            film,
            viewers,
            publish: own.publish.clone(),
            via: None,
        }
    }
}

/// What the URL of a client means that has connected to an own address, or the status of the answer.
pub fn target(text: &str, settings: &Settings, local: IpAddr) -> Result<Target, u16> {
    let named = Url::parse(text).ok_or(400u16)?;
    let (text, track) = without_track(text.trim_end_matches('/'));
    let base = text.trim_end_matches('/');
    let parts = Url::parse(base).ok_or(400u16)?;
    let path = parts.path.strip_prefix('/').unwrap_or(parts.path);
    let target = |presentation, viewers| {
        let base = base.to_owned();
        Target {
            presentation,
            base,
            track,
            name: None,
            live: None,
            forwarded: false,
            carried: None,
            multicast: false,
            plain: None,
            recorded_as: None,
            film: None,
            viewers,
            publish: None,
            via: None,
        }
    };
    // A host that may be asked is meant itself, unless it is the proxy.
    if named.host.parse() != Ok(local) && settings.permits(named.host, named.port()) {
        let presentation =
            Presentation { url: named.without_user(), pool: None, credentials: None, prover: None, peers: None };
        return Ok(Target::of_origin(&named, target(presentation, settings.viewers.clone())));
    }
    if path.is_empty() {
        return Err(404);
    }
    let plain = path.split('?').next().unwrap_or(path);
    if let Some(own) = settings.stream(plain) {
        let viewers = own.viewers.clone().unwrap_or_else(|| settings.viewers.clone());
        if let Some(text) = url::parameter(path, START).filter(|_| own.record.is_on()) {
            Start::parse(text).ok_or(457u16)?;
            let url = format!("rtsp://{HOST}/{}?{START}={text}", own.name);
            let presentation = Presentation { url, pool: None, credentials: None, prover: None, peers: None };
            // Each viewer has a place of its own in it.
            let (name, live, carried) = (Some(own.name.clone()), Some(false), Some(true));
            return Ok(Target { name, live, carried, ..target(presentation, viewers) });
        }
        return Ok(Target { base: base.to_owned(), track, ..Target::named(own, viewers, settings) });
    }
    if settings.origins.is_empty() {
        return Err(404);
    }
    let end = path.find(['/', '?']).unwrap_or(path.len());
    let (authority, rest) = path.split_at(end);
    let (host, port) = url::host_port(authority).ok_or(404u16)?;
    if !settings.permits(host, port.unwrap_or(url::PORT)) {
        return Err(403);
    }
    let url = format!("rtsp://{}{rest}", url::authority(host, port));
    // What is the proxy's own is no business of the origin's.
    let own_token = !settings.viewers.tokens.is_empty();
    let url = if own_token { url::without_parameter(&url, TOKEN) } else { url };
    let film = is_film(settings, &url).then(|| copies::key(&url, None));
    let presentation = Presentation { url, pool: None, credentials: None, prover: None, peers: None };
    Ok(Target { film, ..target(presentation, settings.viewers.clone()) })
}

/// Whether a film of this URL may be served from the cache.
fn is_film(settings: &Settings, url: &str) -> bool {
    settings.cache.as_ref().is_some_and(|own| own.films.prefixes.iter().any(|prefix| url.starts_with(prefix.as_str())))
}

/// Whether two URLs, or their paths, mean the same presentation, or tracks of it.
pub fn same_presentation(one: &str, other: &str) -> bool {
    let path = |text| {
        let text = without_track(str::trim_end_matches(text, '/')).0.trim_end_matches('/');
        Url::parse(text).map_or(text, |url| url.path).to_owned()
    };
    path(one) == path(other)
}

/// A URL without the track that stands at its end.
fn without_track(text: &str) -> (&str, Option<usize>) {
    let found = text.rsplit_once(TRACK).and_then(|(base, number)| {
        let digits = !number.is_empty() && number.len() <= 3 && number.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| Some((base, number.parse().ok()?)))?
    });
    found.map_or((text, None), |(base, track)| (base, Some(track)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Allowed;
    use crate::settings::cache::Record;

    fn settings() -> Settings {
        let credentials = Some(Credentials { user: "u".into(), password: "p".into() });
        Settings {
            origins: vec![
                Allowed::Prefix { address: "10.0.2.0".parse().unwrap(), length: 24 },
                Allowed::Host { name: "2001:db8::1".into(), port: None },
            ],
            streams: vec![Named {
                name: "door".into(),
                url: "rtsp://cam/1".into(),
                credentials,
                live: Some(true),
                ..Named::default()
            }],
            ..Settings::default()
        }
    }

    #[test]
    fn urls_mean_presentations() {
        let settings = settings();
        let target = |text: &str, settings: &Settings| target(text, settings, "10.0.2.1".parse().unwrap());
        let own = target("rtsp://proxy:8554/10.0.2.11:8554/a/b?c=d/trackID=1", &settings).unwrap();
        assert_eq!(own.presentation.url, "rtsp://10.0.2.11:8554/a/b?c=d");
        assert_eq!((&*own.base, own.track), ("rtsp://proxy:8554/10.0.2.11:8554/a/b?c=d", Some(1)));
        assert_eq!(track_url(&own.base, 1), "rtsp://proxy:8554/10.0.2.11:8554/a/b?c=d/trackID=1");
        let own = target("rtsp://proxy/[2001:db8::1]/x/", &settings).unwrap();
        assert_eq!((&*own.presentation.url, own.track), ("rtsp://[2001:db8::1]/x", None));
        let own = target("rtsp://proxy/door/", &settings).unwrap();
        assert_eq!((&*own.presentation.url, own.name.as_deref(), own.live), ("rtsp://cam/1", Some("door"), Some(true)));
        // What was recorded of a stream, from a time on.
        let mut recorded = settings.clone();
        recorded.streams[0].record = Record::Viewed;
        let own = target("rtsp://proxy/door?start=-10m/trackID=0", &recorded).unwrap();
        assert_eq!((&*own.presentation.url, own.live), ("rtsp://recordings.invalid/door?start=-10m", Some(false)));
        assert_eq!((own.presentation.credentials, own.track, own.recorded_as), (None, Some(0), None));
        assert_eq!(target("rtsp://proxy/door?start=soon", &recorded), Err(457));
        assert_eq!(target("rtsp://proxy/door", &recorded).unwrap().recorded_as.as_deref(), Some("door"));
        let own = target("rtsp://proxy/door?start=-10m", &settings).unwrap();
        assert_eq!((&*own.presentation.url, own.recorded_as), ("rtsp://cam/1", None));
        // The origin's own URL, as it is; the proxy's own address is the proxy, though it is one that is allowed.
        let own = target("rtsp://u:p@10.0.2.11:8554/a/trackID=1/", &settings).unwrap();
        assert_eq!((own.forwarded, own.track, &*own.base), (true, None, "rtsp://10.0.2.11:8554/a/trackID=1/"));
        assert_eq!(own.presentation.url, own.base);
        let own = target("rtsp://10.0.2.1:8554/10.0.2.11/a", &settings).unwrap();
        assert_eq!((own.forwarded, &*own.presentation.url), (false, "rtsp://10.0.2.11/a"));
        for (one, other, same) in [
            ("rtsp://proxy/door/trackID=0", "rtsp://proxy:554/door/", true),
            ("rtsp://proxy/door", "/door", true),
            ("rtsp://proxy/door?a", "rtsp://proxy/door?b", false),
            ("rtsp://proxy/door", "rtsp://proxy/window", false),
        ] {
            assert_eq!(same_presentation(one, other), same, "{one} {other}");
        }
        for (url, status) in [
            ("rtsp://proxy/10.0.3.11/a", 403),
            ("rtsp://proxy/user@10.0.2.11/a", 404),
            ("rtsp://proxy/", 404),
            ("rtsp://proxy", 404),
            ("*", 400),
            ("http://proxy/door", 400),
        ] {
            assert_eq!(target(url, &settings), Err(status), "{url}");
        }
        assert_eq!(target("rtsp://proxy/10.0.2.11/a", &Settings::default()), Err(404));
    }
}

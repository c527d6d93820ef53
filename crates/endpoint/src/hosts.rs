//! By which names this machine may be called.
//!
//! A page of a browser on this machine must not read answers for somebody else: so who asks must call this machine by
//! an address, by `localhost`, or by a name that the configuration has (DNS rebinding takes a name of the attacker's).

use std::net::IpAddr;
use std::sync::{PoisonError, RwLock};

use hyper::header::HOST;
use hyper::http::request::Parts;
use hyper::http::uri::Authority;
use hyper::{StatusCode, Version};

/// Names that the configuration has.
#[derive(Debug, Default)]
pub struct Hosts(RwLock<Vec<String>>);

impl Hosts {
    /// These from now on, in small letters.
    pub fn set(&self, hosts: Vec<String>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = hosts;
    }

    /// `HOST[:PORT]` that a request calls this machine by; none where it is an old one that does not say. The error is
    /// why it is not for this machine; `section` of the configuration has the names.
    pub fn called<'p>(&self, parts: &'p Parts, section: &str) -> Result<Option<&'p str>, (StatusCode, String)> {
        let bad = || Err((StatusCode::BAD_REQUEST, "one Host is wanted".to_owned()));
        let mut hosts = parts.headers.get_all(HOST).iter();
        let host = match (parts.uri.authority(), hosts.next(), hosts.next()) {
            (_, _, Some(_)) => return bad(),
            (Some(authority), ..) => authority.as_str(),
            (None, Some(host), None) => match host.to_str() {
                Ok(host) => host,
                Err(_) => return bad(),
            },
            // Browsers always say it.
            (None, None, None) if parts.version < Version::HTTP_11 => return Ok(None),
            (None, None, None) => return bad(),
        };
        if self.is_own(host) {
            return Ok(Some(host));
        }
        let unknown = format!("this machine is not known by that name: see `hosts` of [{section}]");
        Err((StatusCode::MISDIRECTED_REQUEST, unknown))
    }

    /// Whether a `HOST[:PORT]` is this machine's.
    fn is_own(&self, host: &str) -> bool {
        let Ok(authority) = host.parse::<Authority>() else { return false };
        let name = authority.host().trim_end_matches('.').to_ascii_lowercase();
        let address = name.trim_start_matches('[').trim_end_matches(']');
        let hosts = self.0.read().unwrap_or_else(PoisonError::into_inner);
        address.parse::<IpAddr>().is_ok() || name == "localhost" || hosts.contains(&name)
    }
}

//! Who may ask: who has the token, and no page of another origin.
//!
//! A browser adds nothing by itself that lets a request change something (the token is a field that only a script of
//! this page sets), so a page of somebody else cannot have it change anything. Where browsers say which page asks, it
//! must be one of ours besides.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use axum::http::header::{AUTHORIZATION, HeaderName, ORIGIN};
use axum::http::{HeaderMap, Uri};
use control::config::Readers;
use control::socket::{Code, Refusal};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;
use utoipa::ToSchema;

/// Characters of a token. Shorter ones could be guessed.
const LENGTH: std::ops::RangeInclusive<usize> = 16..=256;
/// Where a browser says which kind of page asks (W3C Fetch Metadata).
const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// What lets change something.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // It is a secret.
        f.write_str("Token")
    }
}

impl Token {
    /// Reads a file that only its owner can read.
    ///
    /// # Errors
    /// It can't be read, others can read it, or what is in it is no token.
    pub fn read(path: &Path) -> Result<Token, String> {
        let said = |problem: &dyn std::fmt::Display| format!("web: token file {}: {problem}", path.display());
        let file = File::open(path).map_err(|error| said(&error))?;
        let about = file.metadata().map_err(|error| said(&error))?;
        if !about.is_file() {
            return Err(said(&"it is no file"));
        }
        if about.mode() & 0o077 != 0 {
            let mode = about.mode() & 0o777;
            return Err(said(&format_args!("others than its owner may use it (mode {mode:03o}); chmod 600 it")));
        }
        let mut text = String::new();
        file.take(4096).read_to_string(&mut text).map_err(|error| said(&error))?;
        Token::new(&text).ok_or_else(|| {
            let (least, most) = (LENGTH.start(), LENGTH.end());
            said(&format_args!(
                "a token has {least} to {most} letters, digits and signs, such as `openssl rand -hex 32` makes"
            ))
        })
    }

    /// A text as a token, if it can be one.
    pub fn new(text: &str) -> Option<Token> {
        let text = text.trim();
        let is_token = LENGTH.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        is_token.then(|| Token(text.to_owned()))
    }

    /// Whether a request has it, in the same time whatever it has.
    fn is_in(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(AUTHORIZATION).map(|value| value.as_bytes());
        let Some((scheme, given)) = given.and_then(|given| given.split_at_checked(7)) else { return false };
        scheme.eq_ignore_ascii_case(b"bearer ") && bool::from(given.trim_ascii().ct_eq(self.0.as_bytes()))
    }
}

/// Who may do what.
#[derive(Clone, Debug)]
pub struct Access {
    /// Of those who may change something.
    pub token: Option<Token>,
    /// Who may read.
    pub readers: Readers,
}

/// What somebody may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Rights {
    /// Whether the request may read.
    pub read: bool,
    /// Whether the request may change something.
    pub write: bool,
    /// Whether there is a token, by which somebody may.
    pub token: bool,
}

impl Access {
    /// What a request may do.
    pub fn rights(&self, headers: &HeaderMap) -> Rights {
        let write = self.token.as_ref().is_some_and(|token| token.is_in(headers));
        Rights { read: write || self.readers == Readers::All, write, token: self.token.is_some() }
    }
}

impl Rights {
    /// Whether these rights are enough to read, or to change something.
    ///
    /// # Errors
    /// They are not.
    pub fn allow(self, changes: bool) -> Result<(), Refusal> {
        let (code, message) = match (changes, self) {
            (true, Rights { write: true, .. }) | (false, Rights { read: true, .. }) => return Ok(()),
            (_, Rights { token: true, .. }) => (Code::Unauthorized, "the token is needed: Authorization: Bearer TOKEN"),
            _ => (Code::Forbidden, "nothing can be changed here: there is no `token_file` in [web]"),
        };
        Err(Refusal { code, message: message.into() })
    }
}

/// Refuses what a browser sends for a page that is not of `host`, which is `HOST[:PORT]` as the request has it.
///
/// # Errors
/// It does.
pub fn same_origin(headers: &HeaderMap, host: Option<&str>) -> Result<(), Refusal> {
    let is_own = |origin: &str| {
        let authority = origin.parse::<Uri>().ok().and_then(|origin| origin.authority().cloned());
        authority.zip(host).is_some_and(|(authority, host)| authority.as_str().eq_ignore_ascii_case(host))
    };
    let origin_fits = headers.get_all(ORIGIN).iter().all(|value| value.to_str().is_ok_and(is_own));
    let site_fits = |value: &[u8]| matches!(value, b"same-origin" | b"none");
    if origin_fits && headers.get_all(SITE).iter().all(|value| site_fits(value.as_bytes())) {
        return Ok(());
    }
    let message = "a page of another origin asks".into();
    Err(Refusal { code: Code::Forbidden, message })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn headers(all: &[(&'static str, &str)]) -> HeaderMap {
        all.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn a_token_is_a_secret_of_some_length() {
        let folder = std::env::temp_dir().join(format!("millrace-test-{}-token", std::process::id()));
        std::fs::write(&folder, "0123456789abcdef\n").unwrap();
        let mode = |mode| std::fs::set_permissions(&folder, PermissionsExt::from_mode(mode)).unwrap();
        for open in [0o644, 0o640, 0o604, 0o620] {
            mode(open);
            let error = Token::read(&folder).unwrap_err();
            assert!(error.contains("others than its owner may use it"), "{error}");
        }
        mode(0o600);
        let token = Token::read(&folder).unwrap();
        assert!(token == Token("0123456789abcdef".into()) && format!("{token:?}") == "Token");
        for bad in ["", "short", "0123456789 abcdef", &"x".repeat(257), "0123456789abcde\u{e9}"] {
            std::fs::write(&folder, bad).unwrap();
            let error = Token::read(&folder).unwrap_err();
            assert!(error.contains("a token has 16 to 256 letters"), "{error}");
        }
        std::fs::remove_file(&folder).unwrap();
        assert!(Token::read(&folder).unwrap_err().contains("No such file"));
        assert!(Token::read(Path::new("/")).unwrap_err().contains("it is no file"));
    }

    #[test]
    fn rights_are_by_token() {
        let token = Token::new("0123456789abcdef");
        let with = |value: &str| headers(&[("authorization", value)]);
        let open = Access { token: token.clone(), readers: Readers::All };
        let closed = Access { token, readers: Readers::Token };
        for good in ["Bearer 0123456789abcdef", "bearer 0123456789abcdef"] {
            assert_eq!(open.rights(&with(good)), Rights { read: true, write: true, token: true }, "{good}");
            assert!(closed.rights(&with(good)).allow(true).is_ok());
        }
        for bad in
            ["", "Bearer", "Bearer ", "Bearer 0123456789abcdeg", "Bearer 0123456789abcdef0", "Basic 0123456789abcdef"]
        {
            let rights = open.rights(&with(bad));
            assert!(rights.allow(false).is_ok(), "{bad}");
            assert_eq!(rights.allow(true).unwrap_err().code, Code::Unauthorized, "{bad}");
            assert_eq!(closed.rights(&with(bad)).allow(false).unwrap_err().code, Code::Unauthorized, "{bad}");
        }
        let read_only = Access { token: None, readers: Readers::All };
        assert_eq!(read_only.rights(&with("Bearer ")).allow(true).unwrap_err().code, Code::Forbidden);
    }

    #[test]
    fn pages_of_others_are_refused() {
        let fits = |all: &[(&'static str, &str)]| same_origin(&headers(all), Some("Edge.example:9480")).is_ok();
        assert!(fits(&[]));
        assert!(fits(&[("origin", "http://edge.example:9480"), ("sec-fetch-site", "same-origin")]));
        assert!(fits(&[("origin", "https://edge.example:9480"), ("sec-fetch-site", "none")]));
        for origin in ["null", "http://edge.example", "http://edge.example:9481", "http://evil.example", "", "x"] {
            assert!(!fits(&[("origin", origin)]), "{origin}");
        }
        for site in ["cross-site", "same-site", ""] {
            assert!(!fits(&[("sec-fetch-site", site)]), "{site}");
        }
        assert!(!fits(&[("origin", "http://edge.example:9480"), ("origin", "http://evil.example")]));
    }
}

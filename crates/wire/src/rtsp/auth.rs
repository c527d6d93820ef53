//! Who a client is: Basic (RFC 7617) and Digest (RFC 7616), as servers check them. RTSP has both from HTTP.

use std::hint::black_box;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_auth::parser::ChallengeParser;
use md5::Md5;
use md5::digest::Digest as _;
use sha2::Sha256;

/// A way to prove a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Digest with SHA-256.
    Sha256,
    /// Digest with MD5, which most players know alone.
    Md5,
    /// The password itself.
    Basic,
}

/// What an `Authorization` field says.
#[derive(Clone, PartialEq, Eq)]
pub enum Authorization {
    /// User and password.
    Basic {
        /// The user.
        user: String,
        /// The password.
        password: String,
    },
    /// A proof of the password.
    Digest(Digest),
}

impl std::fmt::Debug for Authorization {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Authorization").field(&self.scheme()).field(&self.user()).finish()
    }
}

/// A proof of a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    /// [`Scheme::Sha256`] or [`Scheme::Md5`].
    pub scheme: Scheme,
    /// The user.
    pub user: String,
    /// The realm of the challenge.
    pub realm: String,
    /// The nonce of the challenge.
    pub nonce: String,
    /// The URL that it is for, as the client says.
    pub uri: String,
    /// How often the client has used the nonce, and its own nonce. None: the client does not know `qop` (RFC 2069).
    pub counted: Option<(u32, String)>,
    response: String,
}

/// The longest field that is read, in bytes.
const LONGEST: usize = 4096;

impl Authorization {
    /// Reads a field. None: it is no such field, or asks for what there is not (`auth-int`, `MD5-sess`).
    pub fn parse(field: &str) -> Option<Authorization> {
        if field.len() > LONGEST {
            return None;
        }
        let (scheme, rest) = field.trim().split_once(' ')?;
        if scheme.eq_ignore_ascii_case("basic") {
            let text = String::from_utf8(STANDARD.decode(rest.trim()).ok()?).ok()?;
            let (user, password) = text.split_once(':')?;
            return Some(Authorization::Basic { user: user.to_owned(), password: password.to_owned() });
        }
        // Such a field has the syntax of a challenge.
        let said = ChallengeParser::new(field).next()?.ok()?;
        if !said.scheme.eq_ignore_ascii_case("digest") {
            return None;
        }
        let value = |name: &str| {
            let mut found = said.params.iter().filter(|(own, _)| own.eq_ignore_ascii_case(name));
            let first = found.next().map(|(_, value)| value.to_unescaped());
            // One that is there twice would mean two things.
            if found.next().is_some() { None } else { first }
        };
        let has = |name: &str| said.params.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
        let scheme = match value("algorithm") {
            None if has("algorithm") => return None,
            None => Scheme::Md5,
            Some(name) if name.eq_ignore_ascii_case("MD5") => Scheme::Md5,
            Some(name) if name.eq_ignore_ascii_case("SHA-256") => Scheme::Sha256,
            Some(_) => return None,
        };
        let counted = match value("qop") {
            None if has("qop") => return None,
            None => None,
            Some(qop) if qop.eq_ignore_ascii_case("auth") => {
                let count = value("nc").filter(|count| count.len() == 8)?;
                Some((u32::from_str_radix(&count, 16).ok().filter(|_| !count.starts_with('+'))?, value("cnonce")?))
            }
            Some(_) => return None,
        };
        Some(Authorization::Digest(Digest {
            scheme,
            user: value("username")?,
            realm: value("realm")?,
            nonce: value("nonce")?,
            uri: value("uri")?,
            counted,
            response: value("response")?,
        }))
    }

    /// Who it says that it is.
    pub fn user(&self) -> &str {
        match self {
            Authorization::Basic { user, .. } => user,
            Authorization::Digest(digest) => &digest.user,
        }
    }

    /// How it proves that.
    pub fn scheme(&self) -> Scheme {
        match self {
            Authorization::Basic { .. } => Scheme::Basic,
            Authorization::Digest(digest) => digest.scheme,
        }
    }

    /// Whether it proves a password, for a request with this method. The time that it takes tells nothing of the
    /// password. Whether realm, nonce and URL are the right ones is not asked here.
    pub fn proves(&self, password: &str, method: &str) -> bool {
        match self {
            Authorization::Basic { password: own, .. } => equal(own, password),
            Authorization::Digest(digest) => {
                let expected = match digest.scheme {
                    Scheme::Sha256 => digest.response::<Sha256>(password, method),
                    _ => digest.response::<Md5>(password, method),
                };
                equal(&digest.response.to_ascii_lowercase(), &expected)
            }
        }
    }
}

impl Digest {
    /// RFC 7616 section 3.4.1; without `qop` RFC 2069 section 2.1.2.
    fn response<D: md5::Digest>(&self, password: &str, method: &str) -> String {
        let secret = hex::<D>(&format!("{}:{}:{password}", self.user, self.realm));
        let asked = hex::<D>(&format!("{method}:{}", self.uri));
        hex::<D>(&match &self.counted {
            Some((count, own)) => format!("{secret}:{}:{count:08x}:{own}:auth:{asked}", self.nonce),
            None => format!("{secret}:{}:{asked}", self.nonce),
        })
    }
}

fn hex<D: md5::Digest>(text: &str) -> String {
    D::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether two secrets are equal. The time that it takes tells at most how long they are.
pub fn equal(one: &str, other: &str) -> bool {
    let [one, other] = [one, other].map(Sha256::digest);
    black_box(one.iter().zip(&other).fold(0, |differ, (one, other)| differ | (one ^ other))) == 0
}

/// The fields `WWW-Authenticate` of an answer: one for each scheme. Players that take the last Digest that is offered
/// (ffmpeg, live555) know MD5 alone, so that is the last.
pub fn challenges(schemes: &[Scheme], realm: &str, nonce: &str, stale: bool) -> Vec<String> {
    let stale = if stale { ", stale=true" } else { "" };
    let has = |scheme: &Scheme| schemes.contains(scheme);
    let challenge = |scheme: Scheme| match scheme {
        Scheme::Sha256 => {
            format!("Digest realm=\"{realm}\", nonce=\"{nonce}\"{stale}, algorithm=SHA-256, qop=\"auth\"")
        }
        Scheme::Md5 => format!("Digest realm=\"{realm}\", nonce=\"{nonce}\"{stale}, algorithm=MD5, qop=\"auth\""),
        Scheme::Basic => format!("Basic realm=\"{realm}\""),
    };
    [Scheme::Sha256, Scheme::Md5, Scheme::Basic].into_iter().filter(has).map(challenge).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// RFC 7616 section 3.9.1.
    const EXAMPLE: &str = "Digest username=\"Mufasa\", realm=\"http-auth@example.org\", uri=\"/dir/index.html\", \
        algorithm=MD5, nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", nc=00000001, \
        cnonce=\"f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ\", qop=auth, \
        response=\"8ca523f5e9506fed4657c9700eebdbec\", opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\"";

    #[test]
    fn the_examples_of_the_standards_are_proofs() {
        let md5 = Authorization::parse(EXAMPLE).unwrap();
        assert_eq!((md5.user(), md5.scheme()), ("Mufasa", Scheme::Md5));
        assert!(md5.proves("Circle of Life", "GET"));
        assert!(!md5.proves("Circle of Life", "POST") && !md5.proves("circle of life", "GET"));
        let sha = EXAMPLE.replace("MD5", "SHA-256").replace(
            "8ca523f5e9506fed4657c9700eebdbec",
            "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1",
        );
        let sha = Authorization::parse(&sha).unwrap();
        assert!(sha.scheme() == Scheme::Sha256 && sha.proves("Circle of Life", "GET"));
        // RFC 7617 section 2.
        let basic = Authorization::parse("basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==").unwrap();
        assert!(basic.user() == "Aladdin" && basic.proves("open sesame", "any") && !basic.proves("open", "any"));
        // RFC 2069 section 2.4, with the response of its erratum.
        let old = Authorization::parse(
            "Digest username=\"Mufasa\", realm=\"testrealm@host.com\", \
             nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\", uri=\"/dir/index.html\", \
             response=\"1949323746fe6a43ef61f9606e7febea\"",
        );
        assert!(old.unwrap().proves("CircleOfLife", "GET"));
    }

    #[test]
    fn what_is_not_understood_is_none() {
        for (from, to) in [
            ("algorithm=MD5", "algorithm=MD5-sess"),
            ("qop=auth", "qop=auth-int"),
            ("nc=00000001", "nc=1"),
            ("nc=00000001, ", ""),
            ("Digest ", "Bearer "),
            ("username=\"Mufasa\"", "username=\"Mufasa\", username=\"Scar\""),
            ("qop=auth", "qop=auth, qop=auth"),
        ] {
            assert_eq!(Authorization::parse(&EXAMPLE.replace(from, to)), None, "{to}");
        }
        for text in ["", "Basic", "Basic ====", "Basic QWxh", "Digest", &format!("Basic {}", "A".repeat(5000))] {
            assert_eq!(Authorization::parse(text), None);
        }
        let shown = format!("{:?}", Authorization::parse("basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="));
        assert!(!shown.contains("sesame"), "{shown}");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_none(text in "(Digest|Basic|digest) [a-z]{1,5}(=|=\"|\")\\PC{0,30}") {
            if let Some(own) = Authorization::parse(&text) {
                own.proves("x", "PLAY");
            }
        }
    }
}

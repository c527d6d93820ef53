//! What an `Authorization` field proves, in RTSP as in HTTP. Whether a digest's nonce counts is its protocol's to say.

use wire::rtsp::auth::{Authorization, Digest};

use crate::settings::Settings;
use crate::settings::access::Access;

/// See the module.
#[derive(Debug)]
pub enum Proof {
    /// Nothing.
    Wrong,
    /// The password, which it has in it.
    Password,
    /// The password, for this nonce.
    Digest(Digest),
}

/// What a field proves of one of those who have access. `is_for`: whether the URL of a digest is that of the request.
pub fn proof(
    field: &str,
    method: &str,
    realm: &str,
    access: &Access,
    settings: &Settings,
    is_for: impl Fn(&str) -> bool,
) -> Proof {
    let said = Authorization::parse(field).filter(|said| settings.schemes.contains(&said.scheme()));
    let Some(said) = said else { return Proof::Wrong };
    // Who does not exist takes as long as who does.
    let known = access.users.iter().any(|user| user == said.user());
    let password = settings.password(said.user()).filter(|_| known);
    let proves = said.proves(password.unwrap_or(""), method);
    match said {
        _ if !proves || password.is_none() => Proof::Wrong,
        Authorization::Basic { .. } => Proof::Password,
        Authorization::Digest(digest) if digest.realm == realm && is_for(&digest.uri) => Proof::Digest(digest),
        Authorization::Digest(_) => Proof::Wrong,
    }
}

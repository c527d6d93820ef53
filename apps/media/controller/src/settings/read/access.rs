//! Users, and who may view or publish.

use std::net::IpAddr;
use std::sync::Arc;

use control::document::{self, Path, Table, Value};
use wire::rtsp::auth::Scheme;

use super::Reader;
use crate::settings::access::{Access, Secret};
use crate::settings::{Credentials, Named, Settings};

/// Users at most.
const MOST_USERS: usize = 4096;
/// What a token is. Shorter ones are guessed.
const TOKEN: &str = "16 to 128 letters, digits, -, _, . or ~";

impl Reader<'_, '_> {
    /// Reads `users`, `schemes` and `viewers`.
    pub(super) fn access_of_all(&mut self, table: &Table, path: &Path, settings: &mut Settings) {
        if let Some(value) = table.get("users") {
            settings.users = self.users(value, &path.key("users"));
        }
        let accepted = "\"sha-256\", \"md5\" or \"basic\", or a list of them";
        let schemes = self.several(table, path, "schemes", accepted, |text| {
            Some(match text {
                "sha-256" => Scheme::Sha256,
                "md5" => Scheme::Md5,
                "basic" => Scheme::Basic,
                _ => return None,
            })
        });
        if !schemes.is_empty() {
            settings.schemes = schemes;
        }
        if let Some(access) = self.access(table, path, "viewers", &settings.users) {
            settings.viewers = access.into();
        }
    }

    /// A stream that is published.
    pub(super) fn published(&mut self, name: &str, table: &Table, path: &Path, settings: &Settings) -> Option<Named> {
        document::only(table, path, &["publish", "viewers", "record"], self.errors);
        let publish = self.access(table, path, "publish", &settings.users)?;
        if publish == Access::default() {
            let at = table.get("publish").map_or(0, |value| value.span().start);
            let accepted = "`users`, `tokens` or `addresses`";
            self.errors.add(at, &path.key("publish"), "this is empty, and would let anybody publish", accepted);
        }
        let viewers = self.access(table, path, "viewers", &settings.users).map(Arc::new);
        let (name, url) = (name.to_owned(), format!("publish:{name}"));
        let (publish, record) = (Some(Arc::new(publish)), self.record(table, path));
        Some(Named { name, url, live: Some(true), viewers, publish, record, ..Named::default() })
    }

    fn users(&mut self, value: &Value, path: &Path) -> Vec<Credentials> {
        let Some(table) = document::table(value, path, self.errors) else { return Vec::new() };
        if table.len() > MOST_USERS {
            let problem = format!("{} users", table.len());
            self.errors.add(value.span().start, path, problem, format!("{MOST_USERS} at most"));
        }
        let mut users = Vec::new();
        for (name, value) in table.iter() {
            let name: &str = name.get_ref();
            // Digest can't carry others, nor Basic a colon.
            if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_graphic() && !b":\"\\".contains(&byte)) {
                let accepted = "visible ASCII characters other than :, \" and \\";
                self.errors.add(value.span().start, path, format!("{name:?} can't be a user"), accepted);
            }
            let password = document::text_at(table, path, name, "the user's password", self.errors);
            password.into_iter().for_each(|password| users.push(Credentials { user: name.to_owned(), password }));
        }
        users
    }

    /// Reads who may do something, at a key. None where nothing is said.
    pub(super) fn access(&mut self, table: &Table, path: &Path, key: &str, users: &[Credentials]) -> Option<Access> {
        let (value, path) = (table.get(key)?, path.key(key));
        let table = document::table(value, &path, self.errors)?;
        document::only(table, &path, &["users", "tokens", "addresses"], self.errors);
        let known = |text: &str| users.iter().any(|own| own.user == text).then(|| text.to_owned());
        let users =
            self.several(table, &path, "users", "a user of [controllers.media.users], or a list of them", known);
        let accepted = "addresses such as \"10.0.1.0/24\" or \"2001:db8::1\", or a list of them";
        let addresses = self.several(table, &path, "addresses", accepted, prefix);
        Some(Access { users, tokens: self.tokens(table, &path), addresses })
    }

    /// Tokens are not repeated in messages.
    fn tokens(&mut self, table: &Table, path: &Path) -> Vec<Secret> {
        let (Some(value), path) = (table.get("tokens"), path.key("tokens")) else { return Vec::new() };
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
        let list = document::array(value, &path, self.errors).unwrap_or_default();
        let mut tokens = Vec::new();
        for (index, value) in list.iter().enumerate() {
            let path = path.index(index);
            let Some(text) = document::string(value, &path, TOKEN, self.errors) else { continue };
            if (16..=128).contains(&text.len()) && text.bytes().all(plain) {
                tokens.push(Secret(text.to_owned()));
            } else {
                self.errors.add(value.span().start, &path, "this is no token", TOKEN);
            }
        }
        tokens
    }
}

/// `10.0.1.0/24`, `2001:db8::1`: an address, and how many bits of it count.
pub fn prefix(text: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let length = length.map_or(Some(most), |length| length.parse().ok())?;
    (length <= most).then_some((address, length))
}

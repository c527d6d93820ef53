//! What etcd is asked, and what it says, by its JSON gateway (etcd 3.4 and later, `/v3/…`): keys and values are in
//! base64, 64-bit numbers are texts, and what is zero or empty is left out.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value as Json, json};

use super::etcd_value;
use super::found::{Found, Reason};
use crate::settings::Credentials;
use crate::settings::members::Announce;

/// A request: its path and its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The path.
    pub path: &'static str,
    /// The body.
    pub body: String,
}

fn ask(path: &'static str, body: &Json) -> Ask {
    Ask { path, body: body.to_string() }
}

fn text(bytes: impl AsRef<[u8]>) -> String {
    STANDARD.encode(bytes)
}

/// The end of the range of all keys with a prefix, which ends with a character of ASCII.
fn end_of(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    end.last_mut().into_iter().for_each(|last| *last += 1);
    end
}

/// Asks for keys of a prefix: so many, from `from` on, as they were at a revision (0: now).
pub fn range(prefix: &str, from: &[u8], limit: usize, revision: i64) -> Ask {
    let (key, range_end) = (text(from), text(end_of(prefix)));
    ask(
        "/v3/kv/range",
        &json!({ "key": key, "range_end": range_end, "limit": limit, "revision": revision.to_string() }),
    )
}

/// Asks for all changes of a prefix from a revision on.
pub fn watch(prefix: &str, from: i64) -> Ask {
    let (key, range_end) = (text(prefix), text(end_of(prefix)));
    let create =
        json!({ "key": key, "range_end": range_end, "start_revision": from.to_string(), "progress_notify": true });
    ask("/v3/watch", &json!({ "create_request": create }))
}

/// Asks for a lease of so many seconds.
pub fn grant(seconds: u64) -> Ask {
    ask("/v3/lease/grant", &json!({ "TTL": seconds.to_string() }))
}

/// Says that the holder of a lease is there.
pub fn keep_alive(lease: i64) -> Ask {
    ask("/v3/lease/keepalive", &json!({ "ID": lease.to_string() }))
}

/// Ends a lease, with its key.
pub fn revoke(lease: i64) -> Ask {
    ask("/v3/lease/revoke", &json!({ "ID": lease.to_string() }))
}

/// Sets a key with a lease if it is as it was at its revision (0: it is not there), and else asks for it.
pub fn set(key: &str, own: &Announce, lease: i64, was: i64) -> Ask {
    let key = text(key);
    let compare = json!([{ "key": key, "target": "MOD", "result": "EQUAL", "mod_revision": was.to_string() }]);
    let value = text(etcd_value::write(own));
    let put = json!([{ "request_put": { "key": key, "value": value, "lease": lease.to_string() } }]);
    let get = json!([{ "request_range": { "key": key } }]);
    ask("/v3/kv/txn", &json!({ "compare": compare, "success": put, "failure": get }))
}

/// Asks for one key.
pub fn get(key: &str) -> Ask {
    ask("/v3/kv/range", &json!({ "key": text(key) }))
}

/// Says who asks, by user and password, for a token.
pub fn authenticate(own: &Credentials) -> Ask {
    ask("/v3/auth/authenticate", &json!({ "name": own.user, "password": own.password }))
}

/// A key, its value, and who holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
    /// The lease by which it is there; 0: none.
    pub lease: i64,
    /// The revision at which it was set.
    pub revision: i64,
}

impl Entry {
    /// The member's name, and the member.
    pub fn member(&self, prefix: &str) -> (String, Found) {
        let name = name_of(&self.key, prefix);
        let found = match std::str::from_utf8(&self.key) {
            Ok(_) => etcd_value::read(&name, &self.value),
            Err(_) => Err(Reason::Name),
        };
        (name, found)
    }

    /// Whether it says just this of a proxy.
    pub fn is(&self, own: &Announce) -> bool {
        self.value == etcd_value::write(own).as_bytes()
    }

    /// Whether it says that a proxy is where this one is.
    pub fn is_at(&self, own: &Announce) -> bool {
        let there = etcd_value::read("name", &self.value);
        let port = |port: Option<u16>| port.unwrap_or(wire::rtsp::url::PORT);
        there.is_ok_and(|there| (&there.host, port(there.port)) == (&own.host, port(own.port)))
    }

    /// Where it says that a proxy is.
    pub fn place(&self) -> String {
        match etcd_value::read("name", &self.value) {
            Ok(own) => wire::rtsp::url::authority(&own.host, own.port),
            Err(_) => "an unknown address".into(),
        }
    }
}

/// A key without the prefix, as it is shown.
fn name_of(key: &[u8], prefix: &str) -> String {
    let key = String::from_utf8_lossy(key);
    key.strip_prefix(prefix).unwrap_or(&key).to_owned()
}

/// Keys of a prefix, or a part of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The revision of etcd.
    pub revision: i64,
    /// The keys, in order.
    pub entries: Vec<Entry>,
    /// Whether there are more behind these.
    pub more: bool,
}

/// What a watch says in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// What has changed up to a revision; maybe nothing.
    Changes(i64, Vec<Change>),
    /// Changes since the revision that was asked for are forgotten.
    Compacted,
    /// It watches no more.
    Ended(String),
}

/// A change of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The member's name.
    pub name: String,
    /// The member; none: it is gone.
    pub found: Option<Found>,
}

/// What a request to set a key has led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Set {
    /// It is set.
    Done,
    /// It is this, or not there any more.
    Is(Option<Entry>),
}

const UNREADABLE: &str = "what etcd says can't be read";

fn json_of(text: &[u8]) -> Result<Json, String> {
    serde_json::from_slice(text).map_err(|_| UNREADABLE.to_owned())
}

/// A number, which may be a text. What is not there is zero.
fn number(json: &Json, key: &str) -> Option<i64> {
    match json.get(key) {
        None => Some(0),
        Some(Json::String(text)) => text.parse().ok(),
        Some(own) => own.as_i64(),
    }
}

fn revision(json: &Json) -> Result<i64, String> {
    json.get("header").and_then(|header| number(header, "revision")).ok_or_else(|| UNREADABLE.to_owned())
}

fn bytes(json: &Json, key: &str) -> Option<Vec<u8>> {
    match json.get(key) {
        None => Some(Vec::new()),
        Some(own) => STANDARD.decode(own.as_str()?).ok(),
    }
}

fn entry(json: &Json) -> Option<Entry> {
    let (key, value) = (bytes(json, "key")?, bytes(json, "value")?);
    Some(Entry { key, value, lease: number(json, "lease")?, revision: number(json, "mod_revision")? })
}

fn entries(json: &Json) -> Result<Vec<Entry>, String> {
    let Some(all) = json.get("kvs") else { return Ok(Vec::new()) };
    let all = all.as_array().and_then(|all| all.iter().map(entry).collect());
    all.ok_or_else(|| UNREADABLE.to_owned())
}

/// Reads the answer to [`range`] and [`get`].
///
/// # Errors
/// It is none.
pub fn page(text: &[u8]) -> Result<Page, String> {
    let json = json_of(text)?;
    let more = json.get("more").and_then(Json::as_bool).unwrap_or(false);
    Ok(Page { revision: revision(&json)?, entries: entries(&json)?, more })
}

/// Reads the answer to [`grant`]: the lease, and after how many seconds it ends.
///
/// # Errors
/// It is none.
pub fn granted(text: &[u8]) -> Result<(i64, u64), String> {
    let json = json_of(text)?;
    let (lease, seconds) = (number(&json, "ID").unwrap_or(0), number(&json, "TTL").unwrap_or(0));
    match (lease, u64::try_from(seconds)) {
        (1.., Ok(seconds @ 1..)) => Ok((lease, seconds)),
        _ => Err("etcd gives no lease".to_owned()),
    }
}

/// Reads the answer to [`authenticate`]: the token.
///
/// # Errors
/// It is none.
pub fn token(text: &[u8]) -> Result<String, String> {
    let json = json_of(text)?;
    let token = json.get("token").and_then(Json::as_str).filter(|own| own.bytes().all(|byte| byte.is_ascii_graphic()));
    Ok(token.ok_or("etcd gives no token")?.to_owned())
}

/// Reads the answer to [`keep_alive`]: whether the lease is there still.
///
/// # Errors
/// It is none.
pub fn is_alive(text: &[u8]) -> Result<bool, String> {
    let json = json_of(text)?;
    if let Some(error) = json.get("error") {
        return Err(fault(error));
    }
    let result = json.get("result").ok_or(UNREADABLE)?;
    Ok(number(result, "TTL").unwrap_or(0) > 0)
}

/// Reads the answer to [`set`].
///
/// # Errors
/// It is none.
pub fn is_set(text: &[u8]) -> Result<Set, String> {
    let json = json_of(text)?;
    revision(&json)?;
    if json.get("succeeded").and_then(Json::as_bool).unwrap_or(false) {
        return Ok(Set::Done);
    }
    let got = json.get("responses").and_then(|all| all.get(0)?.get("response_range")).ok_or(UNREADABLE)?;
    Ok(Set::Is(entries(got)?.into_iter().next()))
}

/// Reads what a request that has failed was answered with.
pub fn failure(status: u16, text: &[u8]) -> String {
    if let Ok(json) = serde_json::from_slice::<Json>(text) {
        return fault(&json);
    }
    // Of some requests it says in plain text what is wrong.
    match std::str::from_utf8(text).map(str::trim) {
        Ok(plain) if !plain.is_empty() && !plain.starts_with('<') => format!("etcd says: {}", shown(plain)),
        _ => format!("etcd answers with status {status}"),
    }
}

fn fault(json: &Json) -> String {
    let text = ["message", "error"].iter().find_map(|key| json.get(key)?.as_str()).or(json.as_str());
    text.map_or_else(|| UNREADABLE.to_owned(), |text| format!("etcd says: {}", shown(text)))
}

/// What others have written, in a line of a log.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(200).map(|own| if own.is_control() { ' ' } else { own }).collect()
}

/// Reads a line of a watch of a prefix.
///
/// # Errors
/// It is none.
pub fn line(text: &[u8], prefix: &str) -> Result<Said, String> {
    let json = json_of(text)?;
    if let Some(error) = json.get("error") {
        return Ok(Said::Ended(fault(error)));
    }
    let result = json.get("result").ok_or(UNREADABLE)?;
    if number(result, "compact_revision").is_none_or(|own| own != 0) {
        return Ok(Said::Compacted);
    }
    if result.get("canceled").and_then(Json::as_bool).unwrap_or(false) {
        let why = result.get("cancel_reason").and_then(Json::as_str).unwrap_or("it watches no more");
        return Ok(Said::Ended(format!("etcd says: {}", shown(why))));
    }
    let mut changes = Vec::new();
    for event in result.get("events").and_then(Json::as_array).into_iter().flatten() {
        let entry = event.get("kv").and_then(entry).ok_or(UNREADABLE)?;
        // The usual type is left out.
        changes.push(match event.get("type").map_or(Some("PUT"), Json::as_str) {
            Some("PUT") => {
                let (name, found) = entry.member(prefix);
                Change { name, found: Some(found) }
            }
            Some("DELETE") => Change { name: name_of(&entry.key, prefix), found: None },
            _ => return Err(UNREADABLE.to_owned()),
        });
    }
    Ok(Said::Changes(revision(result)?, changes))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const PREFIX: &str = "/millrace/media/siblings/";

    fn own() -> Announce {
        Announce { host: "10.0.2.1".into(), port: Some(8554), weight: 1, ttl: Duration::from_secs(15) }
    }

    /// As etcdctl and curl show them, of etcd 3.4.23.
    #[test]
    fn answers_of_etcd_are_read() {
        let range = br#"{"header":{"cluster_id":"14841639068965178418","member_id":"10276657743932975437","revision":"4","raft_term":"2"},"kvs":[{"key":"L21pbGxyYWNlL21lZGlhL3NpYmxpbmdzL2Ux","create_revision":"2","mod_revision":"4","version":"2","value":"eyJob3N0IjoiMTAuMC4yLjEiLCJwb3J0Ijo4NTU0fQ==","lease":"7587883212297104648"}],"more":true,"count":"3"}"#;
        let page = page(range).unwrap();
        assert_eq!((page.revision, page.more, page.entries.len()), (4, true, 1));
        let entry = &page.entries[0];
        assert_eq!((entry.lease, entry.revision), (7_587_883_212_297_104_648, 4));
        let (name, found) = entry.member(PREFIX);
        let found = found.unwrap();
        assert_eq!((name.as_str(), found.host.as_str(), found.port, found.weight), ("e1", "10.0.2.1", Some(8554), 1));
        assert!(entry.is_at(&own()) && !entry.is_at(&Announce { port: None, ..own() }));
        assert_eq!(entry.place(), "10.0.2.1:8554");
        let empty = br#"{"header":{"revision":"1"}}"#;
        assert_eq!(super::page(empty).unwrap(), Page { revision: 1, entries: Vec::new(), more: false });

        assert_eq!(granted(br#"{"header":{"revision":"1"},"ID":"7587883212297104648","TTL":"15"}"#).unwrap().1, 15);
        assert!(granted(br#"{"header":{"revision":"1"},"error":"x"}"#).is_err());
        assert_eq!(
            token(br#"{"header":{"revision":"5"},"token":"tXMxPjyqnDZPDWlv.8"}"#).unwrap(),
            "tXMxPjyqnDZPDWlv.8"
        );
        for bad in [&br#"{"header":{"revision":"5"}}"#[..], br#"{"token":"a\r\nb"}"#, b"token"] {
            assert!(token(bad).is_err());
        }
        assert_eq!(is_alive(br#"{"result":{"header":{"revision":"1"},"ID":"7","TTL":"15"}}"#), Ok(true));
        assert_eq!(is_alive(br#"{"result":{"header":{"revision":"1"},"ID":"7"}}"#), Ok(false));
        assert_eq!(
            is_set(br#"{"header":{"revision":"5"},"succeeded":true,"responses":[{"response_put":{}}]}"#),
            Ok(Set::Done)
        );
        let held = br#"{"header":{"revision":"5"},"responses":[{"response_range":{"header":{"revision":"5"},"kvs":[{"key":"YQ==","value":"Yg==","mod_revision":"3"}],"count":"1"}}]}"#;
        assert!(
            matches!(is_set(held), Ok(Set::Is(Some(entry))) if entry.key == b"a" && entry.place() == "an unknown address")
        );
        let gone = br#"{"header":{"revision":"5"},"responses":[{"response_range":{"header":{"revision":"5"}}}]}"#;
        assert_eq!(is_set(gone), Ok(Set::Is(None)));
        let failed = br#"{"error":"etcdserver: requested lease not found","message":"etcdserver: requested lease not found","code":5}"#;
        assert_eq!(failure(404, failed), "etcd says: etcdserver: requested lease not found");
        for nothing in [&b"<html>"[..], b"", b"\xff"] {
            assert_eq!(failure(502, nothing), "etcd answers with status 502");
        }
        let plain = b"CommonName of client sending a request against gateway will be ignored\n";
        let said = "etcd says: CommonName of client sending a request against gateway will be ignored";
        assert_eq!(failure(400, plain), said);
    }

    #[test]
    fn lines_of_a_watch_are_read() {
        let created = br#"{"result":{"header":{"cluster_id":"1","revision":"4"},"created":true}}"#;
        assert_eq!(line(created, PREFIX), Ok(Said::Changes(4, Vec::new())));
        let both = br#"{"result":{"header":{"revision":"6"},"events":[{"kv":{"key":"L21pbGxyYWNlL21lZGlhL3NpYmxpbmdzL2Ux","mod_revision":"5","value":"eyJob3N0IjoiaCJ9"}},{"type":"DELETE","kv":{"key":"L21pbGxyYWNlL21lZGlhL3NpYmxpbmdzL2Uy","mod_revision":"6"}}]}}"#;
        let Ok(Said::Changes(6, changes)) = line(both, PREFIX) else { panic!() };
        assert_eq!(changes[0].found.as_ref().unwrap().as_ref().unwrap().host, "h");
        assert_eq!((changes[0].name.as_str(), &changes[1]), ("e1", &Change { name: "e2".into(), found: None }));
        let compacted = br#"{"result":{"header":{"revision":"9"},"canceled":true,"compact_revision":"7"}}"#;
        assert_eq!(line(compacted, PREFIX), Ok(Said::Compacted));
        for ended in [
            r#"{"result":{"header":{"revision":"9"},"canceled":true,"cancel_reason":"etcdserver: no leader"}}"#,
            r#"{"error":{"grpc_code":14,"http_code":503,"message":"etcdserver: no leader","http_status":"x"}}"#,
        ] {
            assert_eq!(line(ended.as_bytes(), PREFIX), Ok(Said::Ended("etcd says: etcdserver: no leader".into())));
        }
        for bad in ["", "{", "[]", "{\"result\":1}", r#"{"result":{"events":[{"kv":{"key":"!"}}]}}"#] {
            assert!(line(bad.as_bytes(), PREFIX).is_err(), "{bad}");
        }
        // Names that are no text, and values that are no members.
        let odd = br#"{"result":{"header":{"revision":"6"},"events":[{"kv":{"key":"L21pbGxyYWNlL21lZGlhL3NpYmxpbmdzL/8=","value":"eyJob3N0IjoiaCJ9"}},{"kv":{"key":"L21pbGxyYWNlL21lZGlhL3NpYmxpbmdzLw==","value":"eyJob3N0IjoiaCJ9"}}]}}"#;
        let Ok(Said::Changes(_, changes)) = line(odd, PREFIX) else { panic!() };
        assert!(changes.len() == 2 && changes.iter().all(|own| own.found == Some(Err(Reason::Name))), "{changes:?}");
    }

    #[test]
    fn a_prefix_has_an_end() {
        assert_eq!(end_of("/a/"), b"/a0");
        let body: Json = serde_json::from_str(&range("/a/", b"/a/b\0", 10, 5).body).unwrap();
        assert_eq!(body, json!({ "key": "L2EvYgA=", "range_end": "L2Ew", "limit": 10, "revision": "5" }));
    }
}

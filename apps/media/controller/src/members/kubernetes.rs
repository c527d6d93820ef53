//! What the API server of Kubernetes is asked, and what it says of a service's endpoints: lists and watches of
//! EndpointSlices (`discovery.k8s.io/v1`).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;

use super::etcd::shown;
use super::found::{Found, MOST_FOUND, Reason, server};
use crate::settings::members::ServicePort;

/// Slices that one answer has at most.
const PAGE: usize = 100;
/// The API server ends a watch after so many seconds, before others in between do.
const WATCH: u32 = 290;

fn path(namespace: &str, service: &str) -> String {
    // Names are letters, digits, - and . alone.
    let selector = format!("kubernetes.io%2Fservice-name%3D{service}");
    format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices?labelSelector={selector}")
}

/// Characters that a query's value has as they are (RFC 3986 section 2.3).
fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// The path of a list of a service's slices, or of what is behind a part of it.
pub fn list(namespace: &str, service: &str, behind: Option<&str>) -> String {
    let more = behind.map_or_else(String::new, |behind| format!("&continue={}", escaped(behind)));
    format!("{}&limit={PAGE}{more}", path(namespace, service))
}

/// The path of a watch of what follows a version.
pub fn watch(namespace: &str, service: &str, version: &str) -> String {
    let (path, version) = (path(namespace, service), escaped(version));
    format!("{path}&watch=1&allowWatchBookmarks=true&timeoutSeconds={WATCH}&resourceVersion={version}")
}

/// Endpoints of a slice, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Where endpoints have several addresses those of the lowest kind are taken: IPv4, IPv6, names.
    kind: u8,
    endpoints: Vec<(String, Found)>,
}

/// A part of a list of slices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The version of what is listed.
    pub version: String,
    /// What to ask for what is behind it.
    pub behind: Option<String>,
    /// Slices, by name.
    pub slices: Vec<(String, Slice)>,
}

/// What a watch says in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// A slice is so now; none: it is gone.
    Slice(String, Option<Slice>, String),
    /// Nothing has changed up to a version.
    Bookmark(String),
    /// What followed the version is forgotten (410): it is to be listed again.
    Expired,
    /// It watches no more.
    Ended(String),
}

const UNREADABLE: &str = "what the API server says can't be read";

/// The text at some keys, one below the other.
fn text<'j>(json: &'j Json, keys: &[&str]) -> Option<&'j str> {
    keys.iter().try_fold(json, |json, key| json.get(key))?.as_str()
}

fn flag(json: &Json, key: &str) -> Option<bool> {
    json.get(key).and_then(Json::as_bool)
}

/// Reads a part of a list.
///
/// # Errors
/// It is none.
pub fn page(bytes: &[u8], port: Option<&ServicePort>) -> Result<Page, String> {
    let json: Json = serde_json::from_slice(bytes).map_err(|_| UNREADABLE)?;
    let version = text(&json, &["metadata", "resourceVersion"]).ok_or(UNREADABLE)?.to_owned();
    let behind = text(&json, &["metadata", "continue"]).filter(|text| !text.is_empty()).map(str::to_owned);
    let items =
        json.get("items").filter(|own| !own.is_null()).map(|own| own.as_array().ok_or(UNREADABLE)).transpose()?;
    let slices = items.into_iter().flatten().map(|own| slice(own, port).ok_or_else(|| UNREADABLE.to_owned()));
    Ok(Page { version, behind, slices: slices.collect::<Result<_, _>>()? })
}

/// Reads a line of a watch.
///
/// # Errors
/// It is none.
pub fn line(bytes: &[u8], port: Option<&ServicePort>) -> Result<Said, String> {
    let json: Json = serde_json::from_slice(bytes).map_err(|_| UNREADABLE)?;
    let object = json.get("object").ok_or(UNREADABLE)?;
    let version = || text(object, &["metadata", "resourceVersion"]).map(str::to_owned).ok_or(UNREADABLE);
    Ok(match text(&json, &["type"]).ok_or(UNREADABLE)? {
        "ADDED" | "MODIFIED" => {
            let (name, slice) = slice(object, port).ok_or(UNREADABLE)?;
            Said::Slice(name, Some(slice), version()?)
        }
        "DELETED" => {
            let name = text(object, &["metadata", "name"]).ok_or(UNREADABLE)?;
            Said::Slice(name.to_owned(), None, version()?)
        }
        "BOOKMARK" => Said::Bookmark(version()?),
        "ERROR" if object.get("code").and_then(Json::as_u64) == Some(410) => Said::Expired,
        "ERROR" => Said::Ended(fault(object)),
        _ => return Err(UNREADABLE.to_owned()),
    })
}

/// Reads what a request that has failed was answered with.
pub fn failure(status: u16, bytes: &[u8]) -> String {
    let said = serde_json::from_slice(bytes).map(|json: Json| fault(&json)).ok().filter(|own| own != UNREADABLE);
    said.unwrap_or_else(|| format!("the API server answers with status {status}"))
}

fn fault(status: &Json) -> String {
    let message = text(status, &["message"]);
    message.map_or_else(|| UNREADABLE.to_owned(), |text| format!("the API server says: {}", shown(text)))
}

fn slice(json: &Json, port: Option<&ServicePort>) -> Option<(String, Slice)> {
    let name = text(json, &["metadata", "name"])?.to_owned();
    let kind = match text(json, &["addressType"])? {
        "IPv4" => 0,
        "IPv6" => 1,
        _ => 2,
    };
    let port = match port {
        Some(ServicePort::Number(number)) => Some(u64::from(*number)),
        named => port_of(json, named),
    };
    let all = json.get("endpoints").and_then(Json::as_array);
    let endpoints = all.into_iter().flatten().filter_map(|own| endpoint(own, port)).take(MOST_FOUND).collect();
    Some((name, Slice { kind, endpoints }))
}

/// The number of the port that is asked for; of UDP and others there is no RTSP.
fn port_of(slice: &Json, named: Option<&ServicePort>) -> Option<u64> {
    let is_tcp = |own: &&Json| text(own, &["protocol"]).is_none_or(|own| own == "TCP");
    let mut all = slice.get("ports")?.as_array()?.iter().filter(is_tcp);
    let own = match named {
        Some(ServicePort::Named(wanted)) => all.find(|own| text(own, &["name"]) == Some(wanted))?,
        _ => {
            let only = all.next()?;
            if all.next().is_some() {
                return None;
            }
            only
        }
    };
    own.get("port")?.as_u64()
}

/// An endpoint that serves: its pod's name, its host's, or else its address. Those that do not are no members.
fn endpoint(json: &Json, port: Option<u64>) -> Option<(String, Found)> {
    let conditions = json.get("conditions").unwrap_or(&Json::Null);
    // What is not said of an endpoint that is ready is that it is otherwise.
    let serves = flag(conditions, "serving").or(flag(conditions, "ready")).unwrap_or(true);
    if !serves || flag(conditions, "terminating") == Some(true) {
        return None;
    }
    let address = json.get("addresses").and_then(|all| all.get(0)?.as_str());
    let name = text(json, &["targetRef", "name"]).or(text(json, &["hostname"])).or(address).unwrap_or_default();
    let found = match (address, port) {
        (None, _) => Err(Reason::Host),
        (_, None) => Err(Reason::Port),
        (Some(address), port) => server(name, address, port, 1),
    };
    Some((name.to_owned(), found))
}

/// All that is found in some slices, by name. An endpoint may stand in several of them while they are arranged anew,
/// and has an address of each version of IP: it is one member.
pub fn found(slices: &BTreeMap<String, Slice>) -> Vec<(String, Found)> {
    let mut ordered: Vec<&Slice> = slices.values().collect();
    ordered.sort_by_key(|own| own.kind);
    let all = || ordered.iter().flat_map(|own| &own.endpoints);
    let mut names: BTreeSet<&str> = BTreeSet::new();
    let good: Vec<&(String, Found)> = all().filter(|own| own.1.is_ok() && names.insert(&own.0)).collect();
    let bad = all().filter(|own| own.1.is_err() && names.insert(&own.0));
    let mut found: Vec<(String, Found)> = good.into_iter().chain(bad).cloned().collect();
    found.sort_by(|one, other| one.0.cmp(&other.0));
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(kind: &str, ports: &Json, endpoints: &Json) -> Json {
        let metadata = json!({ "name": format!("edge-{kind}"), "resourceVersion": "9", "labels": {} });
        json!({ "metadata": metadata, "addressType": kind, "ports": ports, "endpoints": endpoints })
    }

    fn ports() -> Json {
        json!([{ "name": "http", "port": 8080, "protocol": "TCP" }, { "name": "rtsp", "port": 8554, "protocol": "TCP" },
               { "name": "rtp", "port": 8000, "protocol": "UDP" }])
    }

    fn rtsp() -> ServicePort {
        ServicePort::Named("rtsp".into())
    }

    fn all(list: &[Json], port: Option<&ServicePort>) -> Vec<(String, Found)> {
        let text = json!({ "metadata": { "resourceVersion": "12" }, "items": list }).to_string();
        found(&page(text.as_bytes(), port).unwrap().slices.into_iter().collect())
    }

    #[test]
    fn endpoints_that_serve_are_members() {
        let pod = |name: &str, address: &str, conditions: Json| json!({ "addresses": [address], "conditions": conditions, "targetRef": { "kind": "Pod", "name": name } });
        let endpoints = json!([
            pod("edge-0", "10.1.0.5", json!({ "ready": true, "serving": true, "terminating": false })),
            pod("edge-1", "10.1.0.6", json!({ "ready": false, "serving": false, "terminating": false })),
            pod("edge-2", "10.1.0.7", json!({ "ready": false, "serving": true, "terminating": true })),
            pod("edge-3", "10.1.0.8", json!({})),
            pod("edge-4", "10.1.0.9", json!({ "ready": false })),
            { "addresses": ["10.1.0.10"], "hostname": "edge-5" },
            { "addresses": ["10.1.0.11"] },
            { "addresses": [] },
            pod("edge 6", "10.1.0.12", json!({ "ready": true })),
        ]);
        let found = all(&[of("IPv4", &ports(), &endpoints)], Some(&rtsp()));
        let good: Vec<_> = found.iter().filter_map(|own| own.1.as_ref().ok()).collect();
        let expected =
            [("10.1.0.11", "10.1.0.11"), ("edge-0", "10.1.0.5"), ("edge-3", "10.1.0.8"), ("edge-5", "10.1.0.10")];
        assert_eq!(good.iter().map(|own| (&*own.name, &*own.host)).collect::<Vec<_>>(), expected);
        assert!(good.iter().all(|own| (own.port, own.weight) == (Some(8554), 1)));
        let bad: Vec<_> = found.iter().filter_map(|own| Some((own.0.as_str(), own.1.as_ref().err()?))).collect();
        assert_eq!(bad, [("", &Reason::Host), ("edge 6", &Reason::Name)]);
    }

    #[test]
    fn slices_of_both_versions_of_ip_are_one_service() {
        let endpoints = |addresses: &[&str]| {
            let one = |(at, own): (usize, &&str)| json!({ "addresses": [own], "targetRef": { "name": format!("edge-{at}") } });
            Json::Array(addresses.iter().enumerate().map(one).collect())
        };
        let v6 = of("IPv6", &ports(), &endpoints(&["2001:db8::1", "2001:db8::2", "2001:db8::3"]));
        let v4 = of("IPv4", &ports(), &endpoints(&["10.1.0.1", "10.1.0.2"]));
        for list in [[v6.clone(), v4.clone()], [v4, v6]] {
            let found = all(&list, Some(&rtsp()));
            let hosts: Vec<_> = found.iter().map(|own| own.1.as_ref().unwrap().host.as_str()).collect();
            assert_eq!(hosts, ["10.1.0.1", "10.1.0.2", "2001:db8::3"]);
        }
        // Which port is meant must be clear.
        let one = json!([{ "addresses": ["10.1.0.1"] }]);
        let port = |ports: &Json, wanted: Option<&ServicePort>| {
            all(&[of("IPv4", ports, &one)], wanted)[0].1.clone().map(|own| own.port)
        };
        assert_eq!(port(&ports(), None), Err(Reason::Port));
        assert_eq!(port(&ports(), Some(&ServicePort::Named("x".into()))), Err(Reason::Port));
        assert_eq!(port(&ports(), Some(&ServicePort::Number(554))), Ok(Some(554)));
        assert_eq!(port(&json!([{ "port": 8554 }]), None), Ok(Some(8554)));
        assert_eq!(port(&json!([{ "name": "rtsp", "port": null }]), Some(&rtsp())), Err(Reason::Port));
        assert_eq!(port(&Json::Null, None), Err(Reason::Port));
    }

    #[test]
    fn lines_of_a_watch_are_read() {
        let object = of("IPv4", &ports(), &json!([{ "addresses": ["10.1.0.1"] }]));
        let said = |kind: &str, object: &Json| {
            line(json!({ "type": kind, "object": object }).to_string().as_bytes(), Some(&rtsp()))
        };
        let Ok(Said::Slice(name, Some(slice), version)) = said("ADDED", &object) else { panic!() };
        assert_eq!((name.as_str(), slice.endpoints.len(), version.as_str()), ("edge-IPv4", 1, "9"));
        assert_eq!(said("DELETED", &object), Ok(Said::Slice("edge-IPv4".into(), None, "9".into())));
        let bookmark = json!({ "kind": "EndpointSlice", "metadata": { "resourceVersion": "15" } });
        assert_eq!(said("BOOKMARK", &bookmark), Ok(Said::Bookmark("15".into())));
        assert_eq!(
            said("ERROR", &json!({ "code": 410, "reason": "Expired", "message": "too old" })),
            Ok(Said::Expired)
        );
        let other = said("ERROR", &json!({ "code": 500, "message": "etcd\nis gone" }));
        assert_eq!(other, Ok(Said::Ended("the API server says: etcd is gone".into())));
        for bad in [
            "",
            "[]",
            "{}",
            r#"{"type":"ADDED","object":{}}"#,
            r#"{"type":"BOOKMARK","object":{}}"#,
            r#"{"type":"X","object":{}}"#,
        ] {
            assert!(line(bad.as_bytes(), None).is_err(), "{bad}");
        }
        assert_eq!(
            failure(403, br#"{"kind":"Status","message":"endpointslices is forbidden"}"#),
            "the API server says: endpointslices is forbidden"
        );
        assert_eq!(failure(500, b"oops"), "the API server answers with status 500");
    }

    #[test]
    fn paths() {
        let base = "/apis/discovery.k8s.io/v1/namespaces/tv/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3Dmedia-edge";
        assert_eq!(list("tv", "media-edge", Some("a=/+")), format!("{base}&limit=100&continue=a%3D%2F%2B"));
        let expected = format!("{base}&watch=1&allowWatchBookmarks=true&timeoutSeconds=290&resourceVersion=12");
        assert_eq!(watch("tv", "media-edge", "12"), expected);
        // What is last, and no list that is cut, is said so.
        let part = page(br#"{"metadata":{"resourceVersion":"3","continue":"x"},"items":[]}"#, None).unwrap();
        assert_eq!((part.version.as_str(), part.behind.as_deref()), ("3", Some("x")));
        let last = page(br#"{"metadata":{"resourceVersion":"3","continue":""},"items":null}"#, None).unwrap();
        assert_eq!((last.behind, last.slices.len()), (None, 0));
        assert!(page(br#"{"metadata":{},"items":[]}"#, None).is_err());
    }
}

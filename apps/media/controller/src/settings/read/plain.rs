//! Reads streams whose sources have no RTSP.

use std::collections::HashMap;
use std::fs;

use wire::sdp::Description;

use super::*;
use crate::settings::plain::{MP2T, Plain, is_place, place};

/// Bytes of a description at most.
const LONGEST: u64 = 64 << 10;
const PLACE: &str = "a group, or an own address other than that of loopback";

impl Reader<'_, '_> {
    /// Whether a stream's URL is one without RTSP.
    pub(super) fn is_plain(table: &Table) -> bool {
        let url = table.get("url").and_then(|value| value.get_ref().as_str()).unwrap_or("");
        ["rtp://", "udp://"].iter().any(|scheme| url.starts_with(scheme))
    }

    /// A stream whose source has no RTSP.
    pub(super) fn plain(&mut self, name: &str, table: &Table, path: &Path, settings: &Settings) -> Option<Named> {
        let described: &[&str] = if self.reads.transport_streams { &[] } else { &["sdp", "payload"] };
        let known = [&["url", "source", "interface", "viewers"], described, self.reads.of_stream].concat();
        document::only(table, path, &known, self.errors);
        let (value, at) = (table.get("url")?, path.key("url"));
        let accepted = "an address and a port, such as \"rtp://239.1.2.3:5004\" or \"udp://[ff15::1]:1234\"";
        let (first, bare) = self.parsed(value, &at, accepted, place)?;
        let description = self.description(table, value, path, bare)?;
        let places: Vec<_> = (0..description.media())
            .map(|track| {
                let (address, port) = description.media_place(track);
                let next = first.1.saturating_add(2 * track as u16);
                // The first one is where the URL says.
                if track == 0 { first } else { (address.unwrap_or(first.0), port.unwrap_or(next)) }
            })
            .collect();
        let start = value.span().start;
        if let Some((address, _)) = places.iter().find(|(address, _)| !is_place(*address)) {
            self.errors.add(start, &at, format!("{address} is nowhere to send streams to"), PLACE);
        }
        if (1..places.len()).any(|track| places[..track].contains(&places[track])) {
            self.errors.add(start, &at, "two streams of its description come to one port", "a port for each");
        }
        let grouped = places.iter().any(|(address, _)| address.is_multicast());
        let source = table.get("source").and_then(|value| {
            let of_kind = |own: &IpAddr| own.is_ipv4() == first.0.is_ipv4() && !own.is_multicast();
            let accepted = "the address of the only sender, of the same version of IP";
            self.parsed(value, &path.key("source"), accepted, |text| text.parse().ok().filter(of_kind))
        });
        let interface = document::text_at(table, path, "interface", "the name of a device", self.errors);
        if let Some(value) = table.get("interface").filter(|_| !grouped) {
            let accepted = "an interface where the address is a group's";
            self.errors.add(value.span().start, &path.key("interface"), "no group is joined", accepted);
        }
        let viewers = self.access(table, path, "viewers", &settings.users).map(Arc::new);
        let plain = Plain { places, source, interface, bare, description };
        let url = value.get_ref().as_str()?.to_owned();
        Some(Named {
            name: name.to_owned(),
            url,
            live: Some(true),
            plain: Some(Arc::new(plain)),
            viewers,
            record: self.record(table, path),
            ..Named::default()
        })
    }

    /// What a source sends: `sdp`, a file, or `payload`.
    fn description(&mut self, table: &Table, url: &Value, path: &Path, bare: bool) -> Option<Description> {
        let payload = table
            .get("payload")
            .map(|value| self.parsed(value, &path.key("payload"), "\"mp2t\"", |text| (text == "mp2t").then_some(MP2T)));
        let accepted = "the file of its description (SDP) with RTP streams";
        match (table.get("sdp"), payload) {
            (None, None) if !bare && !self.reads.transport_streams => {
                let accepted = "`sdp`, the file of its description, or `payload = \"mp2t\"`";
                self.errors.add(url.span().start, path, "what it sends is not said", accepted);
                None
            }
            (Some(value), Some(_)) => {
                let problem = "`payload` says what it sends, too";
                self.errors.add(value.span().start, &path.key("sdp"), problem, "one of them");
                None
            }
            (Some(value), None) if bare => {
                let problem = "an MPEG transport stream has no description of its own";
                self.errors.add(value.span().start, &path.key("sdp"), problem, "`sdp` with rtp:// alone");
                None
            }
            (Some(value), None) => {
                let path = path.key("sdp");
                let file = document::string(value, &path, accepted, self.errors)?;
                let read = fs::metadata(file).and_then(|own| match own.len() {
                    0..=LONGEST if own.is_file() => fs::read(file),
                    _ => Err(std::io::ErrorKind::InvalidInput.into()),
                });
                let found = match read {
                    Ok(bytes) => Description::parse(&bytes).map_err(|_| "it is none".to_owned()),
                    Err(error) => Err(error.to_string()),
                };
                let is_rtp = |own: &Description| (0..own.media()).all(|track| own.is_rtp(track));
                match found {
                    Ok(own) if is_rtp(&own) => return Some(own),
                    Ok(_) => self.errors.add(value.span().start, &path, format!("{file}: not all is RTP"), accepted),
                    Err(why) => self.errors.add(value.span().start, &path, format!("{file}: {why}"), accepted),
                }
                None
            }
            (None, payload) => Description::parse(payload.flatten().unwrap_or(MP2T).as_bytes()).ok(),
        }
    }

    /// No two streams have one port: whose a packet is would be a guess.
    pub(super) fn places_differ(&mut self, streams: &[Named], value: &Value, path: &Path) {
        let mut taken = HashMap::new();
        for own in streams {
            let places = own.plain.iter().flat_map(|plain| &plain.places);
            for place in places {
                if let Some(other) = taken.insert(*place, &own.name).filter(|other| **other != own.name) {
                    let (address, port) = place;
                    let problem = format!("{other} has port {port} of {address}, too");
                    self.errors.add(value.span().start, &path.key(&own.name), problem, "a port of its own for each");
                }
            }
        }
    }
}

//! Pages of the proxy's own: the list of all streams for players, and what passes. Clients' addresses are for operators
//! alone (`millrace translate sessions`).

use std::fmt::Write;

use serde_json::json;
use wire::flow_key::FlowKey;
use wire::rtsp::url;

use super::Proxy;
use super::world::World;
use crate::http::request::Request;
use crate::http::target::token;

/// A text as HTML has it.
fn escaped(text: &str) -> String {
    let one = |c: char| match c {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '"' => "&quot;".to_owned(),
        c => c.to_string(),
    };
    text.chars().map(one).collect()
}

impl<W: World> Proxy<W> {
    /// All streams of the configuration (M3U), with the URLs that the client reaches them by.
    pub(super) fn playlist(&self, key: &FlowKey, request: &Request) -> String {
        let own = std::net::IpAddr::V6(key.dst).to_canonical().to_string();
        let authority = match request.authority.as_str() {
            "" => url::authority(&own, Some(key.dst_port)),
            authority => authority.to_owned(),
        };
        // Who has a token for the list needs it for the streams.
        let plain = |own: &String| own.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte));
        let token = token(request).filter(plain).map(|own| format!("?token={own}")).unwrap_or_default();
        let mut out = "#EXTM3U\n".to_owned();
        for stream in &self.settings.sources.streams {
            let title = self.settings.delivery(Some(&stream.name)).title.as_deref().unwrap_or(&stream.name);
            // Writing to a text can't fail.
            let _ = write!(out, "#EXTINF:-1,{title}\nhttp://{authority}/{}{token}\n", stream.name);
        }
        out
    }

    /// What passes, as JSON.
    pub(super) fn status_json(&mut self) -> String {
        let (connections, _, _) = self.sizes();
        let counts = self.counts;
        let status = json!({
            "connections": connections,
            "requests": counts.requests,
            "refused": counts.refused,
            "streams": self.stream_states(),
        });
        format!("{status}\n")
    }

    /// The same as a page.
    pub(super) fn status_page(&mut self) -> String {
        let (connections, _, _) = self.sizes();
        let mut out = "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" \
            content=\"5\"><title>Millrace</title>\n<h1>Streams</h1>\n<table border=\"1\">\n<tr><th>stream<th>viewers\
            <th>packets<th>lost<th>late<th>seconds\n"
            .to_owned();
        for own in self.stream_states() {
            let (name, packets, lost, late) = (escaped(&own.stream), own.packets, own.lost, own.late);
            let (viewers, seconds) = (own.viewers, own.age_ms / 1000);
            let _ = writeln!(out, "<tr><td>{name}<td>{viewers}<td>{packets}<td>{lost}<td>{late}<td>{seconds}");
        }
        let _ = writeln!(out, "</table>\n<p>{connections} connections\n</html>");
        out
    }
}

//! DESCRIBE: the description of a presentation, with the proxy's own addresses and URLs.

use wire::rtsp::message::{Request, Response};
use wire::sdp::Written;

use super::target::{Target, track_url};
use super::world::World;
use super::{ClientId, Proxy, UpstreamId};

impl<W: World> Proxy<W> {
    pub(super) fn describe(&mut self, id: ClientId, request: Request) {
        let Some(target) = self.target_of(id, &request) else { return };
        if !self.admits(id, &request, &target) {
            return;
        }
        let accepts = |value: &str| {
            let kind = value.split(';').next().unwrap_or("").trim();
            ["application/sdp", "application/*", "*/*"].iter().any(|own| kind.eq_ignore_ascii_case(own))
        };
        if request.headers.get("accept").is_some() && !request.headers.list("accept").any(accepts) {
            return self.refuse(id, &request, 406);
        }
        let upstream = match self.upstream_for(&target) {
            Ok(upstream) => upstream,
            Err(status) => return self.refuse(id, &request, status),
        };
        self.note_proof(upstream, &request);
        if let Some(client) = self.clients.get_mut(&id).filter(|_| target.forwarded) {
            client.described = Some(upstream);
        }
        let Some(own) = self.upstreams.get_mut(&upstream) else { return };
        let Some(description) = own.description.clone() else {
            own.waiting.push((id, request));
            return self.describe_again(upstream);
        };
        own.used = self.now;
        let Some(client) = self.clients.get(&id) else { return };
        let local = client.local.ip();
        let control = |track: usize| match self.upstreams.get(&upstream).and_then(|own| own.tracks.get(track)) {
            Some(own) if target.forwarded => own.control.clone(),
            _ => track_url(&target.base, track),
        };
        let media: Vec<String> = (0..description.media()).map(control).collect();
        let (base, control) = match self.upstreams.get(&upstream) {
            Some(own) if target.forwarded => (own.base.clone(), description.control(&own.base)),
            _ => (format!("{}/", target.base), format!("{}/", target.base)),
        };
        let written = Written { address: local, session: upstream, control: &control, media: &media };
        let mut response = Response::new(200, request.cseq());
        response.headers.push("Content-Type", "application/sdp");
        response.headers.push("Content-Base", base);
        self.push_via(&mut response);
        response.body = description.written(&written).into_bytes();
        self.respond(id, response);
    }

    /// The presentation at its origin that a client may get: one that is there, or a new one, which is asked for; `Err`
    /// with the status where there are too many.
    pub(super) fn upstream_for(&mut self, target: &Target) -> Result<UpstreamId, u16> {
        if let Some(id) = self.there(&target.presentation) {
            return Ok(id);
        }
        // Nobody publishes it now.
        if target.publish.is_some() {
            return Err(404);
        }
        if self.upstreams.len() >= self.settings.limits.sessions {
            return Err(503);
        }
        let id = self.new_upstream(target)?;
        self.joinable.insert(target.presentation.clone(), id);
        Ok(id)
    }

    pub(super) fn push_via(&self, response: &mut Response) {
        response.headers.push("Via", format!("RTSP/1.0 {}", self.pseudonym));
    }
}

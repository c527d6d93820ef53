//! What origins are asked.

use http_auth::PasswordParams;
use wire::rtsp::message::Request;
use wire::rtsp::transport::Transport;

use super::upstream::Upstream;
use super::{ClientId, SessionId};

/// A request of a client that an answer of the origin answers: connection, request, session.
pub(super) type Waiter = (ClientId, Request, SessionId);

/// What is asked of an origin.
#[derive(Clone, Debug)]
pub(super) enum Job {
    /// What it can.
    Options,
    /// The description.
    Describe,
    /// A track.
    Setup {
        /// Its place in the description.
        track: usize,
    },
    /// To play.
    Play {
        /// Header fields of the client's.
        headers: Vec<(String, String)>,
        /// Who asked, where the presentation is one session's alone.
        waiter: Option<Waiter>,
    },
    /// To pause.
    Pause {
        /// Who asked.
        waiter: Waiter,
    },
    /// Parameters.
    Parameter {
        /// Who asked.
        waiter: Waiter,
    },
    /// To keep the session.
    KeepAlive,
}

impl Job {
    pub(super) fn into_waiter(self) -> Option<Waiter> {
        match self {
            Job::Play { waiter, .. } => waiter,
            Job::Pause { waiter } | Job::Parameter { waiter } => Some(waiter),
            _ => None,
        }
    }
}

impl Upstream {
    /// The method, URL and header fields of a request.
    pub(super) fn request(&mut self, job: &Job, via: &str) -> Request {
        let control = || self.description.as_ref().map_or(self.url.clone(), |own| own.control(&self.base));
        // Where a client proves who it is, the URL is what it proves that for.
        let of_client = |waiter: &Waiter| self.presentation.prover.map_or_else(control, |_| waiter.1.url.clone());
        let mut request = match job {
            Job::Options => Request::new("OPTIONS", &self.url),
            Job::Describe => {
                let mut request = Request::new("DESCRIBE", &self.url);
                request.headers.push("Accept", "application/sdp");
                self.asks_since().into_iter().for_each(|then| request.headers.push("If-Modified-Since", then));
                request
            }
            Job::Setup { track } => {
                let own = &self.tracks[*track];
                let wanted = match own.channels {
                    _ if self.is_multicast() => Transport::multicast(),
                    Some(channels) => Transport::tcp(channels),
                    None => Transport::udp((own.port, own.port + 1)),
                };
                let mut request = Request::new("SETUP", &own.control);
                request.headers.push("Transport", wanted.to_string());
                request
            }
            Job::Play { headers, waiter } => {
                let mut request = Request::new("PLAY", &waiter.as_ref().map_or_else(control, of_client));
                headers.iter().for_each(|(name, value)| request.headers.push(name, value.clone()));
                request
            }
            Job::Pause { waiter } => Request::new("PAUSE", &of_client(waiter)),
            Job::Parameter { waiter } => {
                let own = &waiter.1;
                let mut request = Request::new(&own.method, &of_client(waiter));
                own.headers.get("content-type").into_iter().for_each(|kind| request.headers.push("Content-Type", kind));
                request.body.clone_from(&own.body);
                request
            }
            Job::KeepAlive if self.knows_parameter => Request::new("GET_PARAMETER", &control()),
            Job::KeepAlive => Request::new("OPTIONS", &control()),
        };
        self.finish(&mut request, via);
        request
    }

    /// Adds what all requests have.
    pub(super) fn finish(&mut self, request: &mut Request, via: &str) {
        self.cseq = self.cseq.wrapping_add(1);
        request.headers.push("CSeq", self.cseq.to_string());
        request.headers.push("User-Agent", "Millrace");
        let before = self.via.iter().map(|before| format!("{before}, "));
        request.headers.push("Via", before.chain([format!("RTSP/1.0 {via}")]).collect::<String>());
        self.session.iter().for_each(|session| request.headers.push("Session", session.clone()));
        let credentials = self.credentials().cloned();
        if let (Some(auth), Some(credentials)) = (&mut self.auth, &credentials) {
            let answer = auth.respond(&PasswordParams {
                username: &credentials.user,
                password: &credentials.password,
                uri: &request.url,
                method: &request.method,
                body: Some(&request.body),
            });
            // What can't be answered is sent without: the origin says what it thinks of that.
            answer.into_iter().for_each(|answer| request.headers.push("Authorization", answer));
        }
        self.prove(request);
    }
}

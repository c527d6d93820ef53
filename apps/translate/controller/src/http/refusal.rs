//! Why requests are refused. Each reason is named here and nowhere else; clients get it as the body of the answer.

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status of the answer.
    pub status: u16,
    /// The reason, a sentence without its end.
    pub reason: &'static str,
}

macro_rules! refusals {
    ($($name:ident = $status:literal $reason:literal;)*) => {
        $(#[allow(missing_docs)] pub const $name: Refusal = Refusal { status: $status, reason: $reason };)*
        /// All of them.
        pub const ALL: &[Refusal] = &[$($name),*];
    };
}

refusals! {
    MALFORMED = 400 "The request can't be read";
    BAD_URL = 400 "The URL can't be read";
    BAD_PLACE = 400 "An address and a port are needed, such as /rtp/239.1.2.3:5004";
    NO_INTERFACE = 400 "Interfaces can't be chosen by URLs";
    NO_TLS = 400 "TLS is not spoken here";
    BODY = 400 "The request has a body, and is none that takes one";
    NO_PASSWORD = 401 "A password is needed";
    WRONG_PASSWORD = 401 "User or password are wrong";
    STALE = 401 "The proof of the password is one for another time";
    NOT_YOURS = 403 "This address may not view it";
    NO_TOKEN = 403 "A token is needed";
    WRONG_TOKEN = 403 "The token is wrong";
    GUESSED = 403 "Passwords or tokens from this address were wrong too often";
    NOT_ALLOWED = 403 "The configuration does not allow this source";
    NOTHING = 404 "There is nothing of this name";
    NOT_THERE = 404 "The server does not have this stream";
    METHOD = 405 "Streams are for GET and HEAD";
    LATE = 408 "The request did not come in time";
    EXPECTATION = 417 "No expectation can be met";
    LONG_URL = 414 "The URL is too long";
    LARGE_HEAD = 431 "The request's head is too large";
    SEEK = 501 "Time-shifted playback is not there";
    SNAPSHOT = 501 "Pictures of streams are not there";
    NO_TUNNEL = 501 "Tunnels are not there";
    NOT_A_TRANSPORT_STREAM = 502 "The server's stream is no MPEG transport stream over RTP";
    BAD_SERVER = 502 "The server can't be had, or does not do what it must";
    CONNECTIONS = 503 "There are as many connections as may be";
    OF_CLIENT = 503 "There are as many connections of this address as may be";
    OF_STREAM = 503 "The stream has as many viewers as it may";
    STREAMS = 503 "There are as many streams as may be";
    SILENT = 503 "Nothing comes from the stream's source";
    NO_SERVER = 503 "No server of the stream works";
    NO_SOCKET = 503 "The stream's port or group can't be had";
    HOST_DOWN = 502 "The HTTP server of the host can't be had";
    HOST_WRONG = 502 "What the HTTP server of the host says can't be read";
    TLS_DOWN = 502 "The TLS server of the host can't be had";
    HOST_SILENT = 504 "The HTTP server of the host does not answer";
    SLOW_SERVER = 504 "The server does not answer in time";
    VERSION = 505 "HTTP/1.0 and HTTP/1.1 are spoken here";
}

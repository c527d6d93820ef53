//! Requests and responses (RFC 2326 sections 4 to 7).

use std::fmt::Write as _;

use crate::refused::Refused;

/// Header fields of a message at most.
const MOST_FIELDS: usize = 128;

/// Header fields, in order. Names are compared without regard to case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, String)>);

impl Headers {
    /// The value of the first field of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// The values of all fields of this name.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Adds a field. Line ends in a value, which would begin a field of their own, become blanks.
    pub fn push(&mut self, name: &str, value: impl Into<String>) {
        let mut value = value.into();
        if value.contains(['\r', '\n']) {
            value = value.replace(['\r', '\n'], " ");
        }
        self.0.push((name.to_owned(), value));
    }

    /// The words of a field that is a list, such as `Public`, of all fields of this name.
    pub fn list(&self, name: &str) -> impl Iterator<Item = &str> {
        self.all(name).flat_map(|value| value.split(',')).map(str::trim).filter(|word| !word.is_empty())
    }

    /// The fields, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The method, in capital letters as it came.
    pub method: String,
    /// The URL as it came, or `*`.
    pub url: String,
    /// Major and minor version of RTSP.
    pub version: (u8, u8),
    /// The header.
    pub headers: Headers,
    /// The body.
    pub body: Vec<u8>,
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status, 100 to 999.
    pub status: u16,
    /// The reason phrase; may be empty.
    pub reason: String,
    /// Major and minor version of RTSP.
    pub version: (u8, u8),
    /// The header.
    pub headers: Headers,
    /// The body.
    pub body: Vec<u8>,
}

impl Request {
    /// A request of RTSP 1.0 without header fields.
    pub fn new(method: &str, url: &str) -> Request {
        let (method, url) = (method.to_owned(), url.to_owned());
        Request { method, url, version: (1, 0), headers: Headers::default(), body: Vec::new() }
    }

    /// The number that the response repeats; none where there is none, or it is no number.
    pub fn cseq(&self) -> Option<u32> {
        cseq(&self.headers)
    }

    /// As it is sent. `Content-Length` is that of the body, whatever the header says.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (major, minor) = self.version;
        bytes(format!("{} {} RTSP/{major}.{minor}\r\n", self.method, self.url), &self.headers, &self.body)
    }
}

impl Response {
    /// A response of RTSP 1.0 with the reason phrase of its status, and the number of the request.
    pub fn new(status: u16, cseq: Option<u32>) -> Response {
        let mut headers = Headers::default();
        cseq.into_iter().for_each(|cseq| headers.push("CSeq", cseq.to_string()));
        Response { status, reason: reason(status).to_owned(), version: (1, 0), headers, body: Vec::new() }
    }

    /// The number of the request that this answers.
    pub fn cseq(&self) -> Option<u32> {
        cseq(&self.headers)
    }

    /// As it is sent. `Content-Length` is that of the body, whatever the header says.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (major, minor) = self.version;
        bytes(format!("RTSP/{major}.{minor} {} {}\r\n", self.status, self.reason), &self.headers, &self.body)
    }
}

fn cseq(headers: &Headers) -> Option<u32> {
    headers.get("cseq")?.parse().ok()
}

fn bytes(mut head: String, headers: &Headers, body: &[u8]) -> Vec<u8> {
    for (name, value) in headers.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("content-length")) {
        // Writing to a text can't fail.
        let _ = write!(head, "{name}: {value}\r\n");
    }
    if !body.is_empty() {
        let _ = write!(head, "Content-Length: {}\r\n", body.len());
    }
    head.push_str("\r\n");
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// The reason phrase of a status (RFC 2326 section 7.1.1).
pub fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        200 => "OK",
        301 => "Moved Permanently",
        302 => "Moved Temporarily",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Time-out",
        409 => "Conflict",
        413 => "Request Entity Too Large",
        415 => "Unsupported Media Type",
        431 => "Request Header Fields Too Large",
        451 => "Parameter Not Understood",
        453 => "Not Enough Bandwidth",
        454 => "Session Not Found",
        455 => "Method Not Valid in This State",
        457 => "Invalid Range",
        459 => "Aggregate Operation Not Allowed",
        460 => "Only Aggregate Operation Allowed",
        461 => "Unsupported Transport",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Time-out",
        505 => "RTSP Version Not Supported",
        551 => "Option Not Supported",
        _ => "Unknown",
    }
}

/// The start of a message: a request without body and header, or a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A request.
    Request(Request),
    /// A response.
    Response(Response),
}

impl Message {
    /// Its body, to be filled.
    pub(super) fn body_mut(&mut self) -> &mut Vec<u8> {
        match self {
            Message::Request(request) => &mut request.body,
            Message::Response(response) => &mut response.body,
        }
    }

    fn headers(&self) -> &Headers {
        match self {
            Message::Request(request) => &request.headers,
            Message::Response(response) => &response.headers,
        }
    }

    /// Bytes of the body, as the header says. Two numbers that differ, and what is no number, are refused: where the
    /// message ends would be a guess.
    pub(super) fn content_length(&self) -> Result<usize, Refused> {
        let mut found = None;
        for value in self.headers().all("content-length") {
            let digits = !value.is_empty() && value.len() <= 9 && value.bytes().all(|byte| byte.is_ascii_digit());
            let length = value.parse().ok().filter(|_| digits).ok_or(Refused(400))?;
            if found.is_some_and(|found| found != length) {
                return Err(Refused(400));
            }
            found = Some(length);
        }
        Ok(found.unwrap_or(0))
    }
}

/// Reads a head, from the first line to the empty one. Lines may end with LF alone, and a response needs no reason
/// phrase: peers write both.
pub(super) fn head(bytes: &[u8]) -> Result<Message, Refused> {
    let end = bytes.iter().position(|byte| *byte == b'\n').ok_or(Refused(400))?;
    let line = str::from_utf8(&bytes[..end]).map_err(|_| Refused(400))?.trim_end_matches('\r');
    if line.bytes().any(|byte| byte.is_ascii_control()) {
        return Err(Refused(400));
    }
    let headers = headers(&bytes[end + 1..])?;
    if line.starts_with("RTSP/") {
        let (version, rest) = line.split_once(' ').ok_or(Refused(400))?;
        let (status, reason) = rest.split_once(' ').unwrap_or((rest, ""));
        let status = status.parse().ok().filter(|status| (100..1000).contains(status)).ok_or(Refused(400))?;
        let (version, reason) = (version_of(version).ok_or(Refused(400))?, reason.to_owned());
        return Ok(Message::Response(Response { status, reason, version, headers, body: Vec::new() }));
    }
    let mut words = line.split(' ').filter(|word| !word.is_empty());
    let (Some(method), Some(url), Some(version), None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(Refused(400));
    };
    let version = version_of(version).ok_or(Refused(400))?;
    if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.!#$+".contains(&byte)) {
        return Err(Refused(400));
    }
    let (method, url) = (method.to_owned(), url.to_owned());
    Ok(Message::Request(Request { method, url, version, headers, body: Vec::new() }))
}

/// `RTSP/1.0`
fn version_of(text: &str) -> Option<(u8, u8)> {
    let (major, minor) = text.strip_prefix("RTSP/")?.split_once('.')?;
    let number = |text: &str| text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    Some((number(major)?, number(minor)?))
}

fn headers(bytes: &[u8]) -> Result<Headers, Refused> {
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let found = match httparse::parse_headers(bytes, &mut fields) {
        Ok(httparse::Status::Complete((_, found))) => found,
        Err(httparse::Error::TooManyHeaders) => return Err(Refused(431)),
        _ => return Err(Refused(400)),
    };
    let field = |field: &httparse::Header| {
        let value = str::from_utf8(field.value).map_err(|_| Refused(400))?;
        Ok((field.name.to_owned(), value.trim().to_owned()))
    };
    Ok(Headers(found.iter().map(field).collect::<Result<_, _>>()?))
}

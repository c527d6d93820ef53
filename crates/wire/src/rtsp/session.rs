//! The `Session` header (RFC 2326 section 12.37).

/// Seconds after which a session without a sign of life ends, where the server says nothing.
pub const TIMEOUT: u32 = 60;

/// A session's id, and its timeout in seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The id.
    pub id: String,
    /// The timeout that the header says.
    pub timeout: Option<u32>,
}

/// Reads the header; none where there is no id. Ids of any visible characters are taken: cameras use more than RFC 2326
/// allows.
pub fn parse(header: &str) -> Option<Session> {
    let mut parts = header.split(';').map(str::trim);
    let id =
        parts.next().filter(|id| !id.is_empty() && id.len() <= 256 && id.bytes().all(|own| own.is_ascii_graphic()))?;
    let timeout = parts.find_map(|part| {
        let (name, value) = part.split_once('=')?;
        name.trim().eq_ignore_ascii_case("timeout").then(|| value.trim().parse().ok())?
    });
    Some(Session { id: id.to_owned(), timeout: timeout.filter(|timeout| *timeout > 0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_timeouts_are_read() {
        let session = |id: &str, timeout| Some(Session { id: id.into(), timeout });
        assert_eq!(parse("12345678"), session("12345678", None));
        assert_eq!(parse("a$b_c.d+e;timeout=30"), session("a$b_c.d+e", Some(30)));
        assert_eq!(parse(" a ; Timeout = 5 ; x"), session("a", Some(5)));
        assert_eq!(parse("a;timeout=0"), session("a", None));
        assert_eq!(parse("a;timeout=x"), session("a", None));
        assert_eq!([parse(""), parse(";timeout=3"), parse("a b")], [None, None, None]);
    }
}

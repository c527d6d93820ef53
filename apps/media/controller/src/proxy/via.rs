//! `Via`: the proxies that a request has come through (RFC 2326 section 12.43, RFC 2068 section 14.44), by which loops
//! are found.

use wire::rtsp::message::Headers;

/// Proxies that a request may have come through.
const MOST_HOPS: usize = 16;
/// Bytes of all that they say of themselves.
const MOST_BYTES: usize = 1024;

/// The name of a proxy: what it says of itself is its protocol, its name, and perhaps a comment.
fn name(hop: &str) -> Option<&str> {
    hop.split_ascii_whitespace().nth(1)
}

/// A request has been here before, or has come through too many proxies.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Looped;

/// The proxies that a request has come through, the first one first, as they stand in `Via`; none: it comes from a
/// client.
///
/// # Errors
/// It has come through the one of the name `own`, or through too many.
pub(super) fn passed(headers: &Headers, own: &str) -> Result<Option<String>, Looped> {
    let hops: Vec<&str> = headers.list("via").collect();
    let is_own = |hop: &&str| name(hop) == Some(own);
    let bytes: usize = hops.iter().map(|hop| hop.len() + 2).sum();
    if hops.iter().any(is_own) || hops.len() > MOST_HOPS || bytes > MOST_BYTES {
        return Err(Looped);
    }
    Ok((!hops.is_empty()).then(|| hops.join(", ")))
}

/// The names of those in what [`passed`] has found.
pub(super) fn names(passed: &str) -> impl Iterator<Item = &str> {
    passed.split(',').filter_map(name)
}

//! Bodies: their ends are where a simple reader finds them, in whatever pieces they come, with or without a look at all
//! of them, and through what control blocks keep.

use wire::body::{Body, Framing, Next};
use wire::http::Refused;

use super::unstructured::Unstructured;

/// Pieces of bodies in chunks.
pub const WORDS: &[&str] = &[
    "5\r\nhello\r\n",
    "0\r\n\r\n",
    "0\r\nA: b\r\n\r\n",
    "a;x=\"y\"\r\n",
    "fffffffffffffff\r\n",
    "\r\n",
    "\n",
    "\r",
    "00",
    " ",
    "-1\r\n",
];

/// Takes a framing, sizes of pieces, and bytes.
pub fn run(data: &[u8]) {
    let mut pieces = Unstructured(data);
    let framing = match pieces.byte() % 4 {
        0 => Framing::Length(pieces.word().into()),
        1 => Framing::Rest,
        _ => Framing::Chunked,
    };
    let sizes: Vec<usize> = pieces.bytes(4).iter().map(|size| usize::from(*size % 32) + 1).collect();
    let bytes = pieces.0;
    let mut whole = Body::new(framing);
    let expected = whole.feed(bytes);
    if let Ok(used) = expected {
        assert!(used <= bytes.len());
        assert_eq!(
            used < bytes.len(),
            whole.next() == Next::End && used < bytes.len(),
            "what is left over is behind the end"
        );
    }
    if framing == Framing::Chunked {
        assert_eq!(expected.is_ok_and(|_| whole.next() == Next::End).then(|| expected.unwrap_or(0)), simple(bytes));
    }
    let (mut body, mut at) = (Body::new(framing), 0);
    for size in sizes.iter().cycle() {
        let kept = Body::of_word(body.word());
        assert_eq!(kept.map(|kept| kept.word()), Some(body.word()), "it is kept as it is");
        if at == bytes.len() || body.next() == Next::End || sizes.is_empty() {
            break;
        }
        let piece = &bytes[at..bytes.len().min(at + size)];
        match body.next() {
            Next::Pass(most) if size.is_multiple_of(2) => {
                let count = piece.len().min(most as usize);
                body.passed(count as u32);
                at += count;
            }
            _ => match body.feed(piece) {
                Ok(used) => at += used,
                Err(error) => {
                    assert_eq!(expected, Err(error));
                    return;
                }
            },
        }
    }
    if !sizes.is_empty() {
        assert_eq!((Ok(at), body.word()), (expected, whole.word()));
    }
    // A limit that is not reached changes nothing, and one that is stops it.
    let mut limited = Body::limited(framing, 64);
    let found = limited.as_mut().map_err(|error| *error).and_then(|body| body.feed(bytes));
    assert!(found == expected || found == Err(Refused(413)), "{found:?} {expected:?}");
}

/// Where a body in chunks ends (RFC 9112 section 7.1), for one that is whole.
fn simple(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let line = &bytes[at..at + bytes[at..].windows(2).position(|two| two == b"\r\n")?];
        at += line.len() + 2;
        let (size, _) = match line.iter().position(|byte| b"; \t".contains(byte)) {
            Some(end) => line.split_at(end),
            None => (line, &[][..]),
        };
        let strange = |text: &[u8]| text.iter().any(|byte| b"\r\n".contains(byte));
        // A blank is followed by others or by an extension.
        let rest: &[u8] = line[size.len()..].trim_ascii_start();
        let blanks = line[size.len()..].len() - rest.len();
        let only_blanks = line[size.len()..][..blanks].iter().all(|byte| b" \t".contains(byte));
        if strange(line) || !only_blanks || !(rest.is_empty() || rest[0] == b';') || line.len() + 2 > 4000 {
            return None;
        }
        if size.is_empty() || size.len() > 15 || !size.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        let size = u64::from_str_radix(str::from_utf8(size).ok()?, 16).ok()?;
        if size >> 48 != 0 {
            return None;
        }
        if size == 0 {
            break;
        }
        let end = at.checked_add(usize::try_from(size).ok()?)?;
        if bytes.get(end..end.checked_add(2)?)? != b"\r\n" {
            return None;
        }
        at = end + 2;
    }
    for _ in 0..=128 {
        let line = &bytes[at..at + bytes[at..].windows(2).position(|two| two == b"\r\n")?];
        at += line.len() + 2;
        if line.is_empty() {
            return Some(at);
        }
        if line.iter().any(|byte| b"\r\n".contains(byte)) || line.len() + 2 > 4000 {
            return None;
        }
    }
    None
}

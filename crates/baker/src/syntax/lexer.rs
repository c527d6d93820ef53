//! Text to tokens. Every byte belongs to exactly one token; what begins no token becomes [`SyntaxKind::Unknown`].

use super::kind::SyntaxKind;
use super::literal::{self, LiteralError};

/// A token: its kind and where it ends; it starts where the one before ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: SyntaxKind,
    /// Byte offset of the first byte.
    pub(super) start: usize,
    /// Byte offset after the last byte.
    pub(super) end: usize,
    /// What is wrong with it.
    pub(super) error: Option<LexError>,
}

/// What is wrong with a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LexError {
    /// Characters that begin no token.
    Unknown,
    /// A name with a letter that is not ASCII.
    NonAsciiName,
    /// No `"` before the end of the line.
    UnterminatedString,
    /// No `*/`.
    UnterminatedComment,
    /// A literal without a value.
    Literal(LiteralError),
}

/// Splits a text into tokens.
pub(super) fn lex(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut start = 0;
    while start < text.len() {
        let (kind, len, error) = next_token(&text[start..], start == 0);
        debug_assert!(len > 0);
        let end = start + len;
        let error = error
            .or_else(|| literal::decode(kind, &text[start..end]).and_then(|value| value.err().map(LexError::Literal)));
        tokens.push(Token { kind, start, end, error });
        start = end;
    }
    tokens
}

/// Kind, length and error of the token at the start of `rest`, which is not empty.
fn next_token(rest: &str, at_start: bool) -> (SyntaxKind, usize, Option<LexError>) {
    let first = rest.chars().next().unwrap_or_default();
    if at_start && first == '\u{feff}' {
        return (SyntaxKind::Whitespace, first.len_utf8(), None);
    }
    if first.is_ascii_whitespace() {
        return (SyntaxKind::Whitespace, len_while(rest, |c| c.is_ascii_whitespace()), None);
    }
    if rest.starts_with("//") {
        return (SyntaxKind::LineComment, rest.find('\n').unwrap_or(rest.len()), None);
    }
    if let Some(inner) = rest.strip_prefix("/*") {
        return match inner.find("*/") {
            Some(i) => (SyntaxKind::BlockComment, i + 4, None),
            None => (SyntaxKind::BlockComment, rest.len(), Some(LexError::UnterminatedComment)),
        };
    }
    if let Some(inner) = rest.strip_prefix('"') {
        return match inner.find(['"', '\n', '\r']) {
            Some(i) if inner[i..].starts_with('"') => (SyntaxKind::String, i + 2, None),
            i => (SyntaxKind::String, i.unwrap_or(inner.len()) + 1, Some(LexError::UnterminatedString)),
        };
    }
    if let Some(len) = ipv6_len(rest) {
        return (SyntaxKind::Ipv6, len, None);
    }
    if let Some(len) = mac_len(rest) {
        return (SyntaxKind::Mac, len, None);
    }
    if first.is_ascii_digit() {
        return match dotted_len(rest) {
            Some(len) => (SyntaxKind::Ipv4, len, None),
            None => (SyntaxKind::Int, len_while(rest, is_word), None),
        };
    }
    if is_word(first) {
        let word = &rest[..len_while(rest, is_word)];
        let error = (!word.is_ascii()).then_some(LexError::NonAsciiName);
        return (SyntaxKind::reserved_word(word).unwrap_or(SyntaxKind::Name), word.len(), error);
    }
    match punctuation(rest) {
        Some((kind, len)) => (kind, len, None),
        // A run of such characters is one mistake.
        None => (SyntaxKind::Unknown, len_while(rest, begins_nothing), Some(LexError::Unknown)),
    }
}

/// Length in bytes of the longest prefix whose characters all satisfy `condition`.
fn len_while(text: &str, condition: impl Fn(char) -> bool) -> usize {
    text.find(|c| !condition(c)).unwrap_or(text.len())
}

/// Letters that are not ASCII are taken into names, to report the name as a whole.
fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn begins_nothing(c: char) -> bool {
    let mut buffer = [0; 4];
    !c.is_ascii_whitespace() && !is_word(c) && c != '"' && punctuation(c.encode_utf8(&mut buffer)).is_none()
}

/// Length of a MAC address: pairs of hexadecimal digits joined by `:`. Four pairs or more that are not exactly six are
/// a mistake in a MAC address rather than anything else, so they are taken as a whole.
fn mac_len(rest: &str) -> Option<usize> {
    let bytes = rest.as_bytes();
    let pair_at = |i: usize| bytes.get(i..i + 2).is_some_and(|p| p.iter().all(u8::is_ascii_hexdigit));
    let mut pairs = 0;
    let mut len = 0;
    while pair_at(len + usize::from(pairs > 0)) && (pairs == 0 || bytes[len] == b':') {
        len += 2 + usize::from(pairs > 0);
        pairs += 1;
    }
    // More of the same behind it: a pair too long or too short, or letters that are no digits.
    let more = rest[len..].chars().next().is_some_and(is_word)
        || rest[len..].strip_prefix(':').is_some_and(|r| r.starts_with(|c: char| c.is_ascii_hexdigit()));
    match pairs {
        6 if !more => Some(len),
        4.. => Some(len_while(rest, |c| is_word(c) || c == ':')),
        _ => None,
    }
}

/// Length of an IPv6 address (RFC 4291 section 2.2): with `::`, which nothing else has, or of eight groups. A `:`
/// behind it is that of a label or of `?:`.
fn ipv6_len(rest: &str) -> Option<usize> {
    let run = &rest[..len_while(rest, |c| c.is_ascii_hexdigit() || c == ':' || c == '.')];
    let address = match run.strip_suffix(':') {
        Some(before) if !before.ends_with(':') || before.ends_with("::") => before,
        _ => run,
    };
    let word = rest[run.len()..].starts_with(is_word);
    match address.contains("::") {
        // `::vec` is one mistake.
        true if word => Some(len_while(rest, |c| is_word(c) || c == ':' || c == '.')),
        true => Some(address.len()),
        false => (!word && address.parse::<std::net::Ipv6Addr>().is_ok()).then_some(address.len()),
    }
}

/// Length of decimal numbers joined by `.`, if there is at least one `.` with a digit behind it.
fn dotted_len(rest: &str) -> Option<usize> {
    let mut len = len_while(rest, |c| c.is_ascii_digit());
    let first = len;
    while rest[len..].starts_with('.') && rest[len + 1..].starts_with(|c: char| c.is_ascii_digit()) {
        len += 1 + len_while(&rest[len + 1..], |c| c.is_ascii_digit());
    }
    // `10.0.0.1x` is one mistake.
    (len > first).then(|| len + len_while(&rest[len..], is_word))
}

/// The longest operator or other punctuation at the start of `rest`.
fn punctuation(rest: &str) -> Option<(SyntaxKind, usize)> {
    use SyntaxKind::*;
    let bytes = rest.as_bytes();
    let three = bytes.get(..3).and_then(|b| match b {
        b"<<=" => Some(ShlEq),
        b">>=" => Some(ShrEq),
        _ => None,
    });
    if let Some(kind) = three {
        return Some((kind, 3));
    }
    let two = bytes.get(..2).and_then(|b| match b {
        b"->" => Some(Arrow),
        b"+=" => Some(PlusEq),
        b"-=" => Some(MinusEq),
        b"*=" => Some(StarEq),
        b"/=" => Some(SlashEq),
        b"%=" => Some(PercentEq),
        b"&=" => Some(AmpEq),
        b"|=" => Some(PipeEq),
        b"^=" => Some(CaretEq),
        b"++" => Some(PlusPlus),
        b"--" => Some(MinusMinus),
        b"||" => Some(OrOr),
        b"&&" => Some(AndAnd),
        b"==" => Some(EqEq),
        b"!=" => Some(NotEq),
        b"<=" => Some(LtEq),
        b">=" => Some(GtEq),
        b"<<" => Some(Shl),
        b">>" => Some(Shr),
        _ => None,
    });
    if let Some(kind) = two {
        return Some((kind, 2));
    }
    let one = match bytes.first()? {
        b'(' => LParen,
        b')' => RParen,
        b'[' => LBracket,
        b']' => RBracket,
        b'{' => LBrace,
        b'}' => RBrace,
        b';' => Semicolon,
        b',' => Comma,
        b':' => Colon,
        b'.' => Dot,
        b'?' => Question,
        b'@' => At,
        b'=' => Eq,
        b'|' => Pipe,
        b'^' => Caret,
        b'&' => Amp,
        b'<' => Lt,
        b'>' => Gt,
        b'+' => Plus,
        b'-' => Minus,
        b'*' => Star,
        b'/' => Slash,
        b'%' => Percent,
        b'!' => Bang,
        b'~' => Tilde,
        _ => return None,
    };
    Some((one, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kinds and texts, blanks left out.
    fn kinds(text: &str) -> Vec<(SyntaxKind, &str)> {
        let tokens = lex(text).into_iter().filter(|t| t.kind != SyntaxKind::Whitespace);
        tokens.map(|t| (t.kind, &text[t.start..t.end])).collect()
    }

    #[test]
    fn addresses_are_told_from_names_and_colons() {
        use SyntaxKind::*;
        assert_eq!(kinds("fe:dc:ba:98:76:54"), [(Mac, "fe:dc:ba:98:76:54")]);
        assert_eq!(kinds("02:00:00:00:00:01;"), [(Mac, "02:00:00:00:00:01"), (Semicolon, ";")]);
        assert_eq!(kinds("c?aa:bb"), [(Name, "c"), (Question, "?"), (Name, "aa"), (Colon, ":"), (Name, "bb")]);
        assert_eq!(kinds("ab:cd"), [(Name, "ab"), (Colon, ":"), (Name, "cd")]);
        assert_eq!(kinds("10.0.0.1"), [(Ipv4, "10.0.0.1")]);
        assert_eq!(kinds("ver.x"), [(Name, "ver"), (Dot, "."), (Name, "x")]);
        assert_eq!(kinds("1.x"), [(Int, "1"), (Dot, "."), (Name, "x")]);
    }

    #[test]
    fn ipv6_addresses_are_told_from_labels() {
        use SyntaxKind::*;
        for address in ["::", "::1", "fe80::1", "2001:db8::", "::ffff:10.0.0.1", "1:2:3:4:5:6:7:8", "aa:bb::cc:dd"] {
            assert_eq!(kinds(address), [(Ipv6, address)]);
            let label = format!("{address}:");
            assert_eq!(kinds(&label), [(Ipv6, address), (Colon, ":")]);
        }
        assert_eq!(kinds("low: ::1"), [(Name, "low"), (Colon, ":"), (Ipv6, "::1")]);
        assert_eq!(kinds("1:2:3"), [(Int, "1"), (Colon, ":"), (Int, "2"), (Colon, ":"), (Int, "3")]);
    }

    #[test]
    fn mistakes_are_one_token() {
        let one = |text: &str| {
            let tokens = lex(text);
            assert_eq!(tokens.len(), 1, "{text:?} gave {tokens:?}");
            (tokens[0].kind, tokens[0].error.expect("an error"))
        };
        use LexError::*;
        for mac in
            ["aa:bb:cc:dd:ee", "aa:bb:cc:dd:ee:f", "aa:bb:cc:dd:ee:ff:00", "aa:bb:cc:dd:ee:fff", "aa:bb:cc:dd:ee:fg"]
        {
            assert_eq!(one(mac), (SyntaxKind::Mac, Literal(LiteralError::BadMac)), "{mac}");
        }
        assert_eq!(one("10.0.0.1.2"), (SyntaxKind::Ipv4, Literal(LiteralError::BadIpv4)));
        assert_eq!(one("10.0.0.1x"), (SyntaxKind::Ipv4, Literal(LiteralError::BadIpv4)));
        for ipv6 in ["1::2::3", "::12345", "::1.2.3", ":::1", "::vec", "1:2:3:4:5:6:7:8::"] {
            assert_eq!(one(ipv6), (SyntaxKind::Ipv6, Literal(LiteralError::BadIpv6)), "{ipv6}");
        }
        assert_eq!(one("1.5"), (SyntaxKind::Ipv4, Literal(LiteralError::Fraction)));
        assert_eq!(one("60sec"), (SyntaxKind::Int, Literal(LiteralError::BadNumber)));
        assert_eq!(one("\"abc"), (SyntaxKind::String, UnterminatedString));
        assert_eq!(one("/* * /"), (SyntaxKind::BlockComment, UnterminatedComment));
        assert_eq!(one("/*/"), (SyntaxKind::BlockComment, UnterminatedComment));
        assert_eq!(one("größe"), (SyntaxKind::Name, NonAsciiName));
        assert_eq!(one("§$€#"), (SyntaxKind::Unknown, Unknown));
    }

    #[test]
    fn the_longest_operator_wins() {
        use SyntaxKind::*;
        let only = |text| kinds(text).into_iter().map(|(k, _)| k).collect::<Vec<_>>();
        assert_eq!(only("<<= >>= << >> <= >= ->"), [ShlEq, ShrEq, Shl, Shr, LtEq, GtEq, Arrow]);
        assert_eq!(only("a--->b"), [Name, MinusMinus, Arrow, Name]);
        assert_eq!(only("a/*x*/ / //y\n/=b"), [Name, BlockComment, Slash, LineComment, SlashEq, Name]);
    }
}

//! From tokens to lines: what stays on one line, where long lines are broken, where comments go.

use super::walk::{Start, Token};
use super::{INDENT, WIDTH};

/// A line of the result.
#[derive(Debug)]
pub(super) struct Line {
    /// Columns of indentation.
    pub indent: usize,
    /// Level of what it belongs to: the same for a statement and the lines on which it goes on.
    pub level: usize,
    /// Code, or a comment that stands alone.
    pub text: String,
    /// The comment at its end.
    pub comment: Option<String>,
    /// A comment that stands alone.
    pub is_comment: bool,
    /// An empty line before it.
    pub apart: bool,
}

/// The lines of a file.
pub(super) fn lines(tokens: &[Token]) -> Vec<Line> {
    let mut layout = Layout::default();
    // From one certain start of a line to the next; what has soft starts is one line, if it fits on one.
    for unit in tokens.chunk_by(|_, next| next.start.is_none_or(|start| start.soft)) {
        if fits_on_one_line(unit) {
            layout.line(unit, false);
            continue;
        }
        let mut rest = unit;
        while !rest.is_empty() {
            let end = rest.iter().skip(1).position(|t| t.start.is_some()).map_or(rest.len(), |i| i + 1);
            // What has a body is indented twice where it goes on, to tell it from the body.
            let has_body = matches!(rest[0].text.as_str(), "if" | "for" | "else" | "}") || rest[end - 1].text == "{";
            layout.line(&rest[..end], has_body);
            rest = &rest[end..];
        }
    }
    layout.lines
}

/// Whether a unit can be one line: nothing in it asks for an end of line, and it is not too long.
fn fits_on_one_line(unit: &[Token]) -> bool {
    if !unit.iter().skip(1).any(|t| t.start.is_some()) {
        return false;
    }
    let asks = |t: &Token| t.join.broken || t.comments.iter().any(|c| c.new_line || c.ends_line);
    let comments = |t: &Token| t.comments.iter().map(|c| width(&c.text) + 1).sum::<usize>();
    let indent = unit[0].start.map_or(0, |start| start.level * INDENT) + width_before(&unit[0]);
    let inside: usize = unit.iter().skip(1).map(|t| comments(t) + t.join.blanks + width(&t.text)).sum();
    !unit.iter().skip(1).any(asks) && indent + width(&unit[0].text) + inside <= WIDTH
}

/// Columns of the comments that stand in front of a unit on its line.
fn width_before(first: &Token) -> usize {
    if first.new_line {
        return 0;
    }
    let begins = first.comments.iter().rposition(|comment| comment.new_line).unwrap_or(0);
    first.comments[begins..].iter().map(|comment| width(&comment.text) + 1).sum()
}

/// Columns of a text.
pub(super) fn width(text: &str) -> usize {
    text.chars().count()
}

/// A token or a comment of a line.
struct Piece<'t> {
    text: &'t str,
    blanks: usize,
    /// A line is broken before it.
    forced: bool,
    break_at: Option<u32>,
    element: bool,
    opens: bool,
    closes: bool,
    /// A comment, and whether it stands at the end of its line.
    comment: Option<bool>,
}

/// An open bracket.
struct Bracket {
    /// Indentation of its line.
    indent: usize,
    /// No code follows it on its line.
    broken: bool,
}

#[derive(Default)]
struct Layout {
    lines: Vec<Line>,
    /// The last line opens braces: no empty line behind it.
    opened: bool,
}

impl Layout {
    /// One statement, field or the like, with the comments before it. Of its tokens only the first begins a line,
    /// unless all fit on one.
    fn line(&mut self, tokens: &[Token], has_body: bool) {
        let first = &tokens[0];
        let start = first.start.expect("a line begins with the start of a line");
        let leading = self.comments_before(first, start);
        let mut pieces: Vec<Piece> = leading.iter().map(|text| Piece::comment(text, 1, false, false)).collect();
        for (index, token) in tokens.iter().enumerate() {
            if index > 0 {
                pieces.extend(comments_within(token, pieces.last()));
            }
            pieces.push(Piece::token(token, index == 0, pieces.last()));
        }
        // The end of the file.
        if first.text.is_empty() && pieces.len() == 1 {
            return;
        }
        let apart = first.blank_line && leading.is_empty() && start.may_be_apart && !self.opened;
        let apart = apart && !self.lines.is_empty();
        let continued = start.level * INDENT + if has_body { 2 * INDENT } else { INDENT };
        let before = self.lines.len();
        self.pieces(&pieces, start.level, continued);
        self.lines[before].apart |= apart;
        self.opened = tokens.last().is_some_and(|t| t.text == "{");
    }

    /// Puts the comments before the first token of a line where they belong; returns those that stand on its line.
    fn comments_before<'t>(&mut self, token: &'t Token, start: Start) -> Vec<&'t str> {
        let same_line = token.comments.iter().take_while(|c| !c.new_line).count();
        let (behind, mut rest) = token.comments.split_at(same_line);
        let ends = rest.first().map_or(token.new_line, |c| c.new_line);
        if !self.lines.is_empty() && (ends || start.closes || !start.may_be_apart) {
            // At the end of the line before.
            if let Some(last) = self.lines.last_mut() {
                for comment in behind {
                    let text = last.comment.get_or_insert_default();
                    *text = format!("{text} {}", comment.text).trim_start().to_string();
                }
            }
        } else {
            rest = &token.comments;
        }
        let level = start.level + usize::from(start.closes && !token.text.is_empty());
        let mut text = Vec::new();
        let mut apart = false;
        for (index, comment) in rest.iter().enumerate() {
            if text.is_empty() {
                apart = comment.blank_line && !self.lines.is_empty() && !self.opened;
            }
            text.push(comment.text.as_str());
            let ends = rest.get(index + 1).map_or(token.new_line, |next| next.new_line);
            if ends || start.closes && index + 1 == rest.len() {
                self.lines.push(Line {
                    indent: level * INDENT,
                    level,
                    text: text.join(" "),
                    comment: None,
                    is_comment: true,
                    apart,
                });
                self.opened = false;
                text.clear();
            }
        }
        text
    }

    /// Breaks pieces into lines.
    fn pieces(&mut self, pieces: &[Piece], level: usize, continued: usize) {
        let mut brackets: Vec<Bracket> = Vec::new();
        let mut indent = level * INDENT;
        let mut from = 0;
        while from < pieces.len() {
            let to = line_end(pieces, from, indent);
            let mut line = Line { indent, level, text: String::new(), comment: None, is_comment: false, apart: false };
            for (index, piece) in pieces[from..to].iter().enumerate() {
                if piece.comment == Some(true) && index > 0 {
                    line.comment = Some(piece.text.to_string());
                    continue;
                }
                if index > 0 {
                    line.text.extend(std::iter::repeat_n(' ', piece.blanks));
                }
                line.text.push_str(piece.text);
                if piece.opens {
                    let broken = pieces[from + index + 1..to].iter().all(|p| p.comment == Some(true));
                    brackets.push(Bracket { indent, broken });
                } else if piece.closes {
                    brackets.pop();
                }
            }
            line.is_comment = pieces[from..to].iter().all(|p| p.comment.is_some());
            self.lines.push(line);
            from = to;
            if let Some(next) = pieces.get(to) {
                indent = indentation(next, &brackets, continued);
            }
        }
    }
}

/// Indentation of a line that begins with `piece`, which is not the first of its statement.
fn indentation(piece: &Piece, brackets: &[Bracket], continued: usize) -> usize {
    let innermost = brackets.last();
    if let Some(bracket) = innermost.filter(|_| piece.closes) {
        return bracket.indent;
    }
    let Some(bracket) = brackets.iter().rev().find(|b| b.broken) else { return continued };
    let direct = piece.element && innermost.is_some_and(|b| b.broken);
    bracket.indent + if direct { INDENT } else { 2 * INDENT }
}

/// Where the line ends that begins with the piece `from`: where it must, or where it gets too long at the outermost
/// place, the last one of several. A line without such a place stays too long.
fn line_end(pieces: &[Piece], from: usize, indent: usize) -> usize {
    let mut best: Option<(u32, usize)> = None;
    let mut columns = indent;
    for (index, piece) in pieces.iter().enumerate().skip(from) {
        if index > from {
            if piece.forced {
                return index;
            }
            if let Some(place) = piece.break_at
                && best.is_none_or(|(least, _)| place <= least)
            {
                best = Some((place, index));
            }
            // Too long already, and this is the first place.
            if let Some((_, place)) = best.filter(|_| columns > WIDTH) {
                return place;
            }
            columns += piece.blanks;
        }
        if piece.comment != Some(true) {
            columns += width(piece.text);
        }
        if let Some((_, place)) = best.filter(|_| columns > WIDTH) {
            return place;
        }
    }
    pieces.len()
}

/// The comments between two tokens of a line.
fn comments_within<'t>(token: &'t Token, before: Option<&Piece>) -> Vec<Piece<'t>> {
    let opened = before.is_some_and(|p| p.opens && p.text != "{");
    let piece = |(index, comment): (usize, &'t super::walk::Comment)| Piece {
        element: token.join.element,
        ..Piece::comment(&comment.text, usize::from(index > 0 || !opened), comment.new_line, comment.ends_line)
    };
    token.comments.iter().enumerate().map(piece).collect()
}

impl<'t> Piece<'t> {
    fn comment(text: &'t str, blanks: usize, forced: bool, ends_line: bool) -> Self {
        let comment = Some(ends_line && !forced);
        Piece { text, blanks, forced, break_at: None, element: false, opens: false, closes: false, comment }
    }

    fn token(token: &'t Token, first: bool, before: Option<&Piece>) -> Self {
        let text = token.text.as_str();
        let after_comment = before.is_some_and(|p| p.comment.is_some());
        let tight = matches!(text, ")" | "]" | "," | ";");
        Piece {
            text,
            blanks: if after_comment { usize::from(!tight) } else { token.join.blanks },
            forced: !first && (token.join.broken || after_comment && token.new_line),
            break_at: token.join.break_at,
            element: token.join.element,
            opens: matches!(text, "(" | "[" | "{"),
            closes: matches!(text, ")" | "]" | "}"),
            comment: None,
        }
    }
}

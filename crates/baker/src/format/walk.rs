//! From the tree to its tokens, each with what may stand before it.

use std::string::String;

use super::space;
use crate::syntax::ast::{self, AstNode};
use crate::syntax::{SyntaxElement, SyntaxKind, SyntaxNode, SyntaxToken};

use SyntaxKind::*;

/// A token that is not trivia, or the end of the file with an empty text.
#[derive(Debug)]
pub(super) struct Token {
    pub text: String,
    /// The comments before it, in their order.
    pub comments: Vec<Comment>,
    /// It was written on another line than what stands before it, comments included.
    pub new_line: bool,
    /// An empty line was there.
    pub blank_line: bool,
    /// It begins a line.
    pub start: Option<Start>,
    /// Where it does not: how it follows the token before.
    pub join: Join,
}

/// A comment.
#[derive(Debug)]
pub(super) struct Comment {
    pub text: String,
    /// As for a token.
    pub new_line: bool,
    /// As for a token.
    pub blank_line: bool,
    /// It ends its line.
    pub ends_line: bool,
}

/// The start of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    /// Levels of indentation.
    pub level: usize,
    /// It is one only where the braces, in which everything was written on one line, do not fit on one line.
    pub soft: bool,
    /// A `}`, or the end of the file: comments before it are indented as what they follow.
    pub closes: bool,
    /// It may have an empty line before it.
    pub may_be_apart: bool,
}

/// How a token follows another on a line.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Join {
    /// Blanks between the two.
    pub blanks: usize,
    /// A line that is too long may be broken here: first where this is least.
    pub break_at: Option<u32>,
    /// The line is broken here: the writer did so.
    pub broken: bool,
    /// The token begins an element of a list in brackets.
    pub element: bool,
}

/// A place to break a line that is used only where there is no other.
const LAST_RESORT: u32 = u32::MAX;

/// The tokens of a tree without errors, and the end of the file.
pub(super) fn tokens(root: &SyntaxNode) -> Vec<Token> {
    let mut walk = Walk::default();
    walk.node(root, 0, 0);
    walk.start(0, false, true);
    walk.push(String::new(), Join::default());
    walk.tokens
}

#[derive(Default)]
struct Walk {
    tokens: Vec<Token>,
    /// The last token.
    before: Option<SyntaxToken>,
    /// Comments and ends of lines since then, and ends of lines since the last of these comments.
    comments: Vec<Comment>,
    new_lines: usize,
    /// How the next token begins a line.
    next_start: Option<Start>,
    /// The next token may be broken off, as an element of a list or otherwise.
    next_break: Option<(u32, bool)>,
    /// Blanks that the next token gets in addition, to line up with others.
    padding: usize,
    /// Widths of the keywords and protocols of the ports that stand one below the other.
    port_columns: [usize; 2],
    /// For each open list in brackets: a line was broken behind the bracket.
    lists: Vec<bool>,
}

impl Walk {
    fn node(&mut self, node: &SyntaxNode, level: usize, depth: u32) {
        match node.kind() {
            SourceFile => {
                for element in node.children_with_tokens() {
                    match element {
                        SyntaxElement::Node(item) => {
                            self.start(level, false, false);
                            self.node(&item, level, depth);
                        }
                        SyntaxElement::Token(token) => self.token(&token, depth),
                    }
                }
            }
            Module | Struct | Enum | Protocol | Metadata | Program | Block => self.braced(node, level, depth),
            IfStmt | ForStmt => self.branches(node, level, depth),
            SwitchStmt => self.switch(node, level, depth),
            Port => self.port(node, level, depth),
            _ => self.parts(node, level, depth),
        }
    }

    fn parts(&mut self, node: &SyntaxNode, level: usize, depth: u32) {
        for element in node.children_with_tokens() {
            self.part(node, element, level, depth);
        }
    }

    fn part(&mut self, node: &SyntaxNode, part: SyntaxElement, level: usize, depth: u32) {
        match part {
            // The operators of a chain are equals: `a + b + c` is broken at any of them.
            SyntaxElement::Node(part) if is_chain(node, &part) => self.node(&part, level, depth),
            SyntaxElement::Node(part) => self.node(&part, level, depth + 1),
            SyntaxElement::Token(token) => self.token(&token, depth),
        }
    }

    /// Anything with lines in braces.
    fn braced(&mut self, node: &SyntaxNode, level: usize, depth: u32) {
        let layout = braces(node);
        let mut inside = false;
        for element in node.children_with_tokens() {
            match (element.kind(), layout) {
                (LBrace, _) => {
                    self.part(node, element, level, depth);
                    inside = true;
                }
                (RBrace, Braces::Lines { soft }) => {
                    self.start(level, soft, true);
                    self.part(node, element, level, depth);
                    inside = false;
                }
                (_, Braces::Lines { soft }) if inside && element.as_node().is_some() => {
                    self.start(level + 1, soft, false);
                    self.part(node, element, level + 1, depth);
                }
                _ => self.part(node, element, level, depth),
            }
        }
    }

    /// `if` and `for`: a branch without braces begins a line.
    fn branches(&mut self, node: &SyntaxNode, level: usize, depth: u32) {
        let mut in_header = true;
        let mut after_block = false;
        let mut after_else = false;
        for element in node.children_with_tokens() {
            let kind = element.kind();
            if kind == RParen {
                in_header = false;
            } else if kind == ElseKw {
                after_else = true;
                if !after_block || !self.comments.is_empty() {
                    self.start(level, false, false);
                    self.adjoin();
                }
            } else if element.as_node().is_some() && !in_header {
                after_block = kind == Block;
                if !(after_block || after_else && kind == IfStmt) {
                    self.start(level + 1, false, false);
                    self.adjoin();
                    self.part(node, element, level + 1, depth);
                    continue;
                }
            }
            self.part(node, element, level, depth);
        }
    }

    /// Labels are indented as their `switch`; what is in braces behind one stays on its line.
    fn switch(&mut self, node: &SyntaxNode, level: usize, depth: u32) {
        let empty = matches!(braces(node), Braces::Empty);
        for element in node.children_with_tokens() {
            match element {
                SyntaxElement::Node(arm) if arm.kind() == SwitchArm => self.switch_arm(&arm, level, depth),
                _ => {
                    if element.kind() == RBrace && !empty {
                        self.start(level, false, true);
                    }
                    self.part(node, element, level, depth);
                }
            }
        }
    }

    fn switch_arm(&mut self, node: &SyntaxNode, level: usize, depth: u32) {
        let one_block = ast::SwitchArm::cast(node.clone())
            .is_some_and(|arm| arm.stmts().count() == 1 && arm.stmts().all(|s| matches!(s, ast::Stmt::Block(_))));
        let mut labels = 0;
        for element in node.children_with_tokens() {
            let kind = element.kind();
            if kind == CaseLabel {
                self.start(level, false, false);
                if labels > 0 {
                    self.adjoin();
                }
                labels += 1;
            } else if element.as_node().is_some() && !(one_block && self.comments.is_empty()) {
                self.start(level + 1, false, false);
                self.part(node, element, level + 1, depth);
                continue;
            }
            self.part(node, element, level, depth);
        }
    }

    /// Ports that stand one below the other have their protocols and names in columns.
    fn port(&mut self, node: &SyntaxNode, level: usize, depth: u32) {
        if port_next_to(node, rowan::Direction::Prev).is_none() {
            self.port_columns = port_columns(node);
        }
        let own = port_widths(node).unwrap_or(self.port_columns);
        for (index, element) in node.children_with_tokens().filter(|e| !is_blank(e)).enumerate() {
            self.padding = match index {
                1 | 2 => self.port_columns[index - 1] - own[index - 1],
                _ => 0,
            };
            self.part(node, element, level, depth);
        }
    }

    /// The next token begins a line.
    fn start(&mut self, level: usize, soft: bool, closes: bool) {
        self.next_start = Some(Start { level, soft, closes, may_be_apart: !closes });
    }

    /// The line that the next token begins belongs to the one before.
    fn adjoin(&mut self) {
        if let Some(start) = &mut self.next_start {
            start.may_be_apart = false;
        }
    }

    fn token(&mut self, token: &SyntaxToken, depth: u32) {
        match token.kind() {
            Whitespace => self.new_lines += token.text().matches('\n').count(),
            LineComment | BlockComment => self.comment(token),
            _ => self.significant(token, depth),
        }
    }

    fn comment(&mut self, token: &SyntaxToken) {
        let text = token.text().trim_end().replace("\r\n", "\n");
        // What has several lines stands on lines of its own.
        let tall = text.contains('\n');
        let new_lines = std::mem::take(&mut self.new_lines);
        self.comments.push(Comment {
            new_line: new_lines > 0 || tall || self.comments.last().is_some_and(|c| c.ends_line),
            blank_line: new_lines > 1,
            ends_line: tall || token.kind() == LineComment,
            text,
        });
    }

    fn significant(&mut self, token: &SyntaxToken, depth: u32) {
        let parent = token.parent().map_or(SourceFile, |p| p.kind());
        let next_break = std::mem::take(&mut self.next_break);
        let written_apart = self.new_lines > 0 || !self.comments.is_empty() && self.comments.iter().any(|c| c.new_line);
        let mut join = Join::default();
        if let Some(before) = &self.before {
            let padding = if self.comments.is_empty() { self.padding } else { 0 };
            join.blanks = if space::between(before, token) { 1 + padding } else { 0 };
        }
        if is_list_end(parent, token.kind()) {
            let opened = self.lists.pop().unwrap_or(false);
            let empty = next_break.is_some() && self.before.as_ref().is_some_and(|t| t.kind() != Comma);
            join.broken = opened && !empty && self.new_lines > 0;
        } else if let Some((place, element)) = next_break {
            let after_opener = element && self.before.as_ref().is_some_and(|t| t.kind() != Comma);
            if let Some(opened) = self.lists.last_mut().filter(|_| after_opener) {
                *opened = written_apart;
            }
            join = Join { break_at: Some(place), element, broken: self.new_lines > 0, ..join };
        } else if may_break_before(parent, token.kind()) {
            join.break_at = Some(depth);
            join.broken = self.new_lines > 0 || line_ends_behind(token);
        }
        self.next_break = break_behind(parent, token.kind(), depth);
        if is_list_start(parent, token.kind()) {
            self.lists.push(false);
            self.next_break = Some((depth, true));
        }
        self.push(token.text().to_string(), join);
        self.before = Some(token.clone());
    }

    fn push(&mut self, text: String, join: Join) {
        let new_lines = std::mem::take(&mut self.new_lines);
        let comments = std::mem::take(&mut self.comments);
        self.tokens.push(Token {
            text,
            new_line: new_lines > 0 || comments.last().is_some_and(|c| c.ends_line),
            blank_line: new_lines > 1,
            comments,
            start: self.next_start.take(),
            join,
        });
    }
}

/// How the inside of braces is laid out.
#[derive(Clone, Copy)]
enum Braces {
    /// Each element begins a line; `soft`: unless all fits on one.
    Lines { soft: bool },
    /// There is nothing.
    Empty,
}

fn braces(node: &SyntaxNode) -> Braces {
    let inside = || node.children_with_tokens().skip_while(|e| e.kind() != LBrace).skip(1);
    if inside().take_while(|e| e.kind() != RBrace).all(|e| e.kind() == Whitespace) {
        return Braces::Empty;
    }
    let is_simple = |kind| {
        matches!(kind, StructField | Field | Demux | Length | Pseudo | Enumerator | Wire | Instances)
            || matches!(
                kind,
                LetStmt | Const | AssignStmt | IncDecStmt | ExprStmt | ReturnStmt | BreakStmt | ContinueStmt
            )
    };
    let has_else = |n: SyntaxNode| n.kind() == IfStmt && n.children_with_tokens().any(|e| e.kind() == ElseKw);
    let soft = node.kind() != Module
        && inside().filter_map(SyntaxElement::into_node).all(|n| is_simple(n.kind()))
        && !inside().take_while(|e| e.kind() != RBrace).any(|e| has_new_line(&e))
        && !(node.kind() == Block && node.parent().is_some_and(has_else));
    Braces::Lines { soft }
}

fn has_new_line(element: &SyntaxElement) -> bool {
    match element {
        SyntaxElement::Node(node) => node.text().contains_char('\n'),
        SyntaxElement::Token(token) => token.text().contains('\n'),
    }
}

fn is_blank(element: &SyntaxElement) -> bool {
    element.kind() == Whitespace
}

/// Whether `part` is the left side of an operator that binds as `node`'s.
fn is_chain(node: &SyntaxNode, part: &SyntaxNode) -> bool {
    let precedence = |n: &SyntaxNode| ast::BinaryExpr::cast(n.clone())?.op().map(ast::BinaryOp::precedence);
    let own = precedence(node);
    own.is_some() && own == precedence(part) && node.first_child().as_ref() == Some(part)
}

fn may_break_before(parent: SyntaxKind, kind: SyntaxKind) -> bool {
    match parent {
        BinaryExpr => true,
        TernaryExpr => matches!(kind, Question | Colon),
        FromClause => kind == FromKw,
        OverClause => kind == OverKw,
        IntoClause => kind == IntoKw,
        EveryClause => kind == EveryKw,
        DeadlineClause => kind == AtKw,
        OfClause => kind == OfKw,
        DropClause => kind == DropKw,
        BatchClause => matches!(kind, BatchKw | WithinKw),
        _ => false,
    }
}

/// Whether a line may be broken behind a token, and whether an element of a list in brackets begins there.
fn break_behind(parent: SyntaxKind, kind: SyntaxKind, depth: u32) -> Option<(u32, bool)> {
    match (parent, kind) {
        (ArgList | ParamList | ModuleParams | StructValue, Comma) => Some((depth, true)),
        (Reasons | Port | Instances | Covers | Counts | Pseudo | CaseLabel, Comma) | (ForStmt, Semicolon) => {
            Some((depth, false))
        }
        (Const | LetStmt | Field | Enumerator, Eq) => Some((LAST_RESORT, false)),
        (AssignStmt, kind) if kind != Semicolon => Some((LAST_RESORT, false)),
        _ => None,
    }
}

fn is_list_start(parent: SyntaxKind, kind: SyntaxKind) -> bool {
    matches!((parent, kind), (ArgList | ParamList | ModuleParams, LParen) | (StructValue, LBrace))
}

fn is_list_end(parent: SyntaxKind, kind: SyntaxKind) -> bool {
    matches!((parent, kind), (ArgList | ParamList | ModuleParams, RParen) | (StructValue, RBrace))
}

/// Whether nothing but the end of the line stands behind an operator; the line is then broken before it.
fn line_ends_behind(operator: &SyntaxToken) -> bool {
    let Some(blanks) = operator.next_token().filter(|t| t.kind() == Whitespace) else { return false };
    blanks.text().contains('\n') && blanks.next_token().is_some_and(|t| !t.kind().is_trivia())
}

/// The greatest widths of keyword and protocol from a port on.
fn port_columns(first: &SyntaxNode) -> [usize; 2] {
    let below = std::iter::successors(Some(first.clone()), |n| port_next_to(n, rowan::Direction::Next));
    below.filter_map(|n| port_widths(&n)).fold([0; 2], |most, own| [most[0].max(own[0]), most[1].max(own[1])])
}

/// Widths of the keyword and the protocol of an `in` or `out` port.
fn port_widths(node: &SyntaxNode) -> Option<[usize; 2]> {
    let port = ast::Port::cast(node.clone())?;
    let keyword = match port.kind()? {
        ast::PortKind::In => "in",
        ast::PortKind::Out => "out",
        ast::PortKind::Channel => return None,
    };
    Some([keyword.len(), port.protocol()?.text().len()])
}

/// The `in` or `out` port before or behind a port, without an empty line between.
fn port_next_to(node: &SyntaxNode, direction: rowan::Direction) -> Option<SyntaxNode> {
    let between = node.siblings_with_tokens(direction).skip(1);
    for element in between {
        match element {
            SyntaxElement::Node(node) => return port_widths(&node).is_some().then_some(node),
            SyntaxElement::Token(token) => {
                if token.kind() == Whitespace && token.text().matches('\n').count() > 1 {
                    return None;
                }
            }
        }
    }
    None
}

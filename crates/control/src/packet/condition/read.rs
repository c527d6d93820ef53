//! Conditions from text, by Baker's parser.

use baker::ir::{Program, prefix_mask};
use baker::source::FileId;
use baker::syntax::ast::{AstNode, BinaryExpr, BinaryOp, Expr, Item, LiteralValue, MemberExpr, UnaryOp};
use baker::syntax::parse;

use super::{Number, Test};
use crate::messages::did_you_mean;

/// What an expression is parsed as the value of.
const FRONT: &str = "const bool condition = ";
const PREFIX: &str = "a prefix is compared with a field, by == or !=";
/// Where something is missing; the parser has said so already.
const HALF: &str = "it is not complete";

/// A condition.
///
/// # Errors
/// What is wrong with it.
pub fn test(program: &Program, text: &str) -> Result<Test, String> {
    let wrong = |what: String| format!("{text:?} is no condition: {what}");
    // Also behind a comment.
    let parsed = parse(FileId(0), &format!("{FRONT}{}\n;", equal_signs(text)));
    if let Some(error) = parsed.errors().first() {
        return Err(wrong(without_front(&error.title)));
    }
    let mut items = parsed.tree().items();
    let (Some(Item::Const(constant)), None) = (items.next(), items.next()) else {
        return Err(wrong("it is more than an expression".into()));
    };
    let value = constant.value().ok_or_else(|| wrong("it is empty".into()))?;
    Reader { program }.test(&value).map_err(wrong)
}

/// What the parser has found, as if there were nothing but the expression.
fn without_front(title: &str) -> String {
    match title.strip_prefix("expected `;` after this constant, found ") {
        Some(found) => format!("{found} is too much, or an operator is missing in front of it"),
        None => title.replace("found `;`", "but there it ends"),
    }
}

/// `=` as it is written elsewhere for `==`.
fn equal_signs(text: &str) -> String {
    let signs: Vec<char> = text.chars().collect();
    let single = |at: usize| {
        let before = at.checked_sub(1).map(|at| signs[at]);
        signs[at] == '=' && !matches!(before, Some('=' | '!' | '<' | '>')) && signs.get(at + 1) != Some(&'=')
    };
    (0..signs.len()).flat_map(|at| std::iter::repeat_n(signs[at], if single(at) { 2 } else { 1 })).collect()
}

struct Reader<'p> {
    program: &'p Program,
}

impl Reader<'_> {
    fn test(&self, expr: &Expr) -> Result<Test, String> {
        let pair =
            |binary: &BinaryExpr| Ok::<_, String>(Box::new([self.side(binary.lhs())?, self.side(binary.rhs())?]));
        match expr {
            Expr::Paren(paren) => self.side(paren.inner()),
            Expr::Unary(unary) if unary.op() == Some(UnaryOp::Not) => {
                Ok(Test::Not(Box::new(self.side(unary.operand())?)))
            }
            Expr::Binary(binary) => match binary.op() {
                Some(BinaryOp::And) => Ok(Test::Both(pair(binary)?)),
                Some(BinaryOp::Or) => Ok(Test::Either(pair(binary)?)),
                Some(op) if is_comparison(op) => self.compared(op, binary),
                _ if [binary.lhs(), binary.rhs()].iter().flatten().any(is_compared) => Err(format!(
                    "in {:?} the comparison comes first; put what is compared in parentheses",
                    written(expr)
                )),
                _ => Err(format!("{:?} is a number; compare it with another one", written(expr))),
            },
            Expr::Name(name) => {
                let name = name.name().map_or_else(String::new, |name| name.text().to_owned());
                self.protocol(&name).map(|protocol| Test::Has(protocol.name.clone()))
            }
            Expr::Member(_) => {
                Err(format!("{0:?} is a number; compare it with another one, such as {0} == 1", written(expr)))
            }
            _ => Err(format!(
                "{:?} is neither a comparison, such as ipv4.dst == 10.0.1.80, nor a protocol",
                written(expr)
            )),
        }
    }

    /// One side of an operator.
    fn side(&self, expr: Option<Expr>) -> Result<Test, String> {
        self.test(&expr.ok_or(HALF)?)
    }

    fn compared(&self, op: BinaryOp, binary: &BinaryExpr) -> Result<Test, String> {
        let (Some(left), Some(right)) = (binary.lhs(), binary.rhs()) else { return Err(HALF.into()) };
        let sides = match (prefix(&left), prefix(&right)) {
            (None, None) => [self.number(&left)?, self.number(&right)?],
            (None, Some(prefix)) if is_equality(op) => self.within(&prefix, &left)?,
            (Some(prefix), None) if is_equality(op) => self.within(&prefix, &right)?,
            _ => return Err(PREFIX.into()),
        };
        for (own, other, shown) in [(0, 1, &right), (1, 0, &left)] {
            if let (Number::Field { protocol, field, width }, Number::Constant(value)) = (&sides[own], &sides[other])
                && *width < 128
                && value >> width != 0
            {
                return Err(format!("{protocol}.{field} has {width} bits, too few for {}", written(shown).trim()));
            }
        }
        let mut protocols = Vec::new();
        sides.iter().for_each(|side| add_protocols(side, &mut protocols));
        if protocols.is_empty() {
            return Err(format!("{:?} says nothing of packets", written(binary)));
        }
        Ok(Test::Compared { op, sides, protocols })
    }

    /// The sides of the comparison that says whether a field begins with a prefix.
    fn within(&self, prefix: &Prefix, field: &Expr) -> Result<[Number; 2], String> {
        let number = self.number(field)?;
        let Number::Field { width, .. } = number else { return Err(PREFIX.into()) };
        let length = u32::try_from(prefix.length).ok().filter(|_| width == prefix.width);
        let mask = length.and_then(|length| prefix_mask(width, length));
        let mask =
            mask.ok_or_else(|| format!("this is no prefix of {width} bits, which {} has", written(field).trim()))?;
        let masked = Number::Combined(BinaryOp::BitAnd, Box::new([number, Number::Constant(mask)]));
        Ok([masked, Number::Constant(prefix.address & mask)])
    }

    fn number(&self, expr: &Expr) -> Result<Number, String> {
        match expr {
            Expr::Paren(paren) => self.number(&paren.inner().ok_or(HALF)?),
            Expr::Literal(literal) => match literal.value() {
                Ok(LiteralValue::Int(value) | LiteralValue::Ipv6(value)) => Ok(Number::Constant(value)),
                Ok(LiteralValue::Mac(value)) => Ok(Number::Constant(value.into())),
                Ok(LiteralValue::Ipv4(value)) => Ok(Number::Constant(value.into())),
                Ok(LiteralValue::Bool(value)) => Ok(Number::Constant(value.into())),
                _ => Err(format!("{:?} is no value of a field", literal.text())),
            },
            Expr::Member(member) => self.field(member),
            Expr::Binary(_) if prefix(expr).is_some() => Err(PREFIX.into()),
            Expr::Binary(binary) => match binary.op() {
                Some(op) if !is_comparison(op) && !matches!(op, BinaryOp::And | BinaryOp::Or) => {
                    let side = |expr: Option<Expr>| self.number(&expr.ok_or(HALF)?);
                    Ok(Number::Combined(op, Box::new([side(binary.lhs())?, side(binary.rhs())?])))
                }
                _ => Err(format!("{:?} is no number; which operator comes first parentheses say", written(expr))),
            },
            _ => Err(format!("{:?} is no field, such as ipv4.dst, and no value", written(expr))),
        }
    }

    fn field(&self, member: &MemberExpr) -> Result<Number, String> {
        let base = match member.base() {
            Some(Expr::Name(name)) if !member.is_arrow() => name.name().map(|name| name.text().to_owned()),
            _ => None,
        };
        let base = base.ok_or_else(|| format!("{:?} is no field, such as ipv4.dst", written(member)))?;
        let protocol = self.protocol(&base)?;
        let field = member.field().map_or_else(String::new, |name| name.text().to_owned());
        let found = protocol.fields.iter().find(|own| own.name == field).ok_or_else(|| {
            let fields = protocol.fields.iter().map(|own| own.name.as_str());
            format!("{base} has no field {field:?}{}", did_you_mean(&field, fields))
        })?;
        Ok(Number::Field { width: found.bits.width, protocol: base, field })
    }

    fn protocol(&self, name: &str) -> Result<&baker::ir::Protocol, String> {
        self.program.protocols.iter().find(|own| own.name == name).ok_or_else(|| {
            let protocols = self.program.protocols.iter().map(|own| own.name.as_str());
            format!("the program has no protocol {name:?}{}", did_you_mean(name, protocols))
        })
    }
}

/// An address with a length, such as `10.0.0.0/8`, which in Baker would be a division.
struct Prefix {
    address: u128,
    width: u32,
    length: u128,
}

fn prefix(expr: &Expr) -> Option<Prefix> {
    let value = |expr: Option<Expr>| match expr {
        Some(Expr::Literal(literal)) => literal.value().ok(),
        _ => None,
    };
    let binary = match expr {
        Expr::Paren(paren) => return prefix(&paren.inner()?),
        Expr::Binary(binary) => binary,
        _ => return None,
    };
    let (BinaryOp::Div, Some(LiteralValue::Int(length))) = (binary.op()?, value(binary.rhs())) else { return None };
    let (address, width) = match value(binary.lhs())? {
        LiteralValue::Ipv4(address) => (address.into(), 32),
        LiteralValue::Ipv6(address) => (address, 128),
        _ => return None,
    };
    Some(Prefix { address, width, length })
}

fn is_equality(op: BinaryOp) -> bool {
    matches!(op, BinaryOp::Eq | BinaryOp::Ne)
}

/// Whether an expression is a comparison.
fn is_compared(expr: &Expr) -> bool {
    matches!(expr, Expr::Binary(binary) if binary.op().is_some_and(is_comparison))
}

fn is_comparison(op: BinaryOp) -> bool {
    matches!(op, BinaryOp::Eq | BinaryOp::Ne | BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge)
}

/// Adds the protocols whose fields are in a number, each once.
fn add_protocols(number: &Number, to: &mut Vec<String>) {
    match number {
        Number::Constant(_) => {}
        Number::Field { protocol, .. } if to.contains(protocol) => {}
        Number::Field { protocol, .. } => to.push(protocol.clone()),
        Number::Combined(_, sides) => sides.iter().for_each(|side| add_protocols(side, to)),
    }
}

/// As it stands in the text.
fn written(node: &impl AstNode) -> String {
    node.syntax().text().to_string()
}

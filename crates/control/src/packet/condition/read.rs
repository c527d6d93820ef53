//! Conditions from text, by Baker's parser.

use baker::ir::Program;
use baker::source::FileId;
use baker::syntax::ast::{AstNode, BinaryExpr, BinaryOp, Expr, Item, LiteralValue, MemberExpr, UnaryOp};
use baker::syntax::parse;

use super::{Number, Test};
use crate::messages::did_you_mean;

/// What an expression is parsed as the value of.
const FRONT: &str = "const bool condition = ";
/// Where something is missing; the parser has said so already.
const HALF: &str = "it is not complete";

/// A condition.
///
/// # Errors
/// What is wrong with it.
pub fn test(program: &Program, text: &str) -> Result<Test, String> {
    let wrong = |what: String| format!("{text:?} is no condition: {what}");
    let parsed = parse(FileId(0), &format!("{FRONT}{};", equal_signs(text)));
    if let Some(error) = parsed.errors().first() {
        return Err(wrong(error.title.clone()));
    }
    let mut items = parsed.tree().items();
    let (Some(Item::Const(constant)), None) = (items.next(), items.next()) else {
        return Err(wrong("it is more than an expression".into()));
    };
    let value = constant.value().ok_or_else(|| wrong("it is empty".into()))?;
    Reader { program }.test(&value).map_err(wrong)
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
        let sides = [self.number(&left)?, self.number(&right)?];
        for (own, other, shown) in [(0, 1, &right), (1, 0, &left)] {
            if let (Number::Field { protocol, field }, Number::Constant(value)) = (&sides[own], &sides[other]) {
                let width = self.width(protocol, field);
                if width < 128 && value >> width != 0 {
                    return Err(format!("{protocol}.{field} has {width} bits, too few for {}", written(shown).trim()));
                }
            }
        }
        let mut protocols = Vec::new();
        sides.iter().for_each(|side| add_protocols(side, &mut protocols));
        if protocols.is_empty() {
            return Err(format!("{:?} says nothing of packets", written(binary)));
        }
        Ok(Test::Compared { op, sides, protocols })
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
        if !protocol.fields.iter().any(|own| own.name == field) {
            let fields = protocol.fields.iter().map(|own| own.name.as_str());
            return Err(format!("{base} has no field {field:?}{}", did_you_mean(&field, fields)));
        }
        Ok(Number::Field { protocol: base, field })
    }

    fn protocol(&self, name: &str) -> Result<&baker::ir::Protocol, String> {
        self.program.protocols.iter().find(|own| own.name == name).ok_or_else(|| {
            let protocols = self.program.protocols.iter().map(|own| own.name.as_str());
            format!("the program has no protocol {name:?}{}", did_you_mean(name, protocols))
        })
    }

    /// Of a field that there is.
    fn width(&self, protocol: &str, field: &str) -> u32 {
        let protocol = self.program.protocols.iter().find(|own| own.name == protocol);
        let field = protocol.and_then(|protocol| protocol.fields.iter().find(|own| own.name == field));
        field.map_or(128, |field| field.bits.width)
    }
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

//! Values of constants, widths of types, and where a header's fields lie: as far as they can be known.

use baker::ir::{BitRange, storage_align, storage_size};
use baker::number::Number;
use baker::syntax::ast::{self, AstNode, BinaryOp, LiteralValue, UnaryOp};

use crate::builtin;
use crate::model::{Kind, Model, Symbol};

/// How deep expressions and the constants in them are followed. Bounds the stack.
const MAX_DEPTH: u32 = 600;

/// How many types a type may be an alias of, one after the other.
const MAX_ALIASES: usize = 64;

/// A field of a protocol, laid out.
#[derive(Clone, Debug)]
pub struct HeaderField {
    /// Its declaration.
    pub field: ast::Field,
    /// Where it lies.
    pub bits: BitRange,
    /// Name of its type: as declared, or `u13` for a width.
    pub type_name: String,
}

impl Model {
    /// The fields of a protocol up to the first one whose width is not known.
    pub fn header(&self, protocol: &Symbol) -> Vec<HeaderField> {
        let mut fields = Vec::new();
        let mut offset = 0u32;
        let declared = ast::Protocol::cast(protocol.node.clone());
        for field in declared.iter().flat_map(ast::Protocol::fields) {
            let Some((width, type_name)) = field.width().and_then(|width| self.field_width(&width)) else { break };
            let Some(end) = offset.checked_add(width) else { break };
            fields.push(HeaderField { field, bits: BitRange { offset, width }, type_name });
            offset = end;
        }
        fields
    }

    /// Bytes of a protocol's fixed header, if all widths are known.
    pub fn header_bytes(&self, protocol: &Symbol) -> Option<u32> {
        let fields = self.header(protocol);
        let complete = ast::Protocol::cast(protocol.node.clone())?.fields().count() == fields.len();
        fields.last().filter(|_| complete).map(|last| last.bits.end_byte())
    }

    fn field_width(&self, width: &ast::Expr) -> Option<(u32, String)> {
        if let ast::Expr::Name(name) = width
            && let Some((bits, _)) = self.type_width(None, name.name()?.text())
        {
            return Some((bits, name.name()?.text().to_string()));
        }
        let width = self.constant(None, width, MAX_DEPTH)?.as_u32().filter(|w| (1..=128).contains(w))?;
        Some((width, format!("u{width}")))
    }

    /// Bits of an integer type, an enumeration or `bool`, and whether it is signed.
    pub fn type_width(&self, module: Option<&str>, name: &str) -> Option<(u32, bool)> {
        let (mut module, mut name) = (module.map(str::to_owned), name.to_string());
        for _ in 0..MAX_ALIASES {
            if let Some(width) = builtin::type_width(&name) {
                return Some(width);
            }
            let symbol = self.lookup(module.as_deref(), &name)?;
            let ty = match symbol.kind {
                Kind::Alias => ast::Alias::cast(symbol.node.clone())?.ty()?,
                Kind::Enum => match ast::Enum::cast(symbol.node.clone())?.ty() {
                    Some(ty) => ty,
                    None => return Some((32, false)),
                },
                Kind::Parameter => {
                    (module, name) = (None, self.type_argument(module.as_deref(), &name)?);
                    continue;
                }
                _ => return None,
            };
            (module, name) = (symbol.module.clone(), ty.name()?.text().to_string());
        }
        None
    }

    /// Bytes that a value of a type takes in metadata or a table: [`storage_size`] of a scalar; a struct by the rules
    /// of C.
    pub fn stored_bytes(&self, module: Option<&str>, name: &str) -> Option<u32> {
        if let Some((width, _)) = self.type_width(module, name) {
            return Some(storage_size(width));
        }
        let symbol = self.lookup(module, name).filter(|s| s.kind == Kind::Struct)?;
        let (mut size, mut align) = (0u32, 1);
        for field in ast::Struct::cast(symbol.node.clone())?.fields() {
            let (width, _) = self.type_width(symbol.module.as_deref(), field.ty()?.name()?.text())?;
            let count = self.elements(symbol.module.as_deref(), &field)?;
            let own = storage_size(width).checked_mul(count)?;
            align = align.max(storage_align(width));
            size = size.checked_next_multiple_of(storage_align(width))?.checked_add(own)?;
        }
        size.checked_next_multiple_of(align)
    }

    /// How many elements a field of a struct has: one where it is no array.
    pub fn elements(&self, module: Option<&str>, field: &ast::StructField) -> Option<u32> {
        match field.length() {
            Some(length) => u32::try_from(self.constant(module, &length.value()?, MAX_DEPTH)?.bits(128)).ok(),
            None => Some(1),
        }
    }

    /// The value of a constant or enumerator.
    pub fn value(&self, symbol: &Symbol) -> Option<Number> {
        self.named(symbol, MAX_DEPTH)
    }

    fn named(&self, symbol: &Symbol, depth: u32) -> Option<Number> {
        let key = (symbol.module.clone(), symbol.name.text().to_string());
        if let Some(known) = self.values.borrow().get(&key) {
            return *known;
        }
        // Until it is known, and for good if it depends on itself.
        self.values.borrow_mut().insert(key.clone(), None);
        let module = symbol.module.as_deref();
        let value = match symbol.kind {
            Kind::Const => self.constant(module, &ast::Const::cast(symbol.node.clone())?.value()?, depth),
            Kind::Enumerator => {
                // The value before it that is given, and one more for each since.
                let mut more = 0u128;
                let mut at = Some(symbol.node.clone());
                let given = loop {
                    let Some(node) = at else { break None };
                    match ast::Enumerator::cast(node.clone()).and_then(|e| e.value()) {
                        Some(value) => break Some(value),
                        None => more += 1,
                    }
                    at = node.prev_sibling().filter(|n| ast::Enumerator::cast(n.clone()).is_some());
                };
                match given {
                    Some(given) => {
                        self.constant(module, &given, depth).and_then(|value| value.checked_add(Number::from(more)))
                    }
                    None => Some(Number::from(more - 1)),
                }
            }
            _ => None,
        };
        self.values.borrow_mut().insert(key, value);
        value
    }

    fn constant(&self, module: Option<&str>, expr: &ast::Expr, depth: u32) -> Option<Number> {
        let depth = depth.checked_sub(1)?;
        let value = |expr: Option<ast::Expr>| self.constant(module, &expr?, depth);
        match expr {
            ast::Expr::Literal(literal) => match literal.value().ok()? {
                LiteralValue::Int(value) => Some(Number::from(value)),
                LiteralValue::Mac(value) => Some(Number::from(u128::from(value))),
                LiteralValue::Ipv4(value) => Some(Number::from(u128::from(value))),
                LiteralValue::Ipv6(value) => Some(Number::from(value)),
                LiteralValue::Bool(value) => Some(Number::from(u128::from(value))),
                LiteralValue::Null => None,
            },
            ast::Expr::Name(name) => self.named(self.lookup(module, name.name()?.text())?, depth),
            ast::Expr::Paren(paren) => value(paren.inner()),
            ast::Expr::Member(member) if member.field()?.text() == "size" => {
                let ast::Expr::Name(protocol) = member.base()? else { return None };
                let protocol = self.protocols(module, protocol.name()?.text()).into_iter().next()?;
                self.header_bytes(&protocol).map(|bytes| Number::from(u128::from(bytes)))
            }
            ast::Expr::Unary(unary) => match unary.op()? {
                UnaryOp::Neg => value(unary.operand())?.checked_neg(),
                _ => None,
            },
            ast::Expr::Binary(binary) => {
                let (a, b) = (value(binary.lhs())?, value(binary.rhs())?);
                match binary.op()? {
                    BinaryOp::Add => a.checked_add(b),
                    BinaryOp::Sub => a.checked_sub(b),
                    BinaryOp::Mul => a.checked_mul(b),
                    BinaryOp::Div => a.checked_div(b),
                    BinaryOp::Rem => a.checked_rem(b),
                    BinaryOp::Shl => a.checked_shl(b),
                    BinaryOp::Shr => a.checked_shr(b),
                    BinaryOp::BitAnd => Some(a & b),
                    BinaryOp::BitOr => Some(a | b),
                    BinaryOp::BitXor => Some(a ^ b),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

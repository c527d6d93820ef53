//! Every arithmetic operation through the interpreter, against school arithmetic on single bits.

use baker::ir::interp::Machine;
use baker::ir::*;

use crate::support::*;

const WIDTHS: [u32; 10] = [1, 7, 8, 13, 32, 48, 64, 65, 127, 128];
const BINS: [BinOp; 13] = [
    BinOp::Add,
    BinOp::Sub,
    BinOp::Mul,
    BinOp::UDiv,
    BinOp::SDiv,
    BinOp::URem,
    BinOp::SRem,
    BinOp::And,
    BinOp::Or,
    BinOp::Xor,
    BinOp::Shl,
    BinOp::LShr,
    BinOp::AShr,
];
const CMPS: [CmpOp; 6] = [CmpOp::Eq, CmpOp::Ne, CmpOp::Ult, CmpOp::Ule, CmpOp::Slt, CmpOp::Sle];

/// A number as its bits, the lowest first.
#[derive(Clone, Debug, PartialEq)]
struct Bits(Vec<bool>);

impl Bits {
    fn new(width: u32, number: u128) -> Bits {
        Bits((0..width).map(|i| number >> i & 1 == 1).collect())
    }

    fn number(&self) -> u128 {
        self.0.iter().enumerate().map(|(i, bit)| (*bit as u128) << i).sum()
    }

    fn zero(&self) -> Bits {
        Bits(vec![false; self.0.len()])
    }

    fn is_zero(&self) -> bool {
        !self.0.contains(&true)
    }

    fn sign(&self) -> bool {
        self.0[self.0.len() - 1]
    }

    fn zip(&self, other: &Bits, f: impl Fn(bool, bool) -> bool) -> Bits {
        Bits(self.0.iter().zip(&other.0).map(|(a, b)| f(*a, *b)).collect())
    }

    fn add_carry(&self, other: &Bits, mut carry: bool) -> Bits {
        let mut sum = Vec::new();
        for (&a, &b) in self.0.iter().zip(&other.0) {
            sum.push(a ^ b ^ carry);
            carry = a & b | a & carry | b & carry;
        }
        Bits(sum)
    }

    fn sub(&self, other: &Bits) -> Bits {
        self.add_carry(&Bits(other.0.iter().map(|b| !b).collect()), true)
    }

    fn negate(&self) -> Bits {
        self.zero().sub(self)
    }

    fn magnitude(&self) -> Bits {
        if self.sign() { self.negate() } else { self.clone() }
    }

    /// Shifted left by one, `low` coming in.
    fn double(&self, low: bool) -> Bits {
        let mut bits = vec![low];
        bits.extend_from_slice(&self.0[..self.0.len() - 1]);
        Bits(bits)
    }

    /// Shifted right by one, `high` coming in.
    fn halve(&self, high: bool) -> Bits {
        let mut bits = self.0[1..].to_vec();
        bits.push(high);
        Bits(bits)
    }

    fn less(&self, other: &Bits) -> bool {
        let differs = self.0.iter().zip(&other.0).rev().find(|(a, b)| a != b);
        differs.is_some_and(|(_, b)| *b)
    }

    fn signed_less(&self, other: &Bits) -> bool {
        if self.sign() == other.sign() { self.less(other) } else { self.sign() }
    }

    fn mul(&self, other: &Bits) -> Bits {
        other.0.iter().rev().fold(self.zero(), |product, bit| {
            let doubled = product.double(false);
            if *bit { doubled.add_carry(self, false) } else { doubled }
        })
    }

    /// Quotient and remainder by long division; by zero, both 0.
    fn divide(&self, by: &Bits) -> (Bits, Bits) {
        let (mut quotient, mut rest) = (self.zero(), self.zero());
        if by.is_zero() {
            return (quotient, rest);
        }
        for &bit in self.0.iter().rev() {
            // The remainder may need one bit more than the width before the divisor is taken away.
            let carry = rest.sign();
            rest = rest.double(bit);
            let fits = carry || !rest.less(by);
            if fits {
                rest = rest.sub(by);
            }
            quotient = quotient.double(fits);
        }
        (quotient, rest)
    }

    /// Towards zero; the remainder has the dividend's sign.
    fn signed_divide(&self, by: &Bits) -> (Bits, Bits) {
        let (mut quotient, mut rest) = self.magnitude().divide(&by.magnitude());
        if self.sign() != by.sign() {
            quotient = quotient.negate();
        }
        if self.sign() {
            rest = rest.negate();
        }
        (quotient, rest)
    }

    fn shift(&self, by: &Bits, step: impl Fn(&Bits) -> Bits) -> Bits {
        if by.number() >= self.0.len() as u128 {
            return self.zero();
        }
        (0..by.number()).fold(self.clone(), |bits, _| step(&bits))
    }
}

fn expected_bin(op: BinOp, a: &Bits, b: &Bits) -> Bits {
    match op {
        BinOp::Add => a.add_carry(b, false),
        BinOp::Sub => a.sub(b),
        BinOp::Mul => a.mul(b),
        BinOp::UDiv => a.divide(b).0,
        BinOp::URem => a.divide(b).1,
        BinOp::SDiv => a.signed_divide(b).0,
        BinOp::SRem => a.signed_divide(b).1,
        BinOp::And => a.zip(b, |a, b| a && b),
        BinOp::Or => a.zip(b, |a, b| a || b),
        BinOp::Xor => a.zip(b, |a, b| a != b),
        BinOp::Shl => a.shift(b, |bits| bits.double(false)),
        BinOp::LShr => a.shift(b, |bits| bits.halve(false)),
        BinOp::AShr => a.shift(b, |bits| bits.halve(a.sign())),
    }
}

fn expected_cmp(op: CmpOp, a: &Bits, b: &Bits) -> bool {
    match op {
        CmpOp::Eq => a == b,
        CmpOp::Ne => a != b,
        CmpOp::Ult => a.less(b),
        CmpOp::Ule => !b.less(a),
        CmpOp::Slt => a.signed_less(b),
        CmpOp::Sle => !b.signed_less(a),
    }
}

/// A program that stores the result of every operation on the first two fields behind them.
fn all_operations(width: u32) -> Program {
    let mut p = program();
    let names: Vec<String> = (0..BINS.len()).map(|i| format!("bin{i}")).collect();
    let mut fields = vec![("a", width), ("b", width)];
    fields.extend(names.iter().map(|name| (name.as_str(), width)));
    fields.push(("cmp", CMPS.len() as u32));
    let used: u32 = fields.iter().map(|field| field.1).sum();
    fields.push(("rest", 16 - used % 8));
    let protocol = protocol(&mut p, "numbers", &fields);
    let (mut code, packet) = Code::new(protocol);
    let (a, b) = (code.load(packet, 0, width), code.load(packet, width, width));
    for (i, op) in BINS.into_iter().enumerate() {
        let result = code.int(width, Op::Bin(op, a, b));
        code.store(packet, width * (2 + i as u32), width, result);
    }
    for (i, op) in CMPS.into_iter().enumerate() {
        let result = code.int(1, Op::Cmp(op, a, b));
        code.store(packet, width * (2 + BINS.len() as u32) + i as u32, 1, result);
    }
    code.put(packet, OUT);
    one_ppf(&mut p, protocol, code);
    p
}

/// Numbers at which something changes, and random ones.
fn operands(width: u32, random: &mut Random) -> Vec<u128> {
    let all = u128::MAX >> (128 - width);
    let high = 1u128 << (width - 1);
    let w = width as u128;
    let mut numbers = vec![0, 1, 2, 3, w - 1, w, w + 1, high - 1, high, high.wrapping_add(1), all - 1, all, all / 3];
    numbers.extend((0..8).map(|_| random.bits(width)));
    numbers.extend((0..4).map(|_| random.bits(width) >> random.below(width)));
    numbers.iter_mut().for_each(|n| *n &= all);
    numbers
}

#[test]
fn binary_operations_and_comparisons() {
    let mut random = Random(1);
    for width in WIDTHS {
        let program = all_operations(width);
        let size = program.protocols[0].size as usize;
        let mut machine = Machine::new(program);
        let numbers = operands(width, &mut random);
        let mut frame = random.bytes(size);
        for &x in &numbers {
            for &y in &numbers {
                naive_set(&mut frame, BitRange { offset: 0, width }, x);
                naive_set(&mut frame, BitRange { offset: width, width }, y);
                let (a, b) = (Bits::new(width, x), Bits::new(width, y));
                let mut expected = frame.clone();
                for (i, op) in BINS.into_iter().enumerate() {
                    let bits = BitRange { offset: width * (2 + i as u32), width };
                    naive_set(&mut expected, bits, expected_bin(op, &a, &b).number());
                }
                for (i, op) in CMPS.into_iter().enumerate() {
                    let bits = BitRange { offset: width * (2 + BINS.len() as u32) + i as u32, width: 1 };
                    naive_set(&mut expected, bits, expected_cmp(op, &a, &b) as u128);
                }
                let outputs = machine.receive(0, &frame);
                if outputs[0].packet == expected {
                    continue;
                }
                for (i, op) in BINS.into_iter().enumerate() {
                    let bits = BitRange { offset: width * (2 + i as u32), width };
                    let (got, want) = (naive_get(&outputs[0].packet, bits), naive_get(&expected, bits));
                    assert_eq!(got, want, "{op:?} of {x} and {y} at width {width}");
                }
                panic!("comparisons of {x} and {y} at width {width}");
            }
        }
    }
}

#[test]
fn casts() {
    let mut random = Random(2);
    for from in WIDTHS {
        for to in WIDTHS.into_iter().filter(|to| *to != from) {
            let ops: &[CastOp] = if to > from { &[CastOp::ZExt, CastOp::SExt] } else { &[CastOp::Trunc] };
            for &op in ops {
                let mut p = program();
                let protocol = protocol(&mut p, "numbers", &[("a", from), ("b", to), ("rest", 16 - (from + to) % 8)]);
                let size = p.protocols[0].size as usize;
                let (mut code, packet) = Code::new(protocol);
                let a = code.load(packet, 0, from);
                let b = code.int(to, Op::Cast(op, a));
                code.store(packet, from, to, b);
                code.put(packet, OUT);
                one_ppf(&mut p, protocol, code);
                let mut machine = Machine::new(p);
                let mut frame = random.bytes(size);
                for number in operands(from, &mut random) {
                    naive_set(&mut frame, BitRange { offset: 0, width: from }, number);
                    let bits = Bits::new(from, number);
                    let fill = op == CastOp::SExt && bits.sign();
                    let expected: Vec<bool> =
                        (0..to as usize).map(|i| bits.0.get(i).copied().unwrap_or(fill)).collect();
                    let outputs = machine.receive(0, &frame);
                    let got = naive_get(&outputs[0].packet, BitRange { offset: from, width: to });
                    assert_eq!(got, Bits(expected).number(), "{op:?} of {number} from {from} to {to}");
                }
            }
        }
    }
}

/// The documented corner cases once more, as plain numbers.
#[test]
fn corner_cases_of_eight_bits() {
    let eval = |op: BinOp, a: u128, b: u128| op.eval(8, a, b);
    assert_eq!(eval(BinOp::UDiv, 200, 0), 0);
    assert_eq!(eval(BinOp::SDiv, 200, 0), 0);
    assert_eq!(eval(BinOp::URem, 200, 0), 0);
    assert_eq!(eval(BinOp::SRem, 200, 0), 0);
    assert_eq!(eval(BinOp::SDiv, 0x80, 0xff), 0x80);
    assert_eq!(eval(BinOp::SRem, 0x80, 0xff), 0);
    assert_eq!(eval(BinOp::SDiv, 0xf9, 2), 0xfd); // -7 / 2 = -3
    assert_eq!(eval(BinOp::SRem, 0xf9, 2), 0xff); // -7 % 2 = -1
    assert_eq!(eval(BinOp::AShr, 0x80, 7), 0xff);
    assert_eq!(eval(BinOp::AShr, 0x80, 8), 0);
    assert_eq!(eval(BinOp::Shl, 1, 8), 0);
    assert_eq!(eval(BinOp::Shl, 1, 255), 0);
    assert_eq!(BinOp::SDiv.eval(128, 1 << 127, u128::MAX), 1 << 127);
    assert_eq!(BinOp::SRem.eval(128, 1 << 127, u128::MAX), 0);
}

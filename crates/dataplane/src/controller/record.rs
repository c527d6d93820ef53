//! Keys and values of tables as Rust types.

use std::net::{Ipv4Addr, Ipv6Addr};

use smallvec::SmallVec;

/// The numbers of a key or a value, one per field. Those of most lie on the stack; beyond 16 they take memory of their
/// own.
pub type Fields = SmallVec<[u128; 16]>;

/// The fields of a record.
pub fn fields_of<R: Record>(record: &R) -> Fields {
    let mut fields = Fields::from_elem(0, R::FIELDS);
    record.to_fields(&mut fields);
    fields
}

/// The fields and the prefix length of a key.
pub(super) fn key_of<K: Key>(key: &K) -> (Fields, Option<u32>) {
    let mut fields = Fields::from_elem(0, K::FIELDS);
    let prefix_len = key.to_key(&mut fields);
    (fields, prefix_len)
}

/// What is stored in one or several fields of a table: numbers, bools, addresses, arrays and tuples of them. A struct
/// of the program is a tuple of its fields, in order.
///
/// A controller that has a type of its own for a struct implements this with the tuple's:
///
/// ```
/// use dataplane::controller::Record;
///
/// struct Station { port: u8, learned: u64 }
///
/// impl Record for Station {
///     const FIELDS: usize = <(u8, u64)>::FIELDS;
///     fn to_fields(&self, fields: &mut [u128]) { (self.port, self.learned).to_fields(fields) }
///     fn from_fields(fields: &[u128]) -> Option<Self> {
///         let (port, learned) = Record::from_fields(fields)?;
///         Some(Station { port, learned })
///     }
/// }
/// ```
pub trait Record: Sized {
    /// Number of fields.
    const FIELDS: usize;
    /// Writes one number per field, [`Record::FIELDS`] of them. One that does not fit its field is refused by the
    /// table.
    fn to_fields(&self, fields: &mut [u128]);
    /// From as many numbers; `None` where one has more bits than the type.
    fn from_fields(fields: &[u128]) -> Option<Self>;
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Record for $number {
            const FIELDS: usize = 1;
            #[inline]
            fn to_fields(&self, fields: &mut [u128]) {
                fields[0] = (*self).into();
            }
            #[inline]
            fn from_fields(fields: &[u128]) -> Option<Self> {
                <$number>::try_from(*fields.first()?).ok()
            }
        }
    )*};
}
numbers!(u8, u16, u32, u64, u128);

impl Record for bool {
    const FIELDS: usize = 1;
    #[inline]
    fn to_fields(&self, fields: &mut [u128]) {
        fields[0] = (*self).into();
    }
    #[inline]
    fn from_fields(fields: &[u128]) -> Option<Self> {
        match fields.first()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

/// An Ethernet address, in the order of the wire.
impl Record for [u8; 6] {
    const FIELDS: usize = 1;
    #[inline]
    fn to_fields(&self, fields: &mut [u128]) {
        fields[0] = self.iter().fold(0, |all, byte| all << 8 | u128::from(*byte));
    }
    #[inline]
    fn from_fields(fields: &[u128]) -> Option<Self> {
        let number = u64::try_from(*fields.first()?).ok().filter(|number| number >> 48 == 0)?;
        number.to_be_bytes()[2..].try_into().ok()
    }
}

impl Record for Ipv4Addr {
    const FIELDS: usize = 1;
    #[inline]
    fn to_fields(&self, fields: &mut [u128]) {
        fields[0] = u32::from(*self).into();
    }
    #[inline]
    fn from_fields(fields: &[u128]) -> Option<Self> {
        u32::from_fields(fields).map(Ipv4Addr::from)
    }
}

impl Record for Ipv6Addr {
    const FIELDS: usize = 1;
    #[inline]
    fn to_fields(&self, fields: &mut [u128]) {
        fields[0] = u128::from(*self);
    }
    #[inline]
    fn from_fields(fields: &[u128]) -> Option<Self> {
        u128::from_fields(fields).map(Ipv6Addr::from)
    }
}

/// What an array of a struct may have as its elements: all but `u8`, because six of these are an Ethernet address.
pub trait Element: Record {}

impl Element for u16 {}
impl Element for u32 {}
impl Element for u64 {}
impl Element for u128 {}
impl Element for bool {}
impl Element for [u8; 6] {}
impl Element for Ipv4Addr {}
impl Element for Ipv6Addr {}

/// An array of a struct.
impl<R: Element, const N: usize> Record for [R; N] {
    const FIELDS: usize = N * R::FIELDS;
    #[inline]
    fn to_fields(&self, fields: &mut [u128]) {
        for (element, fields) in self.iter().zip(fields.chunks_exact_mut(R::FIELDS)) {
            element.to_fields(fields);
        }
    }
    #[inline]
    fn from_fields(fields: &[u128]) -> Option<Self> {
        if fields.len() != N * R::FIELDS {
            return None;
        }
        let mut elements = fields.chunks_exact(R::FIELDS).map(R::from_fields);
        let elements: [Option<R>; N] = std::array::from_fn(|_| elements.next().flatten());
        elements.iter().all(Option::is_some).then(|| elements.map(|element| element.expect("all are there")))
    }
}

macro_rules! tuples {
    ($(($($part:ident $at:tt),*))*) => {$(
        impl<$($part: Record),*> Record for ($($part,)*) {
            const FIELDS: usize = 0 $(+ $part::FIELDS)*;
            #[inline]
            fn to_fields(&self, fields: &mut [u128]) {
                let rest = fields;
                $(let (own, rest) = rest.split_at_mut($part::FIELDS);
                self.$at.to_fields(own);)*
                debug_assert!(rest.is_empty());
            }
            #[inline]
            fn from_fields(fields: &[u128]) -> Option<Self> {
                let mut rest = fields;
                let result = ($({
                    let (own, others) = rest.split_at_checked($part::FIELDS)?;
                    rest = others;
                    $part::from_fields(own)?
                },)*);
                rest.is_empty().then_some(result)
            }
        }
    )*};
}
tuples! {
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
}

/// A prefix of an `lpm` table: its bits, those beyond the length zero, and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix<K>(pub K, pub u32);

/// A key of a table.
pub trait Key: Sized {
    /// Number of fields.
    const FIELDS: usize;
    /// Whether it has a prefix length, as those of `lpm` tables do.
    const PREFIX: bool;
    /// Writes one number per field, [`Key::FIELDS`] of them; the prefix length.
    fn to_key(&self, fields: &mut [u128]) -> Option<u32>;
    /// The opposite.
    fn from_key(fields: &[u128], prefix_len: Option<u32>) -> Option<Self>;
}

impl<R: Record> Key for R {
    const FIELDS: usize = R::FIELDS;
    const PREFIX: bool = false;
    #[inline]
    fn to_key(&self, fields: &mut [u128]) -> Option<u32> {
        self.to_fields(fields);
        None
    }
    #[inline]
    fn from_key(fields: &[u128], _: Option<u32>) -> Option<Self> {
        R::from_fields(fields)
    }
}

impl<R: Record> Key for Prefix<R> {
    const FIELDS: usize = R::FIELDS;
    const PREFIX: bool = true;
    #[inline]
    fn to_key(&self, fields: &mut [u128]) -> Option<u32> {
        self.0.to_fields(fields);
        Some(self.1)
    }
    #[inline]
    fn from_key(fields: &[u128], prefix_len: Option<u32>) -> Option<Self> {
        Some(Prefix(R::from_fields(fields)?, prefix_len?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back<R: Record + PartialEq + std::fmt::Debug>(record: R, fields: &[u128]) {
        assert_eq!(fields_of(&record)[..], *fields);
        assert_eq!(R::from_fields(fields), Some(record));
    }

    #[test]
    fn records_are_their_fields() {
        there_and_back(([2u8, 0, 0, 0, 1, 0xff], 7u8, true), &[0x0200_0000_01ff, 7, 1]);
        there_and_back((Ipv4Addr::new(10, 0, 0, 1), (u64::MAX, 3u16)), &[0x0a00_0001, u64::MAX.into(), 3]);
        there_and_back(Ipv6Addr::LOCALHOST, &[1]);
        there_and_back((true, [7u32, 8, 9], 4u16), &[1, 7, 8, 9, 4]);
        there_and_back([[2u8, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]], &[0x0200_0000_0001, 0x0200_0000_0002]);
        assert_eq!(<[u16; 3]>::from_fields(&[1, 2]), None);
        assert_eq!(<[u16; 2]>::from_fields(&[1, 0x1_0000]), None);
        assert_eq!(<(u8, bool)>::from_fields(&[256, 1]), None);
        assert_eq!(<(u8, bool)>::from_fields(&[255, 2]), None);
        assert_eq!(<(u8, bool)>::from_fields(&[255, 1, 0]), None);
        assert_eq!(<(u8, bool)>::from_fields(&[255]), None);
        assert_eq!(<[u8; 6]>::from_fields(&[1 << 48]), None);
        let (fields, prefix_len) = key_of(&Prefix(Ipv4Addr::new(10, 0, 0, 0), 8));
        assert_eq!((&fields[..], prefix_len), (&[0x0a00_0000][..], Some(8)));
    }
}

//! Keys and values between the control plane's numbers and their memory layout.

use baker::ir::Layout;
use codegen::abi::{key_words, pack_fields, read_field, write_field};
use smallvec::SmallVec;

/// Bytes of a value. Those of most tables need no memory of their own.
pub type Bytes = SmallVec<[u8; 128]>;
/// Words of a packed key.
pub type Words = SmallVec<[u64; 8]>;

/// A layout as changes of entries need it: what matters of its fields, close together.
#[derive(Clone, Debug)]
pub struct Codec {
    fields: Box<[Field]>,
    size: usize,
    key_words: usize,
}

#[derive(Clone, Copy, Debug)]
struct Field {
    offset: u32,
    width: u32,
}

impl Codec {
    /// Of a layout.
    pub fn new(layout: &Layout) -> Self {
        let fields = layout.fields.iter().map(|field| Field { offset: field.offset, width: field.width }).collect();
        Codec { fields, size: layout.size as usize, key_words: key_words(layout) }
    }

    /// Lays numbers out, padding zero; `None` unless there is one per field and each fits its field.
    pub fn encode(&self, values: &[u128]) -> Option<Bytes> {
        if !self.fit(values) {
            return None;
        }
        let mut bytes = Bytes::from_elem(0, self.size);
        for (field, &value) in self.fields.iter().zip(values) {
            write_field(&mut bytes[field.offset as usize..], field.width, value);
        }
        Some(bytes)
    }

    /// Packs numbers as a key of a hash table; `None` as for [`Codec::encode`].
    pub fn pack(&self, values: &[u128]) -> Option<Words> {
        self.fit(values).then(|| {
            let mut words = Words::from_elem(0, self.key_words);
            pack_fields(self.fields.iter().map(|field| field.width).zip(values.iter().copied()), &mut words);
            words
        })
    }

    /// Whether there is one number per field and each fits its field.
    fn fit(&self, values: &[u128]) -> bool {
        let fits = |(field, &value): (&Field, &u128)| field.width >= 128 || value >> field.width == 0;
        self.fields.len() == values.len() && self.fields.iter().zip(values).all(fits)
    }

    /// Reads the numbers back.
    pub fn decode(&self, bytes: &[u8]) -> Vec<u128> {
        let mut values = vec![0; self.fields.len()];
        self.decode_to(bytes, &mut values);
        values
    }

    /// As [`Codec::decode`], into `values`, one per field.
    pub fn decode_to(&self, bytes: &[u8], values: &mut [u128]) {
        debug_assert_eq!(values.len(), self.fields.len());
        for (value, field) in values.iter_mut().zip(&self.fields) {
            *value = read_field(&bytes[field.offset as usize..], field.width);
        }
    }

    /// Number of fields.
    pub fn fields(&self) -> usize {
        self.fields.len()
    }
}

#[cfg(test)]
mod tests {
    use baker::ir::LayoutField;

    use super::*;

    #[test]
    fn numbers_survive_and_padding_is_zero() {
        let field = |name: &str, width, offset| LayoutField {
            name: name.into(),
            type_name: format!("u{width}"),
            width,
            signed: false,
            names: Vec::new(),
            offset,
        };
        let fields = vec![field("port", 8, 0), field("mac", 48, 8), field("id", 128, 16)];
        let layout = Layout { name: "entry".into(), fields, size: 32, align: 16 };
        let values = vec![0x5a, 0xffff_ffff_ffff, u128::MAX - 7];
        let codec = Codec::new(&layout);
        let bytes = codec.encode(&values).unwrap();
        assert_eq!(bytes[1..8], [0; 7]);
        assert_eq!(bytes[14..16], [0; 2]);
        assert_eq!(codec.decode(&bytes), values);
        assert_eq!(codec.encode(&[0x100, 0, 0]), None, "too wide");
        assert_eq!(codec.pack(&[0x100, 0, 0]), None, "too wide");
        assert_eq!(codec.encode(&[1, 2]), None, "too few");
    }
}

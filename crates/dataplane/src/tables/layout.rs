//! Keys and values between the control plane's numbers and their memory layout.

use baker::ir::{Layout, LayoutField};
use codegen::abi::{pack_key, read_field, write_field};

/// Lays numbers out, padding zero; `None` unless there is one per field and each fits its field.
pub fn encode(layout: &Layout, values: &[u128]) -> Option<Vec<u8>> {
    if !fit(layout, values) {
        return None;
    }
    let mut bytes = vec![0; layout.size as usize];
    for (field, &value) in layout.fields.iter().zip(values) {
        write_field(&mut bytes[field.offset as usize..], field.width, value);
    }
    Some(bytes)
}

/// Packs numbers as a key of a hash table; `None` as for [`encode`].
pub fn pack(layout: &Layout, values: &[u128]) -> Option<Vec<u64>> {
    fit(layout, values).then(|| pack_key(layout, values))
}

/// Whether there is one number per field and each fits its field.
fn fit(layout: &Layout, values: &[u128]) -> bool {
    let fits = |(field, &value): (&LayoutField, &u128)| field.width >= 128 || value >> field.width == 0;
    layout.fields.len() == values.len() && layout.fields.iter().zip(values).all(fits)
}

/// Reads the numbers back.
pub fn decode(layout: &Layout, bytes: &[u8]) -> Vec<u128> {
    layout.fields.iter().map(|field| read_field(&bytes[field.offset as usize..], field.width)).collect()
}

#[cfg(test)]
mod tests {
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
        let bytes = encode(&layout, &values).unwrap();
        assert_eq!(bytes[1..8], [0; 7]);
        assert_eq!(bytes[14..16], [0; 2]);
        assert_eq!(decode(&layout, &bytes), values);
        assert_eq!(encode(&layout, &[0x100, 0, 0]), None, "too wide");
        assert_eq!(pack(&layout, &[0x100, 0, 0]), None, "too wide");
        assert_eq!(encode(&layout, &[1, 2]), None, "too few");
    }
}

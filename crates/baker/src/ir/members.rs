//! The fields of a struct as its declaration has them.

use super::{Layout, LayoutField};

/// A field of a struct as it is declared.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// Its name; empty for a scalar.
    pub name: &'a str,
    /// The field of the layout that it is, or those that are its elements.
    pub fields: &'a [LayoutField],
    /// Whether it is an array.
    pub is_array: bool,
}

impl Layout {
    /// Its fields as they are declared, in order: an array, whose elements are fields `x[0]`, `x[1]`, …, is one member.
    pub fn members(&self) -> Vec<Member<'_>> {
        fn array(field: &LayoutField) -> Option<&str> {
            field.name.split_once('[').map(|(name, _)| name)
        }
        let together = |a: &LayoutField, b: &LayoutField| array(a).is_some() && array(a) == array(b);
        let members = self.fields.chunk_by(together).map(|fields| {
            let is_array = array(&fields[0]).is_some();
            Member { name: array(&fields[0]).unwrap_or(&fields[0].name), fields, is_array }
        });
        members.collect()
    }
}

//! What is kept, as bytes: numbers of eight bytes, little-endian, and bytes behind their number.

/// Writes.
#[derive(Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub fn number(&mut self, number: u64) {
        self.0.extend(number.to_le_bytes());
    }

    /// 0 for none.
    pub fn optional(&mut self, number: Option<u32>) {
        self.number(number.map_or(0, |number| u64::from(number) + 1));
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend(bytes);
    }

    /// A list.
    pub fn list<T>(&mut self, items: impl ExactSizeIterator<Item = T>, mut write: impl FnMut(&mut Writer, T)) {
        self.number(items.len() as u64);
        items.for_each(|item| write(self, item));
    }

    pub fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Reads the same again. `None` where it is something else.
pub(crate) struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    pub fn new(bytes: &'b [u8]) -> Self {
        Reader(bytes)
    }

    pub fn number<T: TryFrom<u64>>(&mut self) -> Option<T> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        T::try_from(u64::from_le_bytes(*number)).ok()
    }

    pub fn optional(&mut self) -> Option<Option<u32>> {
        match self.number::<u64>()? {
            0 => Some(None),
            number => Some(Some(u32::try_from(number - 1).ok()?)),
        }
    }

    pub fn bytes(&mut self) -> Option<&'b [u8]> {
        let len = self.number()?;
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }

    pub fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?.to_vec()).ok()
    }

    pub fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count: u64 = self.number()?;
        (0..count).map(|_| read(self)).collect()
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let mut writer = Writer::default();
        writer.number(7);
        writer.optional(None);
        writer.optional(Some(0));
        writer.list(["a", "bc"].iter(), |writer, text| writer.bytes(text.as_bytes()));
        let bytes = writer.finish();
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.number(), Some(7u8));
        assert_eq!((reader.optional(), reader.optional()), (Some(None), Some(Some(0))));
        assert_eq!(reader.list(Reader::text), Some(vec!["a".to_owned(), "bc".to_owned()]));
        assert!(reader.is_empty());
        assert_eq!(reader.number::<u64>(), None);
        // A length beyond the end, and a count of items that are not there, take no memory.
        let long = u64::MAX.to_le_bytes();
        assert_eq!(Reader::new(&long).bytes(), None);
        assert_eq!(Reader::new(&long).list(Reader::text), None);
    }
}

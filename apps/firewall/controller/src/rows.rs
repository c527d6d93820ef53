//! Sparse rows laid over each other in one array, so that a look-up reads one cell, and few rules take few cache lines.
//!
//! ```text
//! row A   7 . . 4 .                  array   . 7 2 . 4 9 …
//! row B     2 . . 9      becomes     of row  . A B . A B …      A begins at 1, B at 2
//! ```
//!
//! This is row displacement (Tarjan and Yao, "Storing a sparse table", 1979): each row, the fullest first, begins at
//! the first place where all its cells are free. No two begin at the same place, which so tells whose a cell is.

use std::cmp::Reverse;
use std::collections::HashMap;

/// The rules need more room than the tables have. Holds the index of the rule that is too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany(pub usize);

/// Cells of the array at most.
pub const CELLS: usize = 1 << 21;
/// Rows with more cells than this are not tried again before the place where the one before them began: they are few,
/// and so is what is lost.
const SMALL: usize = 64;
/// Steps of the search at most.
const MAX_STEPS: usize = 1 << 28;

/// What a cell holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Content {
    /// A number.
    Number(u32),
    /// Where a row begins, by its index.
    Row(usize),
}

/// Columns, in order, with what is there.
pub type Row = Vec<(u32, Content)>;

/// Rows, each of which is there once.
#[derive(Debug, Default)]
pub struct Rows {
    known: HashMap<Row, usize>,
    /// By index: the row, and the last rule that it is made of.
    rows: Vec<(Row, usize)>,
    cells: usize,
}

impl Rows {
    /// The index of a row. `rule` is blamed where there is no room.
    pub fn add(&mut self, row: Row, rule: usize) -> Result<usize, TooMany> {
        if let Some(index) = self.known.get(&row) {
            return Ok(*index);
        }
        self.cells += row.len();
        if self.cells > CELLS {
            return Err(TooMany(rule));
        }
        let index = self.rows.len();
        self.known.insert(row.clone(), index);
        self.rows.push((row, rule));
        Ok(index)
    }

    /// Where each row begins, never at 0.
    pub fn starts(&self) -> Result<Vec<u32>, TooMany> {
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        order.sort_by_key(|index| (Reverse(self.rows[*index].0.len()), *index));
        let mut starts = vec![0; self.rows.len()];
        let (mut taken, mut begun) = (Bits::new(), Bits::new());
        begun.set(0);
        let (mut word, mut length, mut steps) = (0, 0, 0);
        for index in order {
            let (row, rule) = &self.rows[index];
            if row.len() != length && row.len() <= SMALL {
                word = 0;
            }
            length = row.len();
            starts[index] = loop {
                // A bit for each of 64 starts that are tried at once.
                let mut refused = begun.window(word * 64);
                for (column, _) in row {
                    if refused == u64::MAX {
                        break;
                    }
                    refused |= taken.window(word * 64 + *column as usize);
                    steps += 1;
                }
                if refused != u64::MAX {
                    break (word * 64) as u32 + refused.trailing_ones();
                }
                word += 1;
                if word * 64 >= CELLS || steps > MAX_STEPS {
                    return Err(TooMany(*rule));
                }
            };
            begun.set(starts[index] as usize);
            row.iter().for_each(|(column, _)| taken.set((starts[index] + column) as usize));
        }
        Ok(starts)
    }

    /// All cells: where each lies, whose it is, and what it holds.
    pub fn cells<'a>(&'a self, starts: &'a [u32]) -> impl Iterator<Item = (u32, u32, u32)> + 'a {
        self.rows.iter().zip(starts).flat_map(move |((row, _), start)| {
            row.iter().map(move |(column, content)| (start + column, *start, content.number(starts)))
        })
    }
}

impl Content {
    /// The number that stands for it, where rows begin at these places.
    pub fn number(self, starts: &[u32]) -> u32 {
        match self {
            Content::Number(number) => number,
            Content::Row(index) => starts[index],
        }
    }
}

/// A bit for each cell. Those beyond the end are set.
struct Bits(Vec<u64>);

impl Bits {
    fn new() -> Bits {
        Bits(vec![0; CELLS / 64])
    }

    fn set(&mut self, bit: usize) {
        self.0[bit / 64] |= 1 << (bit % 64);
    }

    /// 64 bits from this one on.
    fn window(&self, from: usize) -> u64 {
        let word = |index: usize| self.0.get(index).copied().unwrap_or(u64::MAX);
        match from % 64 {
            0 => word(from / 64),
            shift => word(from / 64) >> shift | word(from / 64 + 1) << (64 - shift),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    fn row(columns: impl IntoIterator<Item = u32>) -> Row {
        columns.into_iter().map(|column| (column, Content::Number(column + 1))).collect()
    }

    proptest! {
        #[test]
        fn each_cell_is_found_and_no_other(
            rows in prop::collection::btree_set(prop::collection::btree_set(0u32..300, 1..20), 1..60),
        ) {
            let mut all = Rows::default();
            for row_columns in &rows {
                all.add(row(row_columns.iter().copied()), 0).unwrap();
            }
            let starts = all.starts().unwrap();
            let mut cells = HashMap::new();
            for (place, owner, content) in all.cells(&starts) {
                prop_assert_eq!(cells.insert(place, (owner, content)), None);
            }
            for (columns, start) in rows.iter().zip(&starts) {
                prop_assert!(*start > 0);
                for column in 0..300 {
                    let found = cells.get(&(start + column)).filter(|(owner, _)| owner == start).map(|cell| cell.1);
                    prop_assert_eq!(found, columns.contains(&column).then_some(column + 1));
                }
            }
        }
    }

    #[test]
    fn rows_of_few_cells_fill_the_holes_of_others() {
        let mut rows = Rows::default();
        rows.add(row((0..1000).map(|column| 2 * column)), 0).unwrap();
        for column in 0..900 {
            rows.add(row([column]), 0).unwrap();
        }
        let starts = rows.starts().unwrap();
        let last = rows.cells(&starts).map(|(place, ..)| place).max().unwrap();
        assert!(last < 2100, "{last}");
    }

    #[test]
    fn what_has_no_room_is_refused() {
        let mut rows = Rows::default();
        rows.add(row([CELLS as u32]), 7).unwrap();
        assert_eq!(rows.starts(), Err(TooMany(7)));
        let mut rows = Rows::default();
        assert_eq!(rows.add(row(0..=CELLS as u32), 3), Err(TooMany(3)));
        // Half of the array each, but nothing begins at 0.
        let mut rows = Rows::default();
        for rule in 0..2 {
            rows.add((0..CELLS as u32 / 2).map(|column| (column, Content::Number(rule))).collect(), 5).unwrap();
        }
        assert_eq!(rows.starts(), Err(TooMany(5)));
    }
}

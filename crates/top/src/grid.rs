//! Rows that are sorted and filtered.

use std::cmp::Ordering;

use cli::report::{grouped, rate};

/// A cell: what is shown, and by what it is sorted.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// As it is shown.
    pub text: String,
    /// Its value, if it is a number.
    number: Option<f64>,
    /// How it is to be seen.
    pub mood: Mood,
}

/// Whether something is as it should be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mood {
    /// Neither.
    #[default]
    Plain,
    /// It is.
    Good,
    /// Somebody is to look at it.
    Bad,
}

/// What is shown where nothing is known.
const NOTHING: &str = "-";

impl Cell {
    /// Text, which may come from outside: what a terminal would take for something else is replaced.
    pub fn text(text: &str) -> Cell {
        let visible = text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c });
        Cell { text: visible.collect(), number: None, mood: Mood::Plain }
    }

    /// Nothing is known.
    pub fn nothing() -> Cell {
        Cell::text(NOTHING)
    }

    /// A number, as it is shown.
    pub fn number(number: f64, text: String) -> Cell {
        Cell { text, number: Some(number), mood: Mood::Plain }
    }

    /// How many.
    pub fn count(count: u64) -> Cell {
        Cell::number(count as f64, grouped(count))
    }

    /// How many per second.
    pub fn rate(per_second: Option<f64>) -> Cell {
        per_second.map_or_else(Cell::nothing, |own| Cell::number(own, rate(own)))
    }

    /// How much of all, in percent.
    pub fn share(part: f64, all: f64) -> Cell {
        let percent = if all > 0.0 { part * 100.0 / all } else { 0.0 };
        Cell::number(percent, format!("{percent:.1} %"))
    }

    /// Bad if that is so.
    pub fn bad_if(self, bad: bool) -> Cell {
        Cell { mood: if bad { Mood::Bad } else { self.mood }, ..self }
    }

    /// Good.
    pub fn good(self) -> Cell {
        Cell { mood: Mood::Good, ..self }
    }

    /// Whether it stands at the right of its column.
    pub fn is_number(&self) -> bool {
        self.number.is_some()
    }

    fn order(&self, other: &Cell) -> Ordering {
        match (self.number, other.number) {
            (Some(own), Some(other)) => own.total_cmp(&other),
            // What is not known is less than all.
            (Some(_), None) => Ordering::Greater,
            (None, Some(_)) => Ordering::Less,
            (None, None) => self.text.cmp(&other.text),
        }
    }
}

/// By which column rows are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sort {
    /// The column; none: rows stand as they came.
    pub column: Option<usize>,
    /// The other way round: numbers begin with the greatest, text with the first, unless this is set.
    pub reversed: bool,
}

/// Rows with a name for each column.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Grid {
    /// Names of columns.
    pub columns: Vec<String>,
    /// As many cells in each row.
    pub rows: Vec<Vec<Cell>>,
}

impl Grid {
    /// Without rows.
    pub fn new(columns: &[&str]) -> Grid {
        Grid { columns: columns.iter().map(|name| (*name).to_owned()).collect(), rows: Vec::new() }
    }

    /// With these rows.
    pub fn with(columns: &[&str], rows: impl IntoIterator<Item = Vec<Cell>>) -> Grid {
        Grid { rows: rows.into_iter().collect(), ..Grid::new(columns) }
    }

    /// Whether a column has numbers, which stand at its right.
    pub fn is_number(&self, column: usize) -> bool {
        self.rows.iter().any(|row| row[column].is_number())
    }

    /// Sorts the rows. Those that are equal stay in their order.
    pub fn sort(&mut self, sort: Sort) {
        let Some(column) = sort.column.filter(|column| *column < self.columns.len()) else { return };
        let descending = self.is_number(column) != sort.reversed;
        self.rows.sort_by(|one, other| {
            let order = one[column].order(&other[column]);
            if descending { order.reverse() } else { order }
        });
    }

    /// Leaves the rows that have this text anywhere, in capitals or not.
    pub fn filter(&mut self, text: &str) {
        let text = text.to_lowercase();
        self.rows.retain(|row| row.iter().any(|cell| cell.text.to_lowercase().contains(&text)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid {
        let row = |name: &str, rate: Option<f64>| vec![Cell::text(name), Cell::rate(rate)];
        let rows = [row("b", Some(2.0)), row("a", Some(10.0)), row("c", None), row("aB", Some(2.0))];
        Grid::with(&["name", "/s"], rows)
    }

    fn names(grid: &Grid) -> String {
        grid.rows.iter().map(|row| row[0].text.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn rows_are_sorted_by_any_column() {
        for (column, reversed, expected) in [
            (None, true, "b a c aB"),
            (Some(0), false, "a aB b c"),
            (Some(0), true, "c b aB a"),
            (Some(1), false, "a b aB c"),
            (Some(1), true, "c b aB a"),
            (Some(9), false, "b a c aB"),
        ] {
            let mut grid = grid();
            grid.sort(Sort { column, reversed });
            assert_eq!(names(&grid), expected, "{column:?} {reversed}");
        }
    }

    #[test]
    fn rows_are_found_by_any_text() {
        for (text, expected) in [("", "b a c aB"), ("A", "a aB"), ("10", "a"), ("zz", "")] {
            let mut grid = grid();
            grid.filter(text);
            assert_eq!(names(&grid), expected, "{text}");
        }
    }

    #[test]
    fn nothing_from_outside_is_a_command_to_the_terminal() {
        assert_eq!(Cell::text("a\u{1b}[2J\u{9b}\n").text, "a\u{fffd}[2J\u{fffd}\u{fffd}");
        assert_eq!(Cell::share(1.0, 0.0).text, "0.0 %");
    }
}

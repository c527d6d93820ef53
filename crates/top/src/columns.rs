//! Rows in the columns that there is room for.

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use crate::grid::{Cell, Grid, Mood, Sort};

/// Between two columns.
const GAP: usize = 2;
/// What text is cut to where columns find no room.
const SHORT: usize = 24;

/// How things look: without colours for who wants none.
#[derive(Clone, Copy, Debug)]
pub struct Theme {
    /// Whether there are colours.
    pub has_colours: bool,
}

impl Theme {
    /// As the environment says: `NO_COLOR`, as <https://no-color.org> has it.
    pub fn of_environment() -> Theme {
        Theme { has_colours: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) }
    }

    fn colour(self, colour: Color) -> Style {
        if self.has_colours { Style::new().fg(colour) } else { Style::new() }
    }

    /// Something is wrong.
    pub fn bad(self) -> Style {
        self.colour(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// The head of columns.
    pub fn head(self) -> Style {
        self.colour(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    /// What is chosen.
    pub fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    fn mood(self, mood: Mood) -> Style {
        match mood {
            Mood::Plain => Style::new(),
            Mood::Good => self.colour(Color::Green),
            Mood::Bad => self.bad(),
        }
    }
}

/// Columns by their places, with their widths.
type Layout = Vec<(usize, usize)>;

/// Text that is cut where it is too wide, and filled up.
fn fit(text: &str, width: usize, is_right: bool) -> String {
    let wide = |text: &str| Span::raw(text).width();
    let mut cut = text.to_owned();
    if wide(&cut) > width {
        while wide(&cut) >= width.max(1) {
            cut.pop();
        }
        cut.push('…');
    }
    let blanks = " ".repeat(width.saturating_sub(wide(&cut)));
    if is_right { blanks + &cut } else { cut + &blanks }
}

/// The widths that all columns would like.
fn widths(grid: &Grid) -> Vec<usize> {
    let wide = |text: &str| Span::raw(text).width();
    // A mark for the column that rows are sorted by has room behind each name.
    let name = |column: usize| wide(&grid.columns[column]) + 1;
    let most = |column: usize| grid.rows.iter().map(|row| wide(&row[column].text)).max().unwrap_or(0);
    (0..grid.columns.len()).map(|column| name(column).max(most(column))).collect()
}

/// Which columns are shown. The first always is, and so is the chosen one.
fn layout(grid: &Grid, room: usize, chosen: Option<usize>) -> Layout {
    let mut widths = widths(grid);
    let sum = |widths: &[usize]| widths.iter().map(|width| width + GAP).sum::<usize>().saturating_sub(GAP);
    if sum(&widths) > room {
        let texts = (0..widths.len()).filter(|column| !grid.is_number(*column));
        texts.for_each(|column| widths[column] = widths[column].min(SHORT));
    }
    let end = |skipped: usize| {
        let mut used = widths[0];
        let fits = |column: &usize| {
            used += GAP + widths[*column];
            used <= room
        };
        (1 + skipped..widths.len()).take_while(fits).last()
    };
    // So many behind the first one are left out that the chosen one finds room.
    let needed = chosen.filter(|column| (1..widths.len()).contains(column)).unwrap_or(0);
    let skipped = (0..needed.max(1)).find(|skipped| end(*skipped).unwrap_or(0) >= needed).unwrap_or(needed.max(1) - 1);
    let shown = end(skipped).map_or(1 + skipped..1 + skipped, |last| 1 + skipped..last + 1);
    let mut layout: Layout = [0].into_iter().chain(shown).map(|column| (column, widths[column])).collect();
    // Text in the last column has what is left over.
    let used = layout.iter().map(|(_, width)| width + GAP).sum::<usize>() - GAP;
    if let Some((column, width)) = layout.last_mut().filter(|(column, _)| !grid.is_number(*column)) {
        let wanted = grid.rows.iter().map(|row| Span::raw(row[*column].text.as_str()).width()).max().unwrap_or(0);
        *width = (*width).max(wanted.min(*width + room.saturating_sub(used)));
    }
    layout
}

/// The head and rows from one on, so many lines in all at most, and how many columns are not shown.
pub fn lines(
    grid: &Grid,
    (room, height): (usize, usize),
    sort: Sort,
    above: usize,
    theme: Theme,
) -> (Vec<Line<'static>>, usize) {
    if grid.columns.is_empty() || height == 0 {
        return (Vec::new(), 0);
    }
    let layout = layout(grid, room, sort.column);
    let mut head = Vec::new();
    for (place, (column, width)) in layout.iter().enumerate() {
        let is_chosen = sort.column == Some(*column);
        let mark = match (is_chosen, grid.is_number(*column) != sort.reversed) {
            (false, _) => "",
            (true, true) => "↓",
            (true, false) => "↑",
        };
        let style = if is_chosen { theme.head().patch(theme.chosen()) } else { theme.head() };
        let name = fit(&format!("{}{mark}", grid.columns[*column]), *width, grid.is_number(*column));
        head.extend((place > 0).then(|| Span::raw(" ".repeat(GAP))));
        head.push(Span::styled(name, style));
    }
    let row = |cells: &Vec<Cell>| {
        let mut spans = Vec::new();
        for (place, (column, width)) in layout.iter().enumerate() {
            let cell = &cells[*column];
            spans.extend((place > 0).then(|| Span::raw(" ".repeat(GAP))));
            spans.push(Span::styled(fit(&cell.text, *width, grid.is_number(*column)), theme.mood(cell.mood)));
        }
        Line::from(spans)
    };
    let rows = grid.rows.iter().skip(above).take(height - 1).map(row);
    ([Line::from(head)].into_iter().chain(rows).collect(), grid.columns.len() - layout.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid {
        let row = |name: &str, packets: u64, device: &str| {
            vec![Cell::text(name), Cell::count(packets), Cell::text(device), Cell::count(7)]
        };
        Grid::with(&["port", "packets", "device", "x"], [row("left", 1000, "xdp:eth0"), row("b", 5, "音 tap:b")])
    }

    fn shown(room: usize, column: Option<usize>) -> Vec<String> {
        let theme = Theme { has_colours: false };
        let (lines, hidden) = lines(&grid(), (room, 9), Sort { column, reversed: false }, 0, theme);
        let text = lines.iter().map(|line| line.to_string().trim_end().to_owned());
        text.chain([format!("{hidden} hidden")]).collect()
    }

    #[test]
    fn columns_line_up() {
        assert_eq!(
            shown(80, Some(1)),
            [
                "port   packets↓  device     x",
                "left      1 000  xdp:eth0   7",
                "b             5  音 tap:b   7",
                "0 hidden"
            ]
        );
    }

    #[test]
    fn the_chosen_column_is_shown_in_any_room() {
        assert_eq!(shown(20, None), ["port    packets", "left      1 000", "b             5", "2 hidden"]);
        assert_eq!(shown(16, Some(2)), ["port   device↑", "left   xdp:eth0", "b      音 tap:b", "2 hidden"]);
        assert_eq!(shown(10, Some(3)), ["port   x↓", "left    7", "b       7", "2 hidden"]);
        for room in 0..60 {
            for column in [None, Some(0), Some(1), Some(3), Some(9)] {
                assert!(shown(room, column)[0].starts_with("port"), "{room} {column:?}");
            }
        }
    }

    #[test]
    fn text_is_cut_at_its_end() {
        assert_eq!(fit("abcdef", 4, false), "abc…");
        assert_eq!(fit("音音音", 4, false), "音… ");
        assert_eq!(fit("ab", 4, true), "  ab");
        assert_eq!(fit("ab", 1, true), "…");
    }
}

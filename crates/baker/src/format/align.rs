//! Comments at the ends of lines that follow each other begin in one column.

use super::layout::{Line, width};
use super::{INDENT, WIDTH};

/// Blanks between code and a comment behind it, at least.
const GAP: usize = 4;
/// The same, where the line would be too long otherwise.
const NARROW_GAP: usize = 2;
/// Lines without a comment that may stand between two comments of one column.
const WITHOUT: usize = 1;

/// The text of the lines.
pub(super) fn text(lines: &[Line]) -> String {
    let mut columns: Vec<Option<usize>> = vec![None; lines.len()];
    let mut group: Vec<usize> = Vec::new();
    let mut without = 0;
    for (index, line) in lines.iter().enumerate() {
        let ends = line.apart || line.is_comment || group.last().is_some_and(|&last| lines[last].level != line.level);
        without = if line.comment.is_some() { without } else { without + 1 };
        if ends || without > WITHOUT {
            set(lines, &std::mem::take(&mut group), &mut columns);
        }
        if line.comment.is_some() {
            group.push(index);
            without = 0;
        }
    }
    set(lines, &group, &mut columns);
    let mut text = String::new();
    for (line, column) in lines.iter().zip(columns) {
        if line.apart {
            text.push('\n');
        }
        text.extend(std::iter::repeat_n(' ', line.indent));
        text.push_str(&line.text);
        if let Some((comment, column)) = line.comment.as_ref().zip(column) {
            text.extend(std::iter::repeat_n(' ', column - end(line)));
            text.push_str(comment);
        }
        text.push('\n');
    }
    text
}

/// Sets the columns of the comments of a group of lines: one for all, unless a line would be too long.
fn set(lines: &[Line], group: &[usize], columns: &mut [Option<usize>]) {
    let too_long = |index: usize, column: usize| {
        column + lines[index].comment.as_ref().map_or(0, |comment| width(comment)) > WIDTH
    };
    let common = group.iter().map(|&index| column(&lines[index])).max().unwrap_or(0);
    let fits = !group.iter().any(|&index| too_long(index, common));
    for &index in group {
        let own = column(&lines[index]);
        columns[index] = Some(match fits {
            true => common,
            false if !too_long(index, own) => own,
            false => end(&lines[index]) + NARROW_GAP,
        });
    }
}

/// Columns of a line without its comment.
fn end(line: &Line) -> usize {
    line.indent + width(&line.text)
}

/// The column of a line's comment, for itself: a multiple of the indentation.
fn column(line: &Line) -> usize {
    (end(line) + GAP).next_multiple_of(INDENT)
}

//! The formatter: one style for all Baker programs.
//!
//! | file | what it decides |
//! |---|---|
//! | `walk` | tree → tokens, each with what may stand before it: a line's start, blanks, a place to break a long line |
//! | `space` | where a blank stands between two tokens of a line |
//! | `layout` | tokens → lines: what stays on one line, where long lines are broken, where comments go |
//! | `align` | columns of comments at the ends of lines |
//!
//! What the writer decides and the formatter keeps: one blank line between two things; `{ … }` of simple statements or
//! fields on one line, if it was written so and fits; a line break before an operator or behind a comma. Everything
//! else has one form. No token and no comment is added, removed or moved past another.
//!
//! ```text
//! if(x==null){packet_drop(p,r);return;}      if (x == null) { packet_drop(p, r); return; }
//! else x . port=1;//known               →    else
//!                                                x.port = 1;     // known
//! ```

mod align;
mod layout;
mod space;
mod walk;

use crate::diag::Diagnostic;
use crate::source::FileId;
use crate::syntax;

/// Columns that a line has at most, where there is a place to break it. Comments are never broken.
pub const WIDTH: usize = 120;

/// Columns of one level of indentation.
pub const INDENT: usize = 4;

/// The text of a file in the one style. Formatting the result changes nothing.
///
/// A text with syntax errors is not formatted: they are the error.
pub fn format(file: FileId, text: &str) -> Result<String, Vec<Diagnostic>> {
    let parse = syntax::parse(file, text);
    if !parse.errors().is_empty() {
        return Err(parse.errors().to_vec());
    }
    Ok(align::text(&layout::lines(&walk::tokens(&parse.syntax()))))
}

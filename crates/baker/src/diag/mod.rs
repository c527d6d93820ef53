//! Diagnostics are plain data, rendered once, at the edge of the program.

mod instances;
mod render;

pub use instances::by_file;
pub use render::render;

use crate::source::Span;

/// How many errors of a program are shown to people and editors: more are not read, and each takes some lines.
pub const SHOWN: usize = 100;

/// A piece of source with a remark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The place.
    pub span: Span,
    /// What is to be said of it; may be empty for the primary place.
    pub text: String,
}

/// An error in a Baker program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Stable name of the kind of error, such as `handle-lost`; one name per kind of refusal.
    pub code: &'static str,
    /// One line that says what is wrong.
    pub title: String,
    /// The place that is wrong.
    pub primary: Label,
    /// Other places that explain it, such as the first use of a handle used twice.
    pub secondary: Vec<Label>,
    /// What to do about it.
    pub hint: Option<String>,
    /// Instances of a module with parameters in which it is wrong.
    pub within: Vec<String>,
}

impl Diagnostic {
    /// An error at one place; labels and a hint are added with the other methods.
    pub fn new(code: &'static str, span: Span, title: impl Into<String>) -> Self {
        Diagnostic {
            code,
            title: title.into(),
            primary: Label { span, text: String::new() },
            secondary: Vec::new(),
            hint: None,
            within: Vec::new(),
        }
    }

    /// Sets the remark at the primary place.
    pub fn label(mut self, text: impl Into<String>) -> Self {
        self.primary.text = text.into();
        self
    }

    /// Adds another place with a remark.
    pub fn also(mut self, span: Span, text: impl Into<String>) -> Self {
        self.secondary.push(Label { span, text: text.into() });
        self
    }

    /// The instances in which it is wrong, in words.
    pub fn instances(&self) -> Option<String> {
        let names: Vec<String> = self.within.iter().map(|name| format!("`{name}`")).collect();
        let (last, others) = names.split_last()?;
        Some(if others.is_empty() { format!("in {last}") } else { format!("in {} and {last}", others.join(", ")) })
    }

    /// Sets what to do about it.
    pub fn hint(mut self, text: impl Into<String>) -> Self {
        self.hint = Some(text.into());
        self
    }
}

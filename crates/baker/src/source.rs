//! Source files, places in them, and where imported files come from.

/// Index of a file in [`Sources`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u32);

/// A range of bytes of one file, `start..end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// The file.
    pub file: FileId,
    /// Byte offset of the first byte.
    pub start: u32,
    /// Byte offset after the last byte.
    pub end: u32,
}

impl Span {
    /// A span of `start..end` in `file`.
    pub fn new(file: FileId, start: u32, end: u32) -> Self {
        Span { file, start, end }
    }

    /// The smallest span that holds both; `self` alone when the files differ.
    pub fn to(self, other: Span) -> Span {
        if self.file != other.file {
            return self;
        }
        Span { file: self.file, start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// One source file.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// The name shown in messages: a path, or `lib/net/ether.baker` for a library file.
    pub name: String,
    /// Its whole text.
    pub text: String,
}

/// All files of one compilation, in the order in which they were loaded.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    files: Vec<SourceFile>,
    /// Files as they are in one instance of a module with parameters each: the file, the instance.
    copies: Vec<(FileId, String)>,
}

/// Ids of copies begin here.
const COPIES: u32 = 1 << 31;

impl Sources {
    /// Adds a file and returns its id.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<String>) -> FileId {
        self.files.push(SourceFile { name: name.into(), text: text.into() });
        FileId(self.files.len() as u32 - 1)
    }

    /// An id for a file as it is in one instance of a module with parameters, so that places tell which instance is
    /// meant.
    pub fn copy(&mut self, of: FileId, instance: impl Into<String>) -> FileId {
        self.copies.push((self.original(of), instance.into()));
        FileId(COPIES + self.copies.len() as u32 - 1)
    }

    /// The file itself, of a copy.
    pub fn original(&self, id: FileId) -> FileId {
        id.0.checked_sub(COPIES).map_or(id, |copy| self.copies[copy as usize].0)
    }

    /// The instance that a copy is for.
    pub fn instance(&self, id: FileId) -> Option<&str> {
        id.0.checked_sub(COPIES).map(|copy| self.copies[copy as usize].1.as_str())
    }

    /// The file with this id.
    pub fn file(&self, id: FileId) -> &SourceFile {
        &self.files[self.original(id).0 as usize]
    }

    /// All files with their ids, without copies.
    pub fn iter(&self) -> impl Iterator<Item = (FileId, &SourceFile)> {
        self.files.iter().enumerate().map(|(i, f)| (FileId(i as u32), f))
    }

    /// The text that a span covers.
    pub fn text(&self, span: Span) -> &str {
        &self.file(span.file).text[span.start as usize..span.end as usize]
    }

    /// 1-based line and column (in characters) of a byte offset.
    pub fn line_column(&self, file: FileId, offset: u32) -> (usize, usize) {
        let before = &self.file(file).text[..offset as usize];
        let line_start = before.rfind('\n').map_or(0, |i| i + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }
}

/// Where imported files come from. The crate does no I/O itself.
pub trait Loader {
    /// Resolves `import "path";` written in the file named `from`. Returns the name to show and the text, or `None`
    /// when there is no such file. The same file must always get the same name: it is loaded once per name.
    fn load(&self, from: &str, path: &str) -> Option<(String, String)>;
}

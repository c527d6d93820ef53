//! Where streams are recorded, and when.

use std::path::PathBuf;

/// Where recordings lie, and how they are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheSettings {
    /// The directory; of one instance alone.
    pub directory: PathBuf,
    /// The library's own.
    pub own: media_cache::Settings,
}

/// When a stream is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Record {
    /// Not at all.
    #[default]
    Never,
    /// As long as it comes: while somebody views or publishes it.
    Viewed,
    /// Whether somebody views it or not: it is asked for at the start, and again when it was lost.
    Always,
}

impl Record {
    /// Whether there may be recordings of it.
    pub fn is_on(self) -> bool {
        self != Record::Never
    }
}

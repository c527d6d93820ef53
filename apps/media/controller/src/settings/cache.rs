//! Where streams are recorded, and when.

use std::path::PathBuf;
use std::time::Duration;

/// Where recordings lie, and how they are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheSettings {
    /// The directory; of one instance alone.
    pub directory: PathBuf,
    /// The library's own.
    pub own: media_cache::Settings,
    /// Which films are recorded while they are viewed.
    pub films: Films,
}

/// Which films of origins are recorded while they are viewed, and served from what was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Films {
    /// Those whose URLs begin so.
    pub prefixes: Vec<String>,
    /// The request for a film with which it is recorded: the first, the second …
    pub after: u32,
    /// For how long it is served without a question to its origin, where that says nothing of it.
    pub fresh: Duration,
}

impl Default for Films {
    fn default() -> Films {
        Films { prefixes: Vec::new(), after: 1, fresh: Duration::from_secs(600) }
    }
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

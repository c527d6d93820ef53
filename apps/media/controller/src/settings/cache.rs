//! Where streams are recorded.

use std::path::PathBuf;

/// Where recordings lie, and how they are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheSettings {
    /// The directory; of one instance alone.
    pub directory: PathBuf,
    /// The library's own.
    pub own: media_cache::Settings,
}

//! Recorded streams on disk: written in large blocks, found again after a crash, read by time, sequence or byte, also
//! while they are written. README.md says how they lie there, and what is lost when.
//!
//! | file | what |
//! |---|---|
//! | `cache`, `settings` | a cache, as its users see it |
//! | `recorder`, `reorder`, `filling` | packets in order, into segments and blocks; in the caller's thread |
//! | `writer`, `stream`, `blocks`, `sys` | blocks to files; in a thread of its own |
//! | `live` | what recorder, writer and readers share of a recording in progress |
//! | `reader`, `seek`, `loaded` | back from files |
//! | `archive` | the same from a directory that another process has |
//! | `keeper`, `catalogue`, `summaries` | what there is, and room for more; in another thread |
//! | `recovery`, `mend` | what a crash has left |
//! | `format`, `layout`, `info` | bytes, names of files, and what is known of recordings |
//! | `hostile` | the same for fuzzers |

#![deny(unsafe_code)]

mod archive;
pub mod blocks;
mod cache;
mod catalogue;
mod core;
mod filling;
#[doc(hidden)]
pub mod format;
#[doc(hidden)]
pub mod hostile;
mod info;
mod inner;
mod keeper;
mod layout;
mod live;
mod loaded;
mod mend;
mod reader;
mod recorder;
mod recovery;
mod reorder;
mod seek;
mod segment_file;
mod settings;
mod stream;
mod summaries;
pub mod sys;
mod writer;

pub use archive::{Archive, Met, Stopped};
pub use cache::{Cache, Error, MakeSystem, Means, Status};
pub use format::entry::Entry;
pub use info::{End, FilmSource, Kind, Recording, Segment, Source, Summary, Sums};
pub use inner::Space;
pub use reader::{Item, Missing, Packet, Reader};
pub use recorder::{Counts, Ended, Recorder};
pub use recovery::{Note, Report};
pub use reorder::{Arrival, Dropped};
pub use segment_file::SegmentFile;
pub use settings::{Durability, LONGEST, MOST_BUFFERS, Settings};

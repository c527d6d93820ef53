//! What files of a recording look like, byte for byte; README.md has it for others.
//!
//! | file | what |
//! |---|---|
//! | `codec` | numbers of fixed and of variable length |
//! | `index` | the index of a segment: a header and chunks |
//! | `entry` | what a chunk says of each packet |
//! | `log` | the packet log: records with checksums |
//! | `ts` | as much of MPEG-TS as it takes to find whole packets, and PCR |

pub mod codec;
pub mod entry;
pub mod index;
pub mod log;
pub mod ts;

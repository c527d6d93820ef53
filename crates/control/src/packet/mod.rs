//! Packets as text: built, shown and compared with the program's own protocol declarations.
//!
//! ```text
//! ether(dst=02:00:00:00:01:01, src=02:00:00:00:00:11, type=0x0800)
//!     /ipv4(total_length=28, ttl=64, protocol=17, src=10.0.1.11, dst=10.0.2.13)/hex(00 01 02 03)/zero(4)/pad(60)
//! ```
//!
//! A layer is a protocol of the program, `hex(…)`, `text("…")`, `zero(BYTES)`, `pad(LENGTH)` (zeros up to a length of
//! the whole packet) or the name of a definition. A field that is not named has its declared default or zero; a
//! declared header checksum is computed unless it is given. `+` in place of `/` adds bytes to the header before it,
//! such as options: the checksum covers them.
//!
//! | file | what it does |
//! |---|---|
//! | `build` | text → bytes |
//! | `condition` | whether fields have values |
//! | `cursor` | characters, with their columns |
//! | `dissect` | bytes → headers with named fields |
//! | `checksum` | of headers |
//! | `written` | names that texts may use, and errors |
//! | `show` | bytes → text; the differences of two packets |

mod build;
mod checksum;
mod condition;
mod cursor;
mod dissect;
mod show;
mod written;

pub use self::build::build;
pub use self::condition::Condition;
pub use self::dissect::{FieldValue, Layer, dissect, shown};
pub use self::show::{describe, differences, hex_dump, text};
pub use self::written::{Definitions, MAX_PACKET, PacketError};

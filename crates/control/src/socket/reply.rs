//! Replies as lines.

use std::io;

use serde::Serialize;

use super::line::Writer;
use super::protocol::{Refusal, Reply};

/// Writes what was asked for as the reply.
pub(super) fn done(out: &mut Writer, result: &impl Serialize) -> io::Result<()> {
    out.line(&Reply::Ok(result))?;
    out.flush()
}

/// Writes a refusal as the reply.
pub(super) fn refuse(out: &mut Writer, refusal: Refusal) -> io::Result<()> {
    out.line(&Reply::<()>::Error(refusal))?;
    out.flush()
}

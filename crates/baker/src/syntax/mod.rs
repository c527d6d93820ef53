//! Syntax.

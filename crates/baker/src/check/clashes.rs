//! Names that can't be declared: those of the language, and those that would hide something of another kind.
//!
//! ```text
//! import "net/ipv4";              // declares the protocol `ipv4`
//! module m {
//!     hash<u32, u32> ipv4[16];    // refused: what would `ipv4_packet_t` be?
//!     const u32 ETH_TYPE_ARP = 5; // hides the constant of that name, which is meant
//! }
//! ```

use super::names::{Checker, Names, Scope, Symbol};
use super::types::{self, PACKET_SUFFIXES};
use crate::builtin;
use crate::diag::Diagnostic;
use crate::ir::BUILTIN_DROP_REASONS;
use crate::source::{FileId, Span};

/// The built-in ends of wires.
const ENDS: [&str; 3] = ["rx", "tx", "host"];

impl Checker<'_> {
    /// The error about a name of the language, declared as this symbol at this place.
    pub(super) fn reserved(&mut self, scope: Scope, text: &str, symbol: Symbol, span: Span) -> Option<Diagnostic> {
        let error = |title: String| Diagnostic::new("reserved-name", span, title).hint("choose another name");
        let language_reason = BUILTIN_DROP_REASONS.iter().any(|(name, _)| *name == text);
        let is_type = types::builtin(text).is_some();
        if builtin::find(text).is_some() || is_type || (scope.is_none() && language_reason) {
            return Some(error(format!("`{text}` is a name of the language")).label("can't be declared again"));
        }
        let error = if matches!(symbol, Symbol::Module(_) | Symbol::Instance(_)) && ENDS.contains(&text) {
            error(format!("`{text}` is an end of wires")).label(format!("{} can't have its name", symbol.what()))
        } else if PACKET_SUFFIXES.iter().any(|suffix| text.ends_with(suffix)) {
            error("names of this kind are those of packet handles".to_string())
                .label("`P_packet_t` and `P_pkt_t` are packets of the protocol `P`")
        } else {
            return None;
        };
        // Where it is used it would be taken for the language's own.
        self.ambiguous = true;
        Some(error)
    }

    /// Reports names of modules that hide something of another kind; whether it can't be told what names stand for. All
    /// further errors would come of that.
    pub(super) fn names_clash(&mut self) -> bool {
        let mut errors = Vec::new();
        for module in &self.modules {
            for (text, &(symbol, span)) in &module.names {
                errors.extend(hides(&self.globals, text, symbol, span));
            }
        }
        // Names are kept in no order.
        errors.sort_by_key(|error| (error.primary.span.file, error.primary.span.start));
        self.ambiguous |= !errors.is_empty();
        self.errors.extend(errors);
        self.ambiguous
    }
}

/// The error about a module's name that hides something of another kind.
fn hides(globals: &Names, text: &str, symbol: Symbol, span: Span) -> Option<Diagnostic> {
    let &(outer, declared) = globals.get(text)?;
    // No program names a PPF or a timer where a module could be meant.
    let apart = matches!(symbol, Symbol::Ppf(_) | Symbol::Timer)
        && matches!(outer, Symbol::Module(_) | Symbol::Generic(_) | Symbol::Instance(_) | Symbol::Reported);
    if apart || outer.what() == symbol.what() {
        return None;
    }
    let title = format!("`{text}` is {} already", outer.what());
    let error = Diagnostic::new("hides-name", span, title)
        .label(format!("{} of a module can't hide it", symbol.what()))
        .hint("choose another name");
    let nowhere = Span::new(FileId(0), 0, 0);
    Some(if declared == nowhere { error } else { error.also(declared, "declared here") })
}

//! Millrace at each level of packet-access optimisation.

use baker::opt::Level;
use codegen::OptLevel;
use dataplane::EngineKind;

/// By the levels' names.
pub const LEVELS: [(&str, EngineKind); 3] = [
    ("base", EngineKind::Native(OptLevel::O3, Level::Base)),
    ("pac", EngineKind::Native(OptLevel::O3, Level::Pac)),
    ("cgpc", EngineKind::NATIVE),
];

/// The engine of a system's name: a level, or `millrace`, which is `cgpc`.
pub fn millrace(system: &str) -> Option<EngineKind> {
    LEVELS.into_iter().chain([("millrace", EngineKind::NATIVE)]).find(|(name, _)| *name == system).map(|(_, kind)| kind)
}

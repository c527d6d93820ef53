//! Datagrams that come in fragments, on their way through the splicer.

use control::application::metrics::{Family, Kind};
use wire::fragments::Fragments;

/// What became of them.
pub fn family(fragments: &Fragments) -> Family {
    let about = "datagrams in fragments by what became of them";
    let mut family = Family::new(Kind::Counter, "fragmented_datagrams", about);
    fragments.counts().for_each(|(fate, count)| family.add(&[("fate", fate.name())], count));
    family
}

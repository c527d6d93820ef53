//! The applications that are built in: the only list of them, a line each. To link in another one, add its crate to the
//! dependencies and a line here.

use cli::Linked;
use control::applications::{AnyApplication, Applications};

/// All of them, with their subcommands and scenes of the demo.
#[rustfmt::skip]
pub const LINKED: &[Linked] = &[
    collector::LINKED,
    firewall::LINKED,
    media::LINKED,
    responder::LINKED,
    routes::LINKED,
    splice::LINKED,
    translate::LINKED,
];

/// The same for the control plane.
pub const BUILT_IN: Applications = Applications::new(ALL);

const ALL: &[&dyn AnyApplication] = &cli::linked::applications::<{ LINKED.len() }>(LINKED);

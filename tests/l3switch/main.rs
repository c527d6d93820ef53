//! The L3 switch on live network namespaces: `millrace run l3switch` between four hosts, checked from outside.
//!
//! Each test builds its own network, so all can run at once. They need root, or `unshare --user --map-root-user`, and
//! fail without.

mod bridge;
mod drops;
mod flood;
mod hosts;
mod route;
mod switch;

#[path = "../support/frames.rs"]
mod frames;
#[path = "../support/hostile.rs"]
mod hostile;
#[path = "../support/random.rs"]
mod random;
#[path = "../support/report.rs"]
mod report;

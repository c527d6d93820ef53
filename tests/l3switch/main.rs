//! The L3 switch on live network namespaces: `millrace run l3switch` between four hosts, checked from outside.
//!
//! Each test builds its own network, so all can run at once. They need root, or `unshare --user --map-root-user`, and
//! fail without.

mod access;
mod bridge;
mod control;
mod drops;
mod eventually;
mod flap;
mod flood;
mod hosts;
mod jumbo;
mod line;
mod mtu;
mod route;
mod samples;
mod storm;
mod switch;
mod timing;
mod trace;
mod updates;
mod workers;

#[path = "../support/churn.rs"]
mod churn;
#[path = "../support/frames.rs"]
mod frames;
#[path = "../support/hostile.rs"]
mod hostile;
// What the tests of the command line use of these is not used here.
#[allow(dead_code)]
#[path = "../support/instance.rs"]
mod instance;
#[allow(dead_code)]
#[path = "../support/process.rs"]
mod process;
#[path = "../support/random.rs"]
mod random;
#[path = "../support/report.rs"]
mod report;
#[path = "../support/stream.rs"]
mod stream;
#[path = "../support/transfer.rs"]
mod transfer;

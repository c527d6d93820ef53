//! What the kernel says, and what is known of it.
//!
//! | file | idea |
//! |---|---|
//! | `socket` | dumps, events and requests over rtnetlink sockets |
//! | `event` | a message as what it says of a link, an address, a neighbour or a route |
//! | `state` | all that is known; what a change touches |

pub mod event;
pub mod socket;
pub mod state;

#[cfg(test)]
pub mod tests;

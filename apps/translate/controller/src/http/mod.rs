//! HTTP as clients speak it, without connections: requests read, answers written.
//!
//! | file | what |
//! |---|---|
//! | `refusal` | why a request is refused: each reason once |
//! | `request` | a request, in whatever pieces it comes |
//! | `place` | addresses and ports of URLs |
//! | `target` | what a URL means |
//! | `answer` | heads and bodies of answers |
//! | `forward` | requests and answers as the host's own server gets and gives them |

pub mod answer;
pub mod forward;
pub mod place;
pub mod refusal;
pub mod request;
pub mod target;

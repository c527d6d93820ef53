//! What several tests share.

use std::thread;
use std::time::{Duration, Instant};

use lab::{LinkConfig, Namespace, veth};

/// Long enough for a loaded machine; nothing waits this long when all is well.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// How long an answer is waited for that must not come.
pub const NO_ANSWER: Duration = Duration::from_secs(1);

/// Looks until `condition` holds, for at most [`PATIENCE`].
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "still not so: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Whether a process exists and is not a zombie.
pub fn is_alive(process: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{process}/stat"))
        .is_ok_and(|stat| stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.starts_with(" Z")))
}

/// Two namespaces linked by `eth0` at both ends, set up as `config`, not yet with addresses.
pub fn pair(config: &LinkConfig) -> (Namespace, Namespace) {
    let (a, b) = (Namespace::new("a").unwrap(), Namespace::new("b").unwrap());
    veth(&a, "eth0", &b, "eth0").unwrap();
    for ns in [&a, &b] {
        ns.configure("eth0", config).unwrap();
    }
    for ns in [&a, &b] {
        ns.wait_running("eth0", PATIENCE).unwrap();
    }
    (a, b)
}

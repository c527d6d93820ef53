//! What is shown again and again.

use serde_json::Value as Json;

use crate::instance::Runtime;
use crate::screen::Terminal;
use crate::{FIRST, PATCH};

#[test]
fn drops_are_watched_with_rates() {
    let runtime = Runtime::new();
    let _instance = runtime.start(&[PATCH, "--port", &format!("left=pcap:{FIRST}"), "--port", "right=mem:"]);
    // They come at the start, and then no more.
    while runtime.json(&["drops"])["ttl_expired"] != 1 {}
    let header = "  packets dropped, by reason  packets  per second    share\n";
    let rows = |rate: &str| {
        let rate = format!("{rate:>10}");
        format!(
            "{header}  truncated                         2  {rate}   66.7 %\n  ttl_expired                       1  {rate}   \
             33.3 %\n  all                               3  {rate}  100.0 %\n"
        )
    };
    assert_eq!(runtime.millrace(&["drops", "--watch", "--count", "2"]).ok(), rows("-") + &rows("0"));
    let lines = runtime.millrace(&["drops", "--watch", "--count", "2", "--json"]).ok();
    let lines: Vec<Json> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines, [runtime.json(&["drops"]), runtime.json(&["drops"])]);
    // On a terminal in the place of those before.
    let mut terminal = Terminal::start(&runtime.command(&["drops", "--watch", "--count", "2"]), (24, 80));
    assert_eq!(terminal.end(), Some(0));
    let text = terminal.wait_for("all                               3           0");
    assert_eq!(text.trim_end(), rows("0").trim_end());
}

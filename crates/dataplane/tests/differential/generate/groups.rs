//! Groups in programs that are written already: some of their puts become puts to all members of a group, and PPFs look
//! their packet's member up first. So programs without groups stay what they are.

use baker::check::check;
use baker::library::Library;

use crate::numbers::SplitMix64;

/// The group that each module has.
const GROUP: &str = "group<u32> viewers[4] of 20;";
/// What each PPF begins with.
const MEMBER: &str = "{ u32 *member = group_member(viewers, pkt);
if (member != null) { pkt->metadata.tx.port = (u8) (*member + pkt->metadata.member); *member += pkt->metadata.group; } }";
const PUT: &str = "channel_put(";

/// The same program with groups, where that costs no more than a program may.
pub fn grouped(text: &str, n: &mut SplitMix64) -> Option<String> {
    let mut out = String::new();
    for line in text.lines() {
        let is_ppf = line.ends_with('{') && line.contains(" *pkt)");
        // One group there is not.
        let group = n.below(5);
        match line.split_once(PUT).and_then(|(before, put)| Some((before, put.split_once(',')?))) {
            Some((before, (channel, rest))) if n.chance(40) => {
                out += &format!("{before}channel_put_all({channel}, viewers[{group}],{rest}");
            }
            _ => out += line,
        }
        out.push('\n');
        if line.starts_with("module ") {
            out += GROUP;
        } else if is_ppf {
            out += MEMBER;
        }
        out.push('\n');
    }
    check("random.baker", &out, &Library).diagnostics.is_empty().then_some(out)
}

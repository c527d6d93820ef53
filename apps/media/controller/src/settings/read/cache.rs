//! Reads `cache`: where streams are recorded.

use std::path::PathBuf;
use std::time::Duration;

use baker::syntax::duration;
use media_cache::Durability;

use super::*;
use crate::settings::cache::{CacheSettings, Films};

/// Bytes of blocks in memory, where nothing is said of it, and how many of them there may be.
const MEMORY: u64 = 64 << 20;
const BLOCKS: std::ops::RangeInclusive<usize> = 4..=media_cache::MOST_BUFFERS;
/// Ages that recordings may be removed at, in seconds.
const AGES: std::ops::RangeInclusive<u64> = 60..=10 * 366 * 86_400;

impl Reader<'_, '_> {
    pub(super) fn cache(&mut self, table: &Table, path: &Path) -> Option<CacheSettings> {
        let (value, path) = (table.get("cache")?, path.key("cache"));
        let table = document::table(value, &path, self.errors)?;
        let known = ["directory", "quota", "free", "age", "segment", "segment_size", "block", "memory", "sync"];
        let known = [&known[..], &["direct", "films", "after", "fresh"]].concat();
        document::only(table, &path, &known, self.errors);
        let mut own = media_cache::Settings::default();
        own.quota = self.size(table, &path, "quota", (16 << 20, 1 << 60), own.quota);
        own.free_space = self.size(table, &path, "free", (0, 1 << 60), own.free_space);
        own.block = self.size(table, &path, "block", (64 << 10, 4 << 20), own.block as u64) as usize;
        let memory = self.size(table, &path, "memory", (1 << 20, 64 << 30), MEMORY);
        own.buffers = memory as usize / own.block;
        if let (true, Some(value)) = (!BLOCKS.contains(&own.buffers), table.get("memory")) {
            let problem = format!("{} blocks of {} bytes", own.buffers, own.block);
            let accepted = format!("memory for {} to {} of them", BLOCKS.start(), BLOCKS.end());
            self.errors.add(value.span().start, &path.key("memory"), problem, accepted);
        }
        own.buffers = own.buffers.clamp(*BLOCKS.start(), *BLOCKS.end());
        own.segment_bytes = self.size(table, &path, "segment_size", (1 << 20, 1 << 30), own.segment_bytes);
        let segment = self.time(table, &path, "segment", Duration::from_secs(own.segment_seconds));
        own.segment_seconds = segment.as_secs();
        let accepted = "a time from \"60s\" to ten years, such as \"168h\"";
        let age = |text: &str| duration(text).map(|own| own / 1_000_000_000).filter(|own| AGES.contains(own));
        own.age_seconds = table.get("age").and_then(|value| self.parsed(value, &path.key("age"), accepted, age));
        let sync = |text: &str| match text {
            "block" => Some(Durability::Block),
            "segment" => Some(Durability::Segment),
            "never" => Some(Durability::Never),
            _ => None,
        };
        let accepted = "\"block\", \"segment\" or \"never\"";
        let read = table.get("sync").and_then(|value| self.parsed(value, &path.key("sync"), accepted, sync));
        own.sync = read.unwrap_or(own.sync);
        let direct = table.get("direct").and_then(|own| document::boolean(own, &path.key("direct"), self.errors));
        own.direct = direct.unwrap_or(own.direct);
        let mut films = Films::default();
        let accepted = "what URLs at origins begin with, such as \"rtsp://10.0.2.11/\", or a list of it";
        films.prefixes = self.several(table, &path, "films", accepted, |text| {
            text.get(..7).filter(|own| own.eq_ignore_ascii_case("rtsp://")).map(|_| text.to_owned())
        });
        films.after = self.number(table, &path, "after", 1, 1_000_000, films.after.into()) as u32;
        films.fresh = self.time_or_none(table, &path, "fresh", films.fresh);
        if let Err(why) = own.check() {
            self.errors.add(value.span().start, &path, why, "other sizes");
        }
        let Some(directory) = table.get("directory") else {
            self.errors.add(value.span().start, &path, "`directory` is missing", "a directory for recordings alone");
            return None;
        };
        let directory = document::string(directory, &path.key("directory"), "a directory", self.errors)?;
        Some(CacheSettings { directory: PathBuf::from(directory), own, films })
    }

    /// A size in bytes.
    fn size(&mut self, table: &Table, path: &Path, key: &str, (least, most): (u64, u64), default: u64) -> u64 {
        let accepted = format!("a size from {least} to {most} bytes, such as \"1 GiB\", \"100 GB\" or \"512 KiB\"");
        let size = |text: &str| bytes(text).filter(|own| (least..=most).contains(own));
        let read = table.get(key).and_then(|value| self.parsed(value, &path.key(key), &accepted, size));
        read.unwrap_or(default)
    }
}

/// `512 KiB`, `1.5 GB`, `0 B`.
fn bytes(text: &str) -> Option<u64> {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)].map(|(name, bits)| (name, (1u64 << bits) as f64));
    let units = units.into_iter().chain([("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0)]);
    let split = |(name, unit)| Some((text.strip_suffix(name)?.trim_end(), unit));
    let (number, unit) = units.into_iter().find_map(split)?;
    let is_plain = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let size = number.parse::<f64>().ok().filter(|_| is_plain)? * unit;
    (size < (1u64 << 62) as f64).then_some(size as u64)
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn sizes_are_read() {
        for (text, size) in [
            ("512 KiB", Some(524_288)),
            ("1GiB", Some(1 << 30)),
            ("1.5 GB", Some(1_500_000_000)),
            ("0 B", Some(0)),
            ("10", None),
            ("GB", None),
            ("-1 GB", None),
            ("1e3 GB", None),
            ("1..5 GB", None),
            ("9999999999 TB", None),
        ] {
            assert_eq!(bytes(text), size, "{text}");
        }
    }
}

//! Settings, as a controller's own embed them.

use serde::Deserialize;

/// Blocks that io_uring knows at most (IORING_MAX_REG_BUFFERS).
pub const MOST_BUFFERS: usize = 1 << 14;
/// A segment of a stream with access points is at most so many quarters of its length long, and half of that at least.
pub const LONGEST: u64 = 6;

/// What of a segment is on the disk for certain, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Each block before it counts as written: power loss costs at most a block.
    Block,
    /// Each segment at its end.
    Segment,
    /// When the kernel likes.
    Never,
}

/// Settings of a cache. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Bytes that are written at a time, a multiple of 4096 from 64 KiB to 4 MiB.
    pub block: usize,
    /// Blocks in memory, for all recordings: each of them fills one.
    pub buffers: usize,
    /// Blocks of one recording that may wait for the disk.
    pub queue: u32,
    /// A block is written when its first packet is so old, in milliseconds.
    pub linger_ms: u64,
    /// Packets that wait for one that is late,
    pub window: usize,
    /// and for how long, in milliseconds.
    pub window_ms: u64,
    /// Length of a segment, in seconds: it ends at the first access point from three quarters of it on, and anywhere
    /// when it is half as much again (see [`LONGEST`]),
    pub segment_seconds: u64,
    /// and in bytes.
    pub segment_bytes: u64,
    /// When files are synced.
    pub sync: Durability,
    /// Whether to write past the page cache where the file system can.
    pub direct: bool,
    /// Whether to write with io_uring where the kernel lets us.
    pub io_uring: bool,
    /// What all segments may take.
    pub quota: u64,
    /// What is to be left free on the file system.
    pub free_space: u64,
    /// Segments are removed when they are so old, in seconds.
    pub age_seconds: Option<u64>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            block: 512 << 10,
            buffers: 128,
            queue: 64,
            linger_ms: 1000,
            window: 64,
            window_ms: 200,
            segment_seconds: 10,
            segment_bytes: 16 << 20,
            sync: Durability::Block,
            direct: true,
            io_uring: true,
            quota: 10 << 30,
            free_space: 1 << 30,
            age_seconds: None,
        }
    }
}

impl Settings {
    /// What is wrong with them.
    pub fn check(&self) -> Result<(), String> {
        let wrong = |what: &str, rule: &str| Err(format!("{what} must be {rule}"));
        if !self.block.is_multiple_of(crate::blocks::ALIGNMENT) || !(64 << 10..=4 << 20).contains(&self.block) {
            return wrong("block", "a multiple of 4096 from 65536 to 4194304");
        }
        if !(2..=MOST_BUFFERS).contains(&self.buffers) {
            return wrong("buffers", "from 2 to 16384");
        }
        if self.queue == 0 {
            return wrong("queue", "at least 1");
        }
        if !(1..=1024).contains(&self.window) {
            return wrong("window", "from 1 to 1024");
        }
        if !(1..=3600).contains(&self.segment_seconds) {
            return wrong("segment_seconds", "from 1 to 3600");
        }
        if !(self.block as u64..=1 << 30).contains(&self.segment_bytes) {
            return wrong("segment_bytes", "from one block to 1073741824");
        }
        Ok(())
    }
}

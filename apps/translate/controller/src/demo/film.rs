//! What is shown: a film by ffmpeg where that is installed, else packets without pictures. What came of it is decoded
//! and compared. Files lie in memory, so nothing is left.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::AsRawFd;

use cli::failure::Failure;
use lab::Namespace;
use nix::sys::memfd::{MFdFlags, memfd_create};

use super::network::PATIENCE;

/// Bytes of a packet of a transport stream (ISO/IEC 13818-1 section 2.4.3.2).
const TS: usize = 188;
/// The packet identifier of null packets.
const NULL: u16 = 0x1fff;
const HASHES: [&str; 4] = ["-an", "-f", "framemd5", "-"];

/// Bytes that programs find by a path.
struct MemoryFile(File);

impl MemoryFile {
    fn new(bytes: &[u8]) -> Result<MemoryFile, Failure> {
        let file = memfd_create("demo", MFdFlags::MFD_CLOEXEC).map_err(Failure::refused)?;
        let mut file = File::from(file);
        file.write_all(bytes).map_err(Failure::refused)?;
        Ok(MemoryFile(file))
    }

    fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }
}

/// A transport stream.
pub struct Film {
    pub bytes: Vec<u8>,
    /// A hash of each frame; none without ffmpeg.
    frames: Option<Vec<String>>,
}

impl Film {
    /// Of so many seconds and bit/s.
    pub fn new(place: &Namespace, seconds: u32, rate: u64) -> Result<Film, Failure> {
        if place.command("ffmpeg").arg("-version").run().is_err() {
            return Ok(Film { bytes: plain(u64::from(seconds) * rate / 8), frames: None });
        }
        let mut file = MemoryFile::new(&[])?;
        let picture = format!("testsrc2=size=480x270:rate=25:duration={seconds}");
        // Half a second between access points; nothing refers to what is shown later.
        let codec = ["-c:v", "libx264", "-g", "12", "-bf", "0", "-pix_fmt", "yuv420p", "-preset", "veryfast"];
        let (video, all) = (format!("{}", rate * 3 / 4), format!("{rate}"));
        let rates = ["-b:v", &video, "-maxrate", &video, "-bufsize", &video, "-muxrate", &all];
        let command = place.command("ffmpeg").args(["-y", "-loglevel", "error", "-f", "lavfi", "-i", &picture]);
        let command = command.args(codec).args(rates).args(["-f", "mpegts", &file.path()]);
        command.limit(PATIENCE).check().map_err(Failure::refused)?;
        let mut bytes = Vec::new();
        file.0.rewind().and_then(|()| file.0.read_to_end(&mut bytes)).map_err(Failure::refused)?;
        let frames = frames(place, &bytes)?;
        Ok(Film { bytes, frames: Some(frames) })
    }

    /// What became of it on its way.
    pub fn judge(&self, place: &Namespace, came: &[u8]) -> Result<Picture, Failure> {
        let packets = came.chunks_exact(TS);
        let framed = packets.clone().all(|packet| packet[0] == 0x47) && came.len() % TS < TS;
        let gaps = gaps(came);
        let Some(sent) = &self.frames else { return Ok(Picture { gaps, framed, frames: None }) };
        let shown = frames(place, came)?;
        let known: HashSet<&String> = sent.iter().collect();
        let good = shown.iter().filter(|frame| known.contains(frame)).count();
        Ok(Picture { gaps, framed, frames: Some((sent.len(), good, shown.len() - good)) })
    }
}

/// What a viewer sees.
pub struct Picture {
    /// Places where packets are missing, by their continuity counters.
    pub gaps: usize,
    /// Whether all of it is whole packets.
    pub framed: bool,
    /// Frames that were sent; of them shown as they were; shown, and damaged. None without ffmpeg.
    pub frames: Option<(usize, usize, usize)>,
}

/// Packets without pictures.
fn plain(bytes: u64) -> Vec<u8> {
    let packet = |number: u64| {
        let mut packet = [0xff; TS];
        packet[..4].copy_from_slice(&[0x47, 0x01, 0x00, 0x10 | (number & 15) as u8]);
        packet
    };
    (0..bytes / TS as u64).flat_map(packet).collect()
}

/// Jumps of continuity counters (ISO/IEC 13818-1 section 2.4.3.3).
fn gaps(bytes: &[u8]) -> usize {
    let mut last: HashMap<u16, u8> = HashMap::new();
    let mut gaps = 0;
    for packet in bytes.chunks_exact(TS) {
        let pid = u16::from_be_bytes([packet[1] & 0x1f, packet[2]]);
        // Only packets with a payload are counted, and one may come twice.
        if pid == NULL || packet[3] & 0x10 == 0 {
            continue;
        }
        let counter = packet[3] & 15;
        if let Some(before) = last.insert(pid, counter) {
            gaps += usize::from(counter != (before + 1) & 15 && counter != before);
        }
    }
    gaps
}

/// A hash of each frame that ffmpeg decodes.
fn frames(place: &Namespace, bytes: &[u8]) -> Result<Vec<String>, Failure> {
    let file = MemoryFile::new(bytes)?;
    let command = place.command("ffmpeg").args(["-loglevel", "quiet", "-i", &file.path()]).args(HASHES);
    let text = command.limit(PATIENCE).run().map_err(Failure::refused)?.text();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    Ok(lines.filter_map(|line| line.split_whitespace().next_back()).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_packets_are_noticed() {
        let all = plain(40 * TS as u64);
        assert_eq!(gaps(&all), 0);
        let without = [&all[..5 * TS], &all[7 * TS..]].concat();
        assert_eq!(gaps(&without), 1);
        let twice = [&all[..5 * TS], &all[4 * TS..]].concat();
        assert_eq!(gaps(&twice), 0);
        let null = [&all[..5 * TS], &[0x47, 0x1f, 0xff, 0x10], &[0; TS - 4], &all[5 * TS..]].concat();
        assert_eq!(gaps(&null), 0);
    }
}

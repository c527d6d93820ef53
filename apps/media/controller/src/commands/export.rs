//! `millrace media cache export`: a recording as a file of another program.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use cli::failure::Failure;
use cli::report::grouped;
use cli::say;
use media_cache::{Archive, Recording, Stopped};

use crate::export::{self, Format, Range, Written};

/// Which recording, and as what.
#[derive(clap::Args)]
pub struct Args {
    /// The directory of the cache; a proxy may have it meanwhile
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
    /// The recording's number, as `ls` shows it
    #[arg(value_name = "ID")]
    id: u64,
    /// Where to write; `-` is standard output
    #[arg(value_name = "FILE")]
    output: PathBuf,
    /// What to write; by the file's name otherwise
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Begin so many seconds behind the recording's beginning
    #[arg(long, value_name = "SECONDS", value_parser = microseconds, default_value = "0")]
    from: u64,
    /// End so many seconds behind it
    #[arg(long, value_name = "SECONDS", value_parser = microseconds)]
    to: Option<u64>,
    /// Replace the file if it is there
    #[arg(long)]
    force: bool,
    /// Print what was written as JSON
    #[arg(long)]
    json: bool,
}

/// Seconds, with a fraction or without.
fn microseconds(text: &str) -> Result<u64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..1e9).contains(&seconds) => Ok((seconds * 1e6).round() as u64),
        _ => Err("not a number of seconds".into()),
    }
}

impl Args {
    /// Does it.
    pub fn run(&self) -> Result<(), Failure> {
        if self.to.is_some_and(|to| to <= self.from) {
            return Err(Failure::wrong("error: --to must be behind --from"));
        }
        let format = self.format()?;
        let archive = Archive::open(&self.directory).map_err(Failure::refused)?;
        let recording = archive.recording(self.id).map_err(|_| {
            let known = archive.all().unwrap_or_default().iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
            let known = if known.is_empty() { "none".to_owned() } else { known };
            Failure::wrong(format!("error: there is no recording {}; there are: {known}", self.id))
        })?;
        if format.wants_ts() && !recording.source.kind.is_ts() {
            return Err(Failure::wrong(format!(
                "error: recording {} is RTP with {}, not MPEG-TS: it can be exported as pcap or rtpdump",
                self.id, recording.source.encoding
            )));
        }
        let range = Range { from: self.from, to: self.to };
        let written = match (self.output == Path::new("-"), format) {
            (true, Format::Mp4) => return Err(Failure::wrong("error: MP4 can't be written to standard output")),
            (true, _) if io::stdout().is_terminal() => {
                return Err(Failure::wrong("error: this is not for a terminal: name a file, or pipe it"));
            }
            (true, _) => to_stdout(&archive, &recording, format, range)?,
            (false, _) => self.to_file(&archive, &recording, format, range)?,
        };
        self.tell(written);
        Ok(())
    }

    fn format(&self) -> Result<Format, Failure> {
        let extension = self.output.extension().and_then(|own| own.to_str()).unwrap_or_default();
        let by_name = || match extension.to_ascii_lowercase().as_str() {
            "ts" | "m2ts" | "mpegts" => Some(Format::Ts),
            "mp4" | "m4v" => Some(Format::Mp4),
            "pcap" => Some(Format::Pcap),
            "rtp" | "rtpdump" => Some(Format::Rtpdump),
            _ => None,
        };
        self.format.or_else(by_name).ok_or_else(|| {
            Failure::wrong("error: the file's name does not say what to write: --format ts, mp4, pcap or rtpdump")
        })
    }

    /// Under another name until it is whole, so that a file with its own name is.
    fn to_file(
        &self,
        archive: &Archive,
        recording: &Recording,
        format: Format,
        range: Range,
    ) -> Result<Written, Failure> {
        let output = &self.output;
        if output.exists() && !self.force {
            return Err(Failure::wrong(format!("error: {}: is there already; --force replaces it", output.display())));
        }
        let mut name = output.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let part = Part(output.with_file_name(name));
        let refused = |error: io::Error| Failure::refused(format!("{}: {error}", output.display()));
        let written = match format {
            Format::Mp4 => {
                let mut ffmpeg = Ffmpeg::start(&part.0)?;
                let result = export::write(archive, recording, format, range, &mut ffmpeg);
                ffmpeg.end(result)?
            }
            _ => {
                let mut file = OpenOptions::new().write(true).create_new(true).open(&part.0).map_err(refused)?;
                let written =
                    export::write(archive, recording, format, range, &mut file).map_err(|stopped| match stopped {
                        Stopped::Told(error) => refused(error),
                        read @ Stopped::Read(..) => Failure::refused(read),
                    })?;
                // A full disk may be found only now.
                file.sync_all().map_err(refused)?;
                written
            }
        };
        if written.packets == 0 {
            return Err(nothing(recording));
        }
        match self.force {
            true => fs::rename(&part.0, output),
            // One that has come meanwhile stays.
            false => fs::hard_link(&part.0, output),
        }
        .map_err(refused)?;
        Ok(written)
    }

    /// On standard error where the file is on standard output.
    fn tell(&self, written: Written) {
        let text = self.told(written);
        match self.output == Path::new("-") {
            true => _ = writeln!(io::stderr(), "{text}"),
            false => say!("{text}"),
        }
    }

    fn told(&self, written: Written) -> String {
        let Written { packets, bytes, gaps, missing, damaged } = written;
        if self.json {
            return serde_json::to_string(&written).unwrap_or_default();
        }
        let mut text = format!("{} packets, {} bytes", grouped(packets), grouped(bytes));
        if gaps > 0 {
            text += &format!("; {} are missing in {} places", grouped(missing), grouped(gaps));
        }
        if damaged > 0 {
            text += &format!(", {} of them damaged or removed", grouped(damaged));
        }
        text
    }
}

fn nothing(recording: &Recording) -> Failure {
    Failure::wrong(format!("error: recording {} has no packet there", recording.id))
}

fn to_stdout(archive: &Archive, recording: &Recording, format: Format, range: Range) -> Result<Written, Failure> {
    match export::write(archive, recording, format, range, &mut io::stdout().lock()) {
        Ok(Written { packets: 0, .. }) => Err(nothing(recording)),
        Ok(written) => Ok(written),
        // Its reader may stop early, as `head` does.
        Err(Stopped::Told(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(Written::default()),
        Err(Stopped::Told(error)) => Err(Failure::refused(format!("standard output: {error}"))),
        Err(read) => Err(Failure::refused(read)),
    }
}

/// A file that is removed unless it got another name.
struct Part(PathBuf);

impl Drop for Part {
    fn drop(&mut self) {
        // After a rename it is not there.
        let _ = fs::remove_file(&self.0);
    }
}

/// ffmpeg, which makes MP4 of MPEG-TS.
struct Ffmpeg {
    child: Child,
    said: File,
}

impl Ffmpeg {
    fn start(output: &Path) -> Result<Ffmpeg, Failure> {
        let refused = |error: io::Error| Failure::refused(format!("ffmpeg: {error}"));
        // A pipe that nobody reads would hold it up.
        let said = File::from(
            nix::sys::memfd::memfd_create(c"ffmpeg", nix::sys::memfd::MFdFlags::MFD_CLOEXEC)
                .map_err(|error| refused(error.into()))?,
        );
        let mut command = Command::new("ffmpeg");
        command.args(["-nostdin", "-hide_banner", "-loglevel", "error", "-y", "-f", "mpegts", "-i", "pipe:0"]);
        command.args(["-c", "copy", "-movflags", "+faststart", "-f", "mp4"]).arg(output);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(said.try_clone().map_err(refused)?);
        match command.spawn() {
            Ok(child) => Ok(Ffmpeg { child, said }),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Err(Failure::refused("MP4 is made by ffmpeg, which is not installed (package ffmpeg)"))
            }
            Err(error) => Err(refused(error)),
        }
    }

    /// Waits for it. What it says comes before what was found when it read no more.
    fn end(mut self, result: Result<Written, Stopped<io::Error>>) -> Result<Written, Failure> {
        drop(self.child.stdin.take());
        let status = self.child.wait().map_err(|error| Failure::refused(format!("ffmpeg: {error}")))?;
        if let Err(read @ Stopped::Read(..)) = result {
            return Err(Failure::refused(read));
        }
        if !status.success() {
            let mut said = Vec::new();
            let _ = io::Seek::rewind(&mut self.said).and_then(|()| io::Read::read_to_end(&mut self.said, &mut said));
            let said = String::from_utf8_lossy(&said).trim().replace('\n', "; ");
            return Err(Failure::refused(format!("ffmpeg ({status}): {said}")));
        }
        result.map_err(|stopped| Failure::refused(format!("ffmpeg: {stopped}")))
    }
}

impl Write for Ffmpeg {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.child.stdin.as_mut().ok_or(ErrorKind::BrokenPipe)?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

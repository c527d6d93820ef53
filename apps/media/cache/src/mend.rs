//! A segment that may be damaged: what of it is whole, and its index for that.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

use crate::format::entry::{Encoder, Entry, First};
use crate::format::index::{self, Chunk, Header, Index};
use crate::format::{log, ts};
use crate::info::{Kind, Recording, Segment};
use crate::layout::Layout;
use crate::recovery::Report;

/// Payload that packets of MPEG-TS are taken to have had when their index is lost (RFC 2250 section 2).
const PAYLOAD: usize = 7 * ts::PACKET;
/// Packets in a chunk of an index that is made anew.
const PACKETS: usize = 400;

/// Makes a segment whole: cuts off what is not, and writes its index anew where that is not as it should be. None where
/// nothing is left.
///
/// # Errors
///
/// The files can't be read or written.
pub fn segment(
    layout: &Layout,
    recording: &Recording,
    number: u32,
    before: Option<&Segment>,
    report: &mut Report,
) -> io::Result<Option<Segment>> {
    let kind = recording.source.kind;
    let path = layout.segment(recording.id, number, kind);
    let index_path = layout.index(recording.id, number);
    let Some(data) = read(&path)? else {
        let size = fs::metadata(&index_path).map_or(0, |own| own.len());
        fs::remove_file(&index_path)?;
        report.lost(path, "the segment is gone", size);
        return Ok(None);
    };
    let found = Index::decode(&read(&index_path)?.unwrap_or_default());
    let own = found.header.filter(|own| (own.recording, own.segment) == (recording.id, number));
    let is_whole = own.is_some() && found.end == Some(data.len() as u64);
    let mut chunks = if own.is_some() { found.chunks } else { Vec::new() };
    let begin = if kind.is_ts() { 0 } else { log::HEADER as u64 };
    if chunks.first().is_some_and(|own| own.offset != begin) {
        chunks.clear();
    }
    // From the end, what was not written is taken off. What is damaged before that stays, and readers pass over it.
    let indexed = end(&chunks).unwrap_or(begin);
    let mut torn = false;
    while !is_whole && chunks.last().is_some_and(|own| !is_good(own, &data, kind)) {
        chunks.pop();
        torn = true;
    }
    let mut length = end(&chunks).unwrap_or(begin);
    // What the index does not know: of a log all that has the right checksum; of MPEG-TS all whole packets, unless the
    // index has the checksum of other bytes.
    let rest = data.get(length as usize..).unwrap_or_default();
    let made = match kind {
        Kind::Rtp if begin == length && !log::is_log(&data) => Vec::new(),
        Kind::Rtp => of_log(recording, rest, &chunks),
        _ if torn => Vec::new(),
        _ => of_ts(recording, rest, before, &chunks),
    };
    let made_bytes: usize = made.iter().map(|(_, size)| *size).sum();
    length += made_bytes as u64;
    append(&made, &data, &mut chunks, begin, before);
    let damaged: u64 = chunks.iter().filter(|own| !is_good(own, &data, kind)).map(|own| u64::from(own.length)).sum();
    if damaged > 0 {
        report.lost(path.clone(), "bytes are damaged", damaged);
    }
    let lost = (data.len() as u64).max(indexed) - length;
    if lost > 0 {
        // Zeros are what a block is filled up with.
        let is_zero = data.get(length as usize..).is_some_and(|rest| rest.iter().all(|own| *own == 0));
        if is_zero && !torn {
            report.mended(path.clone(), format!("{lost} bytes behind the last block are cut off"));
        } else {
            report.lost(path.clone(), "the last block was not written as a whole", lost);
        }
    }
    let mut segment = Segment::of_chunks(recording.id, number, chunks.iter());
    segment.reference = made.iter().rev().find_map(|(own, _)| Some((own.pcr?, own.npt)));
    if segment.packets == 0 {
        for path in [&path, &index_path] {
            if path.exists() {
                fs::remove_file(path)?;
            }
        }
        return Ok(None);
    }
    if is_whole && lost == 0 && made.is_empty() {
        segment.index_bytes = found.length as u64;
        report.whole += u64::from(damaged == 0);
        return Ok(Some(segment));
    }
    if made_bytes > 0 || own.is_none() || found.end.is_none() {
        let what = format!("the index is made anew for {made_bytes} of {length} bytes");
        report.mended(index_path.clone(), what);
    }
    if length != data.len() as u64 {
        let file = OpenOptions::new().write(true).open(&path)?;
        file.set_len(length)?;
        file.sync_data()?;
    }
    let expected = own.and_then(|own| own.expected).or_else(|| before.map(|own| own.last_sequence.saturating_add(1)));
    let header = Header { recording: recording.id, segment: number, is_ts: kind.is_ts(), expected };
    segment.index_bytes = write_index(&index_path, &header, &chunks, length)?;
    Ok(Some(segment))
}

/// The contents of a file; none where it is not there.
fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?.read_to_end(&mut bytes)?,
    };
    Ok(Some(bytes))
}

/// Where chunks end.
fn end(chunks: &[Chunk]) -> Option<u64> {
    chunks.last().map(|own| own.offset.saturating_add(own.length.into()))
}

/// Whether a chunk's bytes are as they were written.
pub fn is_good(chunk: &Chunk, data: &[u8], kind: Kind) -> bool {
    let bytes = data.get(chunk.offset as usize..).and_then(|rest| rest.get(..chunk.length as usize));
    bytes.is_some_and(|own| crc32fast::hash(own) == chunk.checksum) && chunk.packets(overhead(kind)).is_some()
}

/// Bytes in front of each packet.
pub fn overhead(kind: Kind) -> u32 {
    if kind.is_ts() { 0 } else { log::RECORD as u32 }
}

/// The last packet that is known.
fn last(chunks: &[Chunk], kind: Kind) -> Option<Entry> {
    chunks.last()?.packets(overhead(kind))?.last().copied()
}

/// Packets of a log, with the bytes that they take, up to the first that is not whole.
fn of_log(recording: &Recording, mut bytes: &[u8], chunks: &[Chunk]) -> Vec<(Entry, usize)> {
    let known = last(chunks, Kind::Rtp);
    // How far the wall clock was from the other.
    let apart = known.map_or(recording.began, |own| own.clock.wrapping_sub(own.npt));
    let coding = wire::picture::Coding::named(&recording.source.encoding);
    let mut pictures = coding.map(wire::picture::Reader::new);
    let mut before = known.map(|own| own.sequence);
    let mut all = Vec::new();
    while let Some(record) = log::read(bytes) {
        let Some(header) = wire::rtp::Header::read(record.packet) else { break };
        let cycle = u64::from(record.cycle) << 16;
        let base = before.unwrap_or(0) & !0xffff_ffff;
        let sequence = base | cycle | u64::from(header.sequence);
        let contents = pictures.as_mut().map(|own| own.read(record.packet)).unwrap_or_default();
        let entry = Entry {
            sequence,
            timestamp: header.timestamp,
            npt: record.npt,
            clock: apart.wrapping_add(record.npt),
            length: record.packet.len() as u32,
            access_point: contents.access_point,
            marker: wire::rtp::is_marked(record.packet),
            restart: false,
            estimated: false,
            pcr: None,
        };
        before = Some(sequence);
        all.push((entry, record.length));
        bytes = &bytes[record.length..];
    }
    all
}

/// Packets of MPEG-TS whose index is lost: seven in each, at the times that PCR says.
fn of_ts(recording: &Recording, bytes: &[u8], before: Option<&Segment>, chunks: &[Chunk]) -> Vec<(Entry, usize)> {
    let known = last(chunks, Kind::Mp2t);
    let start = match (known, before) {
        (Some(own), _) => own,
        (None, Some(own)) => {
            Entry { sequence: own.last_sequence, npt: own.latest_npt, clock: own.latest_clock, ..Entry::default() }
        }
        (None, None) => Entry { sequence: u64::MAX, clock: recording.began, ..Entry::default() },
    };
    let mut pictures = wire::picture::Reader::new(wire::picture::Coding::TransportStream);
    let mut reference: Option<(u64, u64)> = known.is_none().then(|| before?.reference).flatten();
    let (mut all, mut last) = (Vec::new(), start);
    for own in bytes[..ts::whole(bytes)].chunks(PAYLOAD) {
        let pcr = ts::pcr(own);
        let mut npt = last.npt;
        if let Some(pcr) = pcr {
            let (first, at) = *reference.get_or_insert((pcr, last.npt));
            let passed = pcr.wrapping_sub(first).wrapping_add(if pcr < first { ts::WRAP } else { 0 });
            // A jump of the clock tells nothing.
            let due = at.saturating_add(passed / (ts::HERTZ / 1_000_000));
            if due >= last.npt && due - last.npt < 60_000_000 {
                npt = due;
            } else {
                reference = Some((pcr, npt));
            }
        }
        last = Entry {
            sequence: last.sequence.wrapping_add(1),
            timestamp: pcr.map_or(last.timestamp, |pcr| (pcr / 300) as u32),
            npt,
            clock: last.clock.saturating_add(npt - last.npt),
            length: own.len() as u32,
            access_point: pictures.read_payload(0, own).access_point,
            marker: false,
            restart: false,
            estimated: true,
            pcr,
        };
        all.push((last, own.len()));
    }
    all
}

/// Chunks for packets behind others. Their checksums are of what is there now.
fn append(made: &[(Entry, usize)], data: &[u8], chunks: &mut Vec<Chunk>, begin: u64, before: Option<&Segment>) {
    let mut due = chunks
        .last()
        .map(|own| own.last_sequence.saturating_add(1))
        .or(before.map(|own| own.last_sequence.saturating_add(1)));
    for part in made.chunks(PACKETS) {
        let own = part[0].0;
        let first = First { sequence: own.sequence, timestamp: own.timestamp, npt: own.npt, clock: own.clock };
        let mut chunk = Chunk { offset: end(chunks).unwrap_or(begin), first, ..Chunk::default() };
        let mut encoder = Encoder::new(first);
        for (entry, size) in part {
            let clock = encoder.put(entry);
            let lost = entry.sequence.saturating_sub(due.unwrap_or(entry.sequence));
            chunk.length += *size as u32;
            chunk.count += 1;
            chunk.lost += u32::try_from(lost).unwrap_or(u32::MAX);
            chunk.access_points += u32::from(entry.access_point);
            chunk.last_sequence = entry.sequence;
            chunk.latest_npt = chunk.latest_npt.max(entry.npt);
            chunk.latest_clock = chunk.latest_clock.max(clock);
            due = Some(entry.sequence.saturating_add(1));
        }
        chunk.entries = encoder.bytes;
        let bytes = data.get(chunk.offset as usize..).and_then(|rest| rest.get(..chunk.length as usize));
        chunk.checksum = bytes.map_or(0, crc32fast::hash);
        chunks.push(chunk);
    }
}

/// Writes an index, whole or not at all; how long it is.
fn write_index(path: &Path, header: &Header, chunks: &[Chunk], length: u64) -> io::Result<u64> {
    let mut bytes = header.encode().to_vec();
    bytes.reserve(chunks.len() * index::CHUNK);
    chunks.iter().for_each(|own| own.encode(&mut bytes));
    Chunk::encode_end(length, &mut bytes);
    let beside = path.with_extension("new");
    let mut file = File::create(&beside)?;
    file.write_all(&bytes)?;
    file.sync_data()?;
    fs::rename(&beside, path)?;
    Ok(bytes.len() as u64)
}

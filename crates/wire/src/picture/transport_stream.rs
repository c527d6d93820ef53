//! Packets of an MPEG transport stream, 188 bytes each (ISO/IEC 13818-1 section 2.4.3). Only the first program is
//! known, only tables that fit in one packet are read, and only the beginning of a picture says what it is.

use super::Contents;

const PACKET: usize = 188;
/// Packet identifiers of the program association table, and of packets that mean nothing.
const TABLES: u16 = 0;
const NOTHING: u16 = 0x1fff;

/// What is known of a stream.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    /// The packet identifier of the program's table.
    program: Option<u16>,
    /// The pictures' packet identifier, and how they are coded (ISO/IEC 13818-1 table 2-34).
    pictures: Option<(u16, u8)>,
    /// Nothing refers to the picture that has begun last.
    discardable: bool,
}

/// A packet.
struct Packet<'p> {
    id: u16,
    begins: bool,
    is_random_access: bool,
    payload: &'p [u8],
}

impl<'p> Packet<'p> {
    /// None where it is damaged, or scrambled.
    fn read(bytes: &'p [u8]) -> Option<Packet<'p>> {
        let [0x47, first, second, third, rest @ ..] = bytes else { return None };
        let id = u16::from_be_bytes([first & 0x1f, *second]);
        if first & 0x80 != 0 || third & 0xc0 != 0 {
            return None;
        }
        let (mut payload, mut is_random_access) = (rest, false);
        if third & 0x20 != 0 {
            let (length, behind) = rest.split_first()?;
            let (field, behind) = behind.split_at_checked(usize::from(*length))?;
            is_random_access = field.first().is_some_and(|flags| flags & 0x40 != 0);
            payload = behind;
        }
        let payload = if third & 0x10 != 0 { payload } else { &[] };
        Some(Packet { id, begins: first & 0x40 != 0, is_random_access, payload })
    }
}

/// The section that begins in a payload, without its checksum; none where it is not whole.
fn section(payload: &[u8], table: u8) -> Option<&[u8]> {
    let (pointer, rest) = payload.split_first()?;
    let bytes = rest.get(usize::from(*pointer)..)?;
    let [own, first, second, ..] = bytes else { return None };
    let length = usize::from(u16::from_be_bytes([first & 0x0f, *second]));
    (*own == table).then(|| bytes.get(..(3 + length).checked_sub(4)?))?
}

fn identifier(high: u8, low: u8) -> u16 {
    u16::from_be_bytes([high & 0x1f, low])
}

impl Stream {
    /// What an RTP packet's payload carries, and how many pictures begin in it.
    pub(super) fn read(&mut self, payload: &[u8]) -> (Contents, u32) {
        let (mut found, mut begun) = (Contents::default(), 0);
        let (packets, rest) = payload.as_chunks::<PACKET>();
        let (mut discardable, mut needed) = (false, !rest.is_empty());
        for bytes in packets {
            let Some(packet) = Packet::read(bytes) else {
                needed = true;
                continue;
            };
            if packet.id == TABLES && packet.begins {
                found.tables = true;
                self.read_programs(packet.payload);
            }
            if Some(packet.id) == self.program && packet.begins {
                self.read_program(packet.payload);
            }
            let begins = packet.begins && is_picture(packet.payload);
            if begins {
                // Without a table the first stream of pictures is that of the program.
                let (id, coded) = *self.pictures.get_or_insert((packet.id, 0));
                if id == packet.id {
                    begun += 1;
                    found.access_point |= packet.is_random_access;
                    self.discardable = !packet.is_random_access && is_unreferenced(packet.payload, coded);
                }
            }
            match self.pictures {
                _ if packet.id == NOTHING => {}
                Some((id, _)) if id == packet.id && !packet.payload.is_empty() && self.discardable => {
                    discardable = true;
                }
                _ => needed = true,
            }
        }
        found.discardable = discardable && !needed;
        (found, begun)
    }

    /// Reads the program association table.
    fn read_programs(&mut self, payload: &[u8]) {
        let programs = section(payload, 0).and_then(|all| all.get(8..)).unwrap_or_default();
        let first = programs.as_chunks::<4>().0.iter().find(|own| own[..2] != [0, 0]);
        self.program = first.map(|own| identifier(own[2], own[3])).or(self.program);
    }

    /// Reads the program map table.
    fn read_program(&mut self, payload: &[u8]) {
        let Some(all) = section(payload, 2) else { return };
        let Some([first, second]) = all.get(10..12) else { return };
        let behind = 12 + usize::from(u16::from_be_bytes([first & 0x0f, *second]));
        let mut streams = all.get(behind..).unwrap_or_default();
        while let [kind, high, low, first, second, rest @ ..] = streams {
            if matches!(kind, 0x01 | 0x02 | 0x1b | 0x24) {
                self.pictures = Some((identifier(*high, *low), *kind));
                return;
            }
            let length = usize::from(u16::from_be_bytes([first & 0x0f, *second]));
            streams = rest.get(length..).unwrap_or_default();
        }
    }
}

/// Whether a payload begins with a packet of a video stream (section 2.4.3.7).
fn is_picture(payload: &[u8]) -> bool {
    matches!(payload, [0, 0, 1, 0xe0..=0xef, ..])
}

/// Whether the picture that begins in a payload says that nothing refers to it.
fn is_unreferenced(payload: &[u8], coded: u8) -> bool {
    let Some(header) = payload.get(8) else { return false };
    let Some(mut bytes) = payload.get(9 + usize::from(*header)..) else { return false };
    while let Some(at) = bytes.windows(3).position(|own| own == [0, 0, 1]) {
        bytes = &bytes[at + 3..];
        match (coded, bytes) {
            // A B-picture.
            (0x01 | 0x02, [0, _, second, ..]) => return (second >> 3) & 7 == 3,
            (0x1b, [first, ..]) if (1..=5).contains(&(first & 31)) => return first & 0x60 == 0,
            // The sub-layers of a broadcast are all for everybody: what the lowest does not refer to others may.
            (0x24, [first, second, ..]) if (first >> 1) & 63 < 32 => {
                return (first >> 1) & 63 < 15 && (first >> 1).is_multiple_of(2) && second & 7 > 1;
            }
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet; the rest of it is padding in front of the payload.
    fn packet(id: u16, begins: bool, is_random_access: bool, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x47, (id >> 8) as u8 | if begins { 0x40 } else { 0 }, id as u8, 0x30];
        let padding = PACKET - 5 - payload.len();
        bytes.push(padding as u8);
        let mut field = vec![0xff; padding];
        field[0] = if is_random_access { 0x40 } else { 0 };
        bytes.extend(field);
        bytes.extend(payload);
        bytes
    }

    /// A section with its pointer; the checksum is nobody's business here.
    fn table(id: u8, body: &[u8]) -> Vec<u8> {
        let length = body.len() as u16 + 9;
        let head = [0, id, 0xb0 | (length >> 8) as u8, length as u8, 0, 1, 0xc1, 0, 0];
        [&head[..], body, &[0; 4]].concat()
    }

    fn picture(bytes: &[u8]) -> Vec<u8> {
        [&[0, 0, 1, 0xe0, 0, 0, 0x80, 0x80, 5, 0x21, 0, 1, 0, 1][..], bytes].concat()
    }

    #[test]
    fn pictures_are_told_apart() {
        let codings: [(u8, &[u8], &[u8], bool); 3] = [
            (0x1b, &[0, 0, 0, 1, 9, 0xf0, 0, 0, 1, 0x41], &[0, 0, 0, 1, 9, 0xf0, 0, 0, 1, 0x01], true),
            (0x02, &[0, 0, 1, 0, 0, 0x10, 0xff], &[0, 0, 1, 0, 0, 0x18, 0xff], true),
            // A coding of which nothing is known.
            (0x10, &[0, 0, 1, 0x41], &[0, 0, 1, 0x01], false),
        ];
        for (kind, needed, unreferenced, known) in codings {
            let mut stream = Stream::default();
            let mut read = |packets: &[Vec<u8>]| stream.read(&packets.concat());
            let tables = [
                packet(0, true, false, &table(0, &[0, 1, 0xf0, 0])),
                packet(
                    0x1000,
                    true,
                    false,
                    &table(2, &[0xe1, 0, 0xf0, 0, kind, 0xe1, 0, 0xf0, 0, 0x0f, 0xe1, 1, 0xf0, 0]),
                ),
                packet(0x100, true, true, &picture(&[0, 0, 1, 0x65])),
            ];
            let first = Contents { access_point: true, tables: true, ..Contents::default() };
            assert_eq!(read(&tables), (first, 1));
            let goes_on = || packet(0x100, false, false, &[7; 100]);
            let says = |discardable| Contents { discardable, ..Contents::default() };
            assert_eq!(read(&[goes_on(), packet(0x100, true, false, &picture(needed))]), (says(false), 1));
            // Where another picture ends it is no packet of one that nothing refers to alone.
            assert_eq!(read(&[goes_on(), packet(0x100, true, false, &picture(unreferenced))]), (says(false), 1));
            assert_eq!(read(&[goes_on(), packet(NOTHING, false, false, &[])]), (says(known), 0));
            assert_eq!(read(&[goes_on(), packet(0x101, false, false, &[7; 10])]), (says(false), 0), "with sound");
            assert_eq!(read(&[packet(0x100, true, false, &picture(unreferenced))]), (says(known), 1));
            assert_eq!(read(&[packet(0x101, true, true, &[0, 0, 1, 0xc0, 0, 0])]), (says(false), 0), "sound");
            assert_eq!(read(&[goes_on()]).0.discardable, known);
            assert_eq!(stream.read(&goes_on()[..187]), (says(false), 0));
        }
    }
}

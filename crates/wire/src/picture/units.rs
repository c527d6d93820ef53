//! NAL units in RTP packets: alone, several in one, or one in several.

use super::Contents;

/// What is known of the units of a packet.
#[derive(Default)]
struct Found {
    access_point: bool,
    /// Parts of pictures that nothing refers to,
    discardable: bool,
    /// and what else must not be left out.
    needed: bool,
}

impl Found {
    fn contents(self) -> Contents {
        let discardable = self.discardable && !self.needed;
        Contents { access_point: self.access_point, discardable, ..Contents::default() }
    }

    /// A unit of H.264 begins, or goes on (RFC 6184 section 1.3, H.264 table 7-1).
    fn h264(&mut self, header: u8, kind: u8, begins: bool) {
        self.access_point |= begins && matches!(kind, 5 | 7);
        match kind {
            1..=4 if header & 0x60 == 0 => self.discardable = true,
            // Supplements and delimiters go with the picture.
            6 | 9 | 12 => {}
            _ => self.needed = true,
        }
    }

    /// A unit of H.265 (table 7-1). A picture that is not referred to in its own sub-layer may be so in a higher one.
    fn h265(&mut self, sub_layer: u8, kind: u8, begins: bool, highest: &mut u8) {
        self.access_point |= begins && matches!(kind, 16..=21 | 32 | 33);
        *highest = sub_layer.max(*highest);
        match kind {
            0..=14 if kind.is_multiple_of(2) && sub_layer == *highest => self.discardable = true,
            35 | 38..=40 => {}
            _ => self.needed = true,
        }
    }
}

/// The units of a packet that has several, each behind its length; none where they are cut off.
fn several(mut bytes: &[u8]) -> Option<Vec<&[u8]>> {
    let mut all = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let (unit, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        all.push(unit);
        bytes = rest;
    }
    bytes.is_empty().then_some(all)
}

/// What a payload of H.264 carries (RFC 6184 section 5.2).
pub(super) fn h264(payload: &[u8]) -> Contents {
    let mut found = Found::default();
    match payload {
        [header, ..] if (1..=23).contains(&(header & 31)) => found.h264(*header, header & 31, true),
        // STAP-A.
        [header, rest @ ..] if header & 31 == 24 => match several(rest) {
            Some(units) => {
                let headers = units.iter().filter_map(|unit| unit.first());
                headers.for_each(|header| found.h264(*header, header & 31, true));
            }
            None => found.needed = true,
        },
        // FU-A, FU-B.
        [header, fragment, ..] if matches!(header & 31, 28 | 29) => {
            found.h264(*header, fragment & 31, fragment & 0x80 != 0);
        }
        _ => found.needed = true,
    }
    found.contents()
}

/// What a payload of H.265 carries (RFC 7798 section 4.4), without numbers of decoding order.
pub(super) fn h265(payload: &[u8], highest: &mut u8) -> Contents {
    let mut found = Found::default();
    let kind = |first: u8| (first >> 1) & 63;
    let sub_layer = |second: u8| (second & 7).saturating_sub(1);
    match payload {
        [first, second, ..] if kind(*first) < 48 => found.h265(sub_layer(*second), kind(*first), true, highest),
        [first, _, rest @ ..] if kind(*first) == 48 => match several(rest) {
            Some(units) => {
                for unit in units {
                    if let [first, second, ..] = unit {
                        found.h265(sub_layer(*second), kind(*first), true, highest);
                    }
                }
            }
            None => found.needed = true,
        },
        [first, second, fragment, ..] if kind(*first) == 49 => {
            found.h265(sub_layer(*second), fragment & 63, fragment & 0x80 != 0, highest);
        }
        _ => found.needed = true,
    }
    found.contents()
}

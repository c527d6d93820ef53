//! What a slow reader of a stream gets: first it loses pictures that no other refers to, then the newest packets, and
//! of what it loses whole pictures where packets tell them apart.

use std::collections::BTreeMap;

use crate::proxy::world::Piece;

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It waits to be written.
    Sent,
    /// It is left out, as one of a picture that nothing refers to.
    Thinned,
    /// It is left out, as there is no room for it, or was none for a packet of its picture before.
    Lost,
}

/// The pictures that are under way, by channel.
#[derive(Debug, Default)]
pub struct Thinning(BTreeMap<u8, Current>);

#[derive(Debug)]
struct Current {
    picture: u32,
    fate: Fate,
    /// Whether that was decided.
    decided: bool,
}

impl Thinning {
    /// What becomes of a packet of so many bytes where so many wait, of as many as may.
    pub fn fate(&mut self, piece: Option<Piece>, bytes: usize, waiting: usize, most: usize) -> Fate {
        let fits = if waiting + bytes <= most { Fate::Sent } else { Fate::Lost };
        let Some(piece) = piece else { return fits };
        let begins = Current { picture: piece.picture.wrapping_sub(1), fate: Fate::Sent, decided: false };
        let own = self.0.entry(piece.channel).or_insert(begins);
        if own.picture != piece.picture {
            *own = Current { picture: piece.picture, fate: Fate::Sent, decided: false };
        }
        // A picture is thinned as a whole: from its first packet on, or from the first that has nothing else in it.
        if !own.decided && (piece.discardable || piece.is_alone) {
            own.decided = true;
            if piece.discardable && waiting > most / 2 {
                own.fate = Fate::Thinned;
            }
        }
        match own.fate {
            Fate::Thinned if piece.discardable => Fate::Thinned,
            Fate::Lost if piece.is_alone => Fate::Lost,
            _ => {
                if fits == Fate::Lost {
                    own.fate = Fate::Lost;
                }
                fits
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fates of packets of 10 bytes, of which 100 may wait: the picture, whether it is discardable, and how many bytes
    /// wait in front of it.
    fn fates(is_alone: bool, all: &[(u32, bool, usize)]) -> String {
        let mut thinning = Thinning::default();
        let each = all.iter().map(|(picture, discardable, waiting)| {
            let piece = Piece { channel: 2, picture: *picture, discardable: *discardable, is_alone };
            match thinning.fate(Some(piece), 10, *waiting, 100) {
                Fate::Sent => 's',
                Fate::Thinned => 't',
                Fate::Lost => 'l',
            }
        });
        each.collect()
    }

    #[test]
    fn whole_pictures_are_left_out() {
        // One that began before there was much is sent on; one that begins later is not, though there is room again.
        let all = [(1, true, 40), (1, true, 60), (2, true, 60), (2, true, 10), (3, false, 60), (4, true, 50)];
        assert_eq!(fates(true, &all), "ssttss");
        // Without any room the rest of a picture goes, too, and the next one comes.
        let all = [(1, false, 80), (1, false, 91), (1, false, 20), (2, false, 20), (3, true, 95), (3, true, 0)];
        assert_eq!(fates(true, &all), "sllstt");
        // Packets of a transport stream have parts of others, and sound.
        let all = [(1, false, 60), (1, true, 60), (1, true, 10), (1, false, 60), (2, false, 95), (2, false, 10)];
        assert_eq!(fates(false, &all), "sttsls");
        assert_eq!(Thinning::default().fate(None, 10, 90, 100), Fate::Sent);
        assert_eq!(Thinning::default().fate(None, 10, 91, 100), Fate::Lost);
    }
}

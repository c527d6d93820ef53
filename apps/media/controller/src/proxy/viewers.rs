//! The tracks of a session. Most sessions have one or two, and there are thousands of sessions, so they are in a vector
//! without slack, in order.

use super::session::Viewer;

/// Tracks, by their place in the description.
#[derive(Debug, Default)]
pub(super) struct Viewers(Vec<(usize, Box<Viewer>)>);

impl Viewers {
    fn place(&self, track: usize) -> Result<usize, usize> {
        self.0.binary_search_by_key(&track, |(own, _)| *own)
    }

    pub(super) fn get(&self, track: usize) -> Option<&Viewer> {
        self.place(track).ok().map(|at| &*self.0[at].1)
    }

    pub(super) fn get_mut(&mut self, track: usize) -> Option<&mut Viewer> {
        self.place(track).ok().map(|at| &mut *self.0[at].1)
    }

    pub(super) fn contains(&self, track: usize) -> bool {
        self.place(track).is_ok()
    }

    /// Adds a track; what there was of it before.
    pub(super) fn insert(&mut self, track: usize, viewer: Viewer) -> Option<Viewer> {
        match self.place(track) {
            Ok(at) => Some(std::mem::replace(&mut *self.0[at].1, viewer)),
            Err(at) => {
                self.0.reserve_exact(1);
                self.0.insert(at, (track, Box::new(viewer)));
                None
            }
        }
    }

    pub(super) fn remove(&mut self, track: usize) -> Option<Viewer> {
        self.place(track).ok().map(|at| *self.0.remove(at).1)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &Viewer)> {
        self.0.iter().map(|(track, viewer)| (*track, &**viewer))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut Viewer)> {
        self.0.iter_mut().map(|(track, viewer)| (*track, &mut **viewer))
    }

    /// Their places in the description, in order.
    pub(super) fn tracks(&self) -> impl Iterator<Item = usize> {
        self.0.iter().map(|(track, _)| *track)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Viewer> + Clone {
        self.0.iter().map(|(_, viewer)| &**viewer)
    }
}

impl FromIterator<(usize, Viewer)> for Viewers {
    fn from_iter<I: IntoIterator<Item = (usize, Viewer)>>(all: I) -> Viewers {
        let mut viewers = Viewers::default();
        all.into_iter().for_each(|(track, viewer)| _ = viewers.insert(track, viewer));
        viewers
    }
}

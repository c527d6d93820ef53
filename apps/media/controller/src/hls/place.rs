//! What a URL means: `/NAME/index.m3u8`, `/NAME/ID/N.ts`.

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place<'u> {
    /// A stream's playlist.
    Playlist {
        /// The stream.
        name: &'u str,
    },
    /// A segment.
    Segment {
        /// The stream,
        name: &'u str,
        /// the recording,
        id: u64,
        /// and its number in that.
        number: u32,
    },
}

/// A number as it is written, and in no other way.
fn number<N: std::str::FromStr + ToString>(text: &str) -> Option<N> {
    text.parse::<N>().ok().filter(|own| own.to_string() == text)
}

impl<'u> Place<'u> {
    /// Reads a path.
    pub fn parse(path: &'u str) -> Option<Place<'u>> {
        let (rest, file) = path.strip_prefix('/')?.rsplit_once('/')?;
        if file == "index.m3u8" {
            return (!rest.is_empty()).then_some(Place::Playlist { name: rest });
        }
        let (name, id) = rest.rsplit_once('/')?;
        let (id, number) = (number(id)?, number(file.strip_suffix(".ts")?)?);
        (!name.is_empty()).then_some(Place::Segment { name, id, number })
    }

    /// The stream.
    pub fn name(&self) -> &'u str {
        match self {
            Place::Playlist { name } | Place::Segment { name, .. } => name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read() {
        assert_eq!(Place::parse("/a/b/index.m3u8"), Some(Place::Playlist { name: "a/b" }));
        assert_eq!(Place::parse("/a/b/17/3.ts"), Some(Place::Segment { name: "a/b", id: 17, number: 3 }));
        for wrong in ["", "/", "/index.m3u8", "/1/2.ts", "/a/01/2.ts", "/a/1/+2.ts", "/a/1/2.rtp", "a/1/2.ts", "/a/"] {
            assert_eq!(Place::parse(wrong), None, "{wrong}");
        }
    }
}

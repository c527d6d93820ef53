//! Names of cases: a part of a name, or all of it with `*` for any letters.

/// What a name must look like.
pub struct Pattern {
    parts: Vec<String>,
}

impl Pattern {
    /// As the user wrote it.
    pub fn new(text: &str) -> Pattern {
        Pattern { parts: text.split('*').map(str::to_owned).collect() }
    }

    /// Whether a name looks like it.
    pub fn matches(&self, name: &str) -> bool {
        let [first, inner @ .., last] = &self.parts[..] else { return name.contains(&self.parts[0]) };
        let Some(mut rest) = name.strip_prefix(first.as_str()) else { return false };
        for part in inner {
            // The first place leaves most for the parts behind.
            let Some(at) = rest.find(part.as_str()) else { return false };
            rest = &rest[at + part.len()..];
        }
        rest.ends_with(last.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_wholes() {
        let matching = |pattern: &str| {
            let names = ["route", "route_ttl", "route_ttl_ipv6", "no_route"];
            names.into_iter().filter(|name| Pattern::new(pattern).matches(name)).collect::<Vec<_>>()
        };
        assert_eq!(matching("ttl"), ["route_ttl", "route_ttl_ipv6"]);
        assert_eq!(matching("route*"), ["route", "route_ttl", "route_ttl_ipv6"]);
        assert_eq!(matching("*route"), ["route", "no_route"]);
        assert_eq!(matching("r*ttl"), ["route_ttl"]);
        assert_eq!(matching("r*t*ttl*6"), ["route_ttl_ipv6"]);
        assert_eq!(matching("*").len(), 4);
        assert_eq!(matching("").len(), 4);
        // Its ends do not overlap.
        assert!(!Pattern::new("rout*te").matches("route"));
    }
}

//! Where compiled programs are kept, and what is said of that.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use codegen::cache::{self, Activity};

/// In a directory for state.
const IN_STATE: &str = "compiled";
/// In a directory for what can be made again.
const IN_CACHES: &str = "millrace";

/// From now on compiled programs are kept where the variable [`cache::VARIABLE`] says; without it in an instance's
/// `state`, or in the directory for such files of the service or the user, if there is one.
pub fn keep(state: Option<&Path>) {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let place = cache::by_variable().unwrap_or_else(|| place(state, variable, cache::is_own));
    cache::keep_in(place.as_deref());
}

/// `CACHE_DIRECTORY` is systemd's (systemd.exec), `XDG_CACHE_HOME` that of the XDG Base Directory Specification. A home
/// that is another user's, as under sudo, is let alone.
fn place(
    state: Option<&Path>,
    variable: impl Fn(&str) -> Option<OsString>,
    is_own: impl Fn(&Path) -> bool,
) -> Option<PathBuf> {
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let of_service = || {
        let all = variable("CACHE_DIRECTORY")?;
        Some(PathBuf::from(all.to_str()?.split(':').next()?))
    };
    let of_user = || {
        let home = || absolute("HOME").filter(|home| is_own(home)).map(|home| home.join(".cache"));
        Some(absolute("XDG_CACHE_HOME").or_else(home)?.join(IN_CACHES))
    };
    state.map(|state| state.join(IN_STATE)).or_else(of_service).or_else(of_user)
}

/// What a start took, in one line.
pub fn report(Activity { compiled, taken, time }: &Activity) -> String {
    let seconds = time.as_secs_f64();
    let place = cache::directory().map(|directory| directory.display().to_string());
    match (compiled, taken, place) {
        (0, 0, _) => "code: none".into(),
        (0, _, Some(place)) => format!("code: taken from {place} in {seconds:.2} s"),
        (_, 0, Some(place)) => format!("code: compiled in {seconds:.2} s for {place}"),
        (_, _, Some(place)) => format!("code: in part compiled, in part taken from {place}, in {seconds:.2} s"),
        (_, _, None) => format!("code: compiled in {seconds:.2} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_is_that_of_the_instance_the_service_or_the_user() {
        let of = |state: Option<&str>, variables: &[(&str, &str)], own: bool| {
            let variable = |name: &str| Some(variables.iter().find(|(known, _)| *known == name)?.1.into());
            place(state.map(Path::new), variable, |_| own).map(|place| place.display().to_string())
        };
        let service = ("CACHE_DIRECTORY", "/var/cache/a:/var/cache/b");
        let (xdg, home) = (("XDG_CACHE_HOME", "/x"), ("HOME", "/home/u"));
        assert_eq!(of(Some("/s"), &[service, xdg, home], true).as_deref(), Some("/s/compiled"));
        assert_eq!(of(None, &[service, xdg, home], true).as_deref(), Some("/var/cache/a"));
        assert_eq!(of(None, &[xdg, home], true).as_deref(), Some("/x/millrace"));
        assert_eq!(of(None, &[home], true).as_deref(), Some("/home/u/.cache/millrace"));
        assert_eq!(of(None, &[("XDG_CACHE_HOME", "x"), home], true).as_deref(), Some("/home/u/.cache/millrace"));
        assert_eq!(of(None, &[home], false), None);
        assert_eq!(of(None, &[("HOME", "u")], true), None);
        assert_eq!(of(None, &[], true), None);
    }
}

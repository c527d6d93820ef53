//! Parts of messages.

/// The name nearest to a misspelt one, where one is near: up to a third of its letters differ, at least one. What does
/// not begin with a letter was meant as a number.
pub(crate) fn similar<'n>(wrong: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    if !wrong.starts_with(char::is_alphabetic) {
        return None;
    }
    let limit = (wrong.chars().count() / 3).max(1);
    let near = names.into_iter().map(|name| (strsim::osa_distance(wrong, name), name));
    near.filter(|(distance, name)| *distance <= limit && *distance < name.chars().count()).min().map(|(_, name)| name)
}

/// `; did you mean …?`, or nothing.
pub fn did_you_mean<'n>(wrong: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    similar(wrong, names).map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}

/// `a, b, c`; `nothing` where there is no name.
pub fn list<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    if names.is_empty() { "nothing".into() } else { names.join(", ") }
}

/// `1 byte`, `2 bytes`.
pub(crate) fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

//! What errors about names suggest: a name like it, or the file of the library that has it.

use crate::library;

/// What to do about a name that a file of the library declares.
pub(super) fn import_of(name: &str) -> Option<String> {
    library::declaring(name).map(|path| format!("it is in the library: add `import \"{path}\";`"))
}

/// The indefinite article of a word.
pub(super) fn article(word: &str) -> &'static str {
    if word.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" }
}

/// The name that differs from this one by a letter or two.
pub(super) fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<String> {
    let limit = if name.len() < 4 { 1 } else { 2 };
    let near = known.map(|known| (distance(name, known), known)).filter(|(d, _)| *d <= limit);
    near.min().map(|(_, known)| known.to_string())
}

/// Levenshtein's distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let cost = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = cost.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

//! Makes a failing program small: leaves out lines and blocks for as long as it still fails.

/// The shortest program found for which `fails` holds. Lines are left out in pieces, big ones first; a piece that
/// opens or closes a block is left out with the other brace.
pub fn reduce(text: &str, fails: impl Fn(&str) -> bool) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
    let mut size = lines.len() / 2;
    while size > 0 {
        let mut start = 0;
        let mut smaller = false;
        while start < lines.len() {
            let candidates =
                [without(&lines, start, size), without_braces(&lines, start), without_block(&lines, start)];
            match candidates.into_iter().flatten().find(|candidate| fails(&candidate.join("\n"))) {
                Some(candidate) => {
                    lines = candidate;
                    smaller = true;
                }
                None => start += 1,
            }
        }
        // The least pieces are tried until none can go.
        size = if size == 1 && smaller { 1 } else { size / 2 };
    }
    lines.join("\n")
}

fn without(lines: &[String], start: usize, size: usize) -> Option<Vec<String>> {
    let end = (start + size).min(lines.len());
    let depth: i32 = lines[start..end].iter().map(|line| step(line)).sum();
    (depth == 0).then(|| [&lines[..start], &lines[end..]].concat())
}

/// Without the line that opens a block and the one that closes it: what is inside stays.
fn without_braces(lines: &[String], start: usize) -> Option<Vec<String>> {
    let end = closing(lines, start)?;
    let kept = lines.iter().enumerate().filter(|(i, _)| *i != start && *i != end);
    Some(kept.map(|(_, line)| line.clone()).collect())
}

fn without_block(lines: &[String], start: usize) -> Option<Vec<String>> {
    let end = closing(lines, start)?;
    Some([&lines[..start], &lines[end + 1..]].concat())
}

fn closing(lines: &[String], start: usize) -> Option<usize> {
    if step(lines.get(start)?) != 1 {
        return None;
    }
    let mut depth = 0;
    (start..lines.len()).find(|&i| {
        depth += step(&lines[i]);
        depth == 0
    })
}

fn step(line: &str) -> i32 {
    line.matches('{').count() as i32 - line.matches('}').count() as i32
}

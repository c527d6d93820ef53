//! What came of cases as JUnit XML: a suite for each variant, a test for each case.

use std::fmt::Write;

use control::cases::Suite;

use super::report::Report;

/// The whole file.
pub fn xml(report: &Report) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    for (index, variant) in report.variants().enumerate() {
        let of_way = || report.each().map(|(case, outcomes)| (case, &outcomes[index]));
        let failures = of_way().filter(|(_, outcome)| outcome.failure.is_some()).count();
        let time: f64 = of_way().map(|(_, outcome)| outcome.time.as_secs_f64()).sum();
        let (name, tests) = (escaped(variant), report.cases.len());
        let _ = writeln!(
            out,
            "  <testsuite name=\"{name}\" tests=\"{tests}\" failures=\"{failures}\" skipped=\"0\" time=\"{time:.6}\">"
        );
        for (case, outcome) in of_way() {
            let test = testcase(report, case, outcome.time.as_secs_f64());
            let _ = match &outcome.failure {
                None => writeln!(out, "    <testcase {test}/>"),
                Some(failure) => writeln!(
                    out,
                    "    <testcase {test}>\n      <failure message=\"{}\">{}</failure>\n    </testcase>",
                    escaped(&format!("{}: {}", failure.place(), failure.description)),
                    escaped(&failure.problems)
                ),
            };
        }
        out += "  </testsuite>\n";
    }
    if let Some(why) = report.not_run_text() {
        let (why, tests) = (escaped(&why), report.cases.len());
        let _ = writeln!(
            out,
            "  <testsuite name=\"{}\" tests=\"{tests}\" failures=\"0\" skipped=\"{tests}\" time=\"0\">",
            Suite::XDP
        );
        for case in &report.cases {
            let test = testcase(report, case, 0.0);
            let _ = writeln!(out, "    <testcase {test}>\n      <skipped message=\"{why}\"/>\n    </testcase>");
        }
        out += "  </testsuite>\n";
    }
    out + "</testsuites>\n"
}

/// The attributes of a test.
fn testcase(report: &Report, case: &control::cases::Case, seconds: f64) -> String {
    let (program, name) = (escaped(report.program), escaped(&case.name()));
    let file = escaped(&case.file.display().to_string());
    format!("classname=\"{program}\" name=\"{name}\" file=\"{file}\" time=\"{seconds:.6}\"")
}

/// Text within XML; what XML 1.0 can't hold becomes U+FFFD.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\n' | '\t' => out.push(letter),
            control if control.is_control() => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn text_within_xml() {
        assert_eq!(super::escaped("<a b=\"c\">&\n\u{1b}é"), "&lt;a b=&quot;c&quot;&gt;&amp;\n\u{fffd}é");
    }
}

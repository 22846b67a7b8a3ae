//! A report in the form that test runners exchange: JUnit XML.

use std::fmt::Write as _;

use super::report::{Report, Verdict};

/// One test suite, one test case for each guarantee.
#[must_use]
pub fn junit(report: &Report) -> String {
    let seconds = |ms: u64| format!("{}.{:03}", ms / 1000, ms % 1000);
    let total: u64 = report.guarantees.iter().map(|finding| finding.took_ms).sum();
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"writ prove\" hostname=\"{}\" timestamp=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{}\">\n",
        escaped(&report.broker),
        escaped(&report.started_at.to_string()),
        report.guarantees.len(),
        report.counts.passed_through,
        report.counts.failed - report.counts.passed_through,
        report.counts.not_applicable,
        seconds(total),
    );
    for finding in &report.guarantees {
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "    <testcase classname=\"writ.prove.{}\" name=\"{}\" time=\"{}\">",
            finding.on.as_str(),
            escaped(finding.name),
            seconds(finding.took_ms)
        );
        let reason = escaped(&finding.reason);
        let _ = match (finding.result, finding.passed_through) {
            (Verdict::Pass, _) => write!(text, "<system-out>{reason}</system-out>"),
            (Verdict::Fail, true) => write!(text, "<failure type=\"passed_through\" message=\"{reason}\"/>"),
            (Verdict::Fail, false) => write!(text, "<error type=\"unclear\" message=\"{reason}\"/>"),
            (Verdict::NotApplicable, _) => write!(text, "<skipped message=\"{reason}\"/>"),
        };
        text.push_str("</testcase>\n");
    }
    text.push_str("  </testsuite>\n</testsuites>\n");
    text
}

/// Text inside an element or an attribute; characters that XML 1.0 does not know are replaced.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_wrote_cannot_end_an_element_or_break_the_file() {
        assert_eq!(escaped("<a b=\"c\">&\u{1b}"), "&lt;a b=&quot;c&quot;&gt;&amp;\u{fffd}");
    }
}

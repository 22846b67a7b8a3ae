//! Characters that deceive whoever reads them: one list for everything that people write and other people, or a terminal, see.

/// The character, by its number, and what to do about it; nothing if the text holds none that does not show, or that changes the order of what shows.
#[must_use]
pub fn deceptive(text: &str) -> Option<String> {
    named(text, is_deceptive)
}

/// As [`deceptive`], for prose of several lines: line ends and tabs are what they look like, and what joins letters or picks an emoji belongs to
/// the way many languages are written.
#[must_use]
pub fn deceptive_in_lines(text: &str) -> Option<String> {
    let text = text.replace("\r\n", "\n");
    named(&text, |c| {
        is_deceptive(c) && !matches!(c, '\n' | '\t' | '\u{200c}' | '\u{200d}' | '\u{fe0e}' | '\u{fe0f}')
    })
}

fn named(text: &str, is_bad: impl Fn(char) -> bool) -> Option<String> {
    let bad = text.chars().find(|c| is_bad(*c))?;
    Some(format!(
        "holds U+{:04X}, which does not show or changes the order of what shows; remove it",
        u32::from(bad)
    ))
}

/// The text with every deceptive character written out as `\u{…}`.
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_deceptive(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

/// Controls, zero-width and bidirectional formatting characters, line separators, tags, fillers and noncharacters.
fn is_deceptive(c: char) -> bool {
    let code = u32::from(c);
    c.is_control()
        || code & 0xFFFE == 0xFFFE
        || matches!(code,
            0x00AD | 0x034F | 0x061C | 0x115F..=0x1160 | 0x17B4..=0x17B5 | 0x180B..=0x180F | 0x200B..=0x200F | 0x2028..=0x202E
            | 0x2060..=0x206F | 0x3164 | 0xFDD0..=0xFDEF | 0xFE00..=0xFE0F | 0xFEFF | 0xFFA0 | 0xFFF0..=0xFFFB | 0xE0000..=0xE0FFF)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_can_deceive_a_reader_is_found_and_shows_escaped() {
        for bad in [
            "a\u{200b}b",
            "a\u{202e}b",
            "a\u{2066}b",
            "a\u{feff}b",
            "a\u{1b}[2Kb",
            "a\u{9b}b",
            "a\u{ad}b",
            "\u{e0041}",
        ] {
            assert!(deceptive(bad).is_some() && deceptive_in_lines(bad).is_some(), "{bad:?}");
        }
        for line in ["a\nb", "a\tb", "a\r\nb", "می\u{200c}شود", "👨\u{200d}👩 ❤\u{fe0f}"] {
            assert!(deceptive(line).is_some() && deceptive_in_lines(line).is_none(), "{line:?}");
        }
        assert!(deceptive_in_lines("a\rb").is_some(), "it overwrites the line");
        assert_eq!(deceptive("Zoë Müller, 東京"), None);
        assert_eq!(escaped("a\u{202e}b\u{1b}[2K\n"), "a\\u{202e}b\\u{1b}[2K\\u{a}");
    }
}

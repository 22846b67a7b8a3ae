//! Which characters text may hold when a person is to read it and a machine is to compare it.

use unicode_normalization::is_nfc;

/// Why the text is not fit to be shown to a reviewer as it stands; `None` if it is.
pub(super) fn unfit(text: &str) -> Option<String> {
    if let Some(c) = text.chars().find(|c| is_deceptive(*c)) {
        return Some(format!(
            "holds U+{:04X}, which does not show or changes the order of what shows; remove it",
            u32::from(c)
        ));
    }
    (!is_nfc(text)).then(|| "is not in Unicode normal form C, so it could look like another text; normalise it first".to_owned())
}

/// The text with every deceptive character written out as `\u{…}`.
pub(super) fn escaped(text: &str) -> String {
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
    fn text_that_can_deceive_a_reader_is_refused_and_shows_escaped() {
        for bad in [
            "a\u{200b}b",
            "a\u{202e}b",
            "a\u{2066}b",
            "a\u{feff}b",
            "a\nb",
            "e\u{301}",
            "a\u{ad}b",
            "\u{e0041}",
        ] {
            assert!(unfit(bad).is_some(), "{bad:?}");
        }
        assert_eq!(unfit("Zoë Müller, 東京"), None);
        assert_eq!(escaped("a\u{202e}b"), "a\\u{202e}b");
    }
}

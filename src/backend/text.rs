//! Which characters text may hold when a person is to read it and a machine is to compare it.

use unicode_normalization::is_nfc;

use crate::domain::text::deceptive;

/// Why the text is not fit to be shown to a reviewer as it stands; `None` if it is.
pub(super) fn unfit(text: &str) -> Option<String> {
    deceptive(text).or_else(|| {
        (!is_nfc(text)).then(|| "is not in Unicode normal form C, so it could look like another text; normalise it first".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_can_deceive_a_reader_is_refused() {
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
    }
}

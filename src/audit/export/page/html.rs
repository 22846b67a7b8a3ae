//! HTML in the making. Markup comes from literals only; everything else goes through [`Html::text`].

use crate::domain::text;

pub(super) struct Html(String);

impl Html {
    pub(super) const fn new() -> Self {
        Self(String::new())
    }

    /// Markup, as it stands in the program.
    pub(super) fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Text of one line from anywhere. What does not show, or would change the order of what shows, is written out.
    pub(super) fn text(&mut self, plain: &str) -> &mut Self {
        for c in text::escaped(plain).chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                // Outside of markup nobody needs it, and inside of an unquoted attribute it would matter.
                '`' => self.0.push_str("&#96;"),
                other => self.0.push(other),
            }
        }
        self
    }

    /// Text of several lines, for `pre`.
    pub(super) fn lines(&mut self, plain: &str) -> &mut Self {
        for (n, line) in plain.split('\n').enumerate() {
            if n > 0 {
                self.0.push('\n');
            }
            self.text(line);
        }
        self
    }

    /// A number.
    pub(super) fn number(&mut self, n: u64) -> &mut Self {
        self.text(&n.to_string())
    }

    pub(super) fn finish(self) -> String {
        self.0
    }
}

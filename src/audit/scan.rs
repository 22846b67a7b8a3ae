//! The last look before something is written that stays for ever: card numbers, tokens and secrets, wherever they came from.
//!
//! What the program itself makes is told by its form and passed over: ids, UUIDs and digests in hexadecimal. Everything else is read as it stands.

/// What must not be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hit {
    /// Digits of a length, a first part and a check digit that a payment card has.
    CardNumber,
    /// A signed token: a JSON Web Token, a Biscuit, or another long run of encoded bytes.
    Token,
    /// Something with the first letters that an issuer of secrets gives them.
    Secret,
    /// A private key as text.
    PrivateKey,
    /// The value of an `Authorization` header.
    Authorization,
}

impl Hit {
    /// What it looks like, for a sentence that begins "it has the form of".
    #[must_use]
    pub const fn what(self) -> &'static str {
        match self {
            Self::CardNumber => "a card number",
            Self::Token => "a token",
            Self::Secret => "a secret",
            Self::PrivateKey => "a private key",
            Self::Authorization => "an authorization header",
        }
    }
}

/// What of this kind stands in the text, if anything does.
#[must_use]
pub fn scan(text: &str) -> Option<Hit> {
    // Most texts are short names; the shortest thing that is looked for has this many bytes.
    if text.len() < SHORTEST {
        return None;
    }
    if text.contains("-----BEGIN")
        || text.contains("PRIVATE+KEY+")
        || text.contains("AUDIT+SUBJECTS+KEY+")
        || text.contains("AGE-SECRET-KEY-")
    {
        return Some(Hit::PrivateKey);
    }
    if has_authorization(text) {
        return Some(Hit::Authorization);
    }
    if has_secret(text) {
        return Some(Hit::Secret);
    }
    if has_token(text) {
        return Some(Hit::Token);
    }
    has_card_number(text).then_some(Hit::CardNumber)
}

/// What of this kind stands in one of the strings of a JSON text in canonical form, if anything does. Digests and signatures are random: some of
/// them begin like a secret, and none of them is one.
#[must_use]
pub fn scan_json(text: &str) -> Option<Hit> {
    let mut rest = text;
    while let Some((_, opened)) = rest.split_once('"') {
        let mut escaped = false;
        let end = opened.bytes().position(|b| {
            let ends = b == b'"' && !escaped;
            escaped = b == b'\\' && !escaped;
            ends
        });
        let (value, after) = end.and_then(|end| opened.split_at_checked(end)).unwrap_or((opened, ""));
        if !is_computed(value)
            && let Some(hit) = scan(value)
        {
            return Some(hit);
        }
        rest = after.strip_prefix('"').unwrap_or_default();
    }
    None
}

/// Whether it is written as the program writes a digest of 32 bytes or a signature of 64, to the character.
fn is_computed(value: &str) -> bool {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    matches!(value.len(), 43 | 86) && URL_SAFE_NO_PAD.decode(value).is_ok()
}

/// Nothing that is looked for is shorter.
const SHORTEST: usize = 10;

/// First letters, and how many letters and digits follow at least. Where they are all small, capitals are the same.
const SECRETS: &[(&str, usize)] = &[
    ("sk_sandbox_", 4),
    ("rk_sandbox_", 4),
    ("pk_live_", 4),
    ("pk_test_", 4),
    ("sk-ant-", 8),
    ("sk-proj-", 8),
    ("sk_live_", 4),
    ("sk_test_", 4),
    ("rk_live_", 4),
    ("rk_test_", 4),
    ("whsec_", 8),
    ("ghp_", 16),
    ("gho_", 16),
    ("ghu_", 16),
    ("ghs_", 16),
    ("ghr_", 16),
    ("github_pat_", 16),
    ("glpat-", 16),
    ("npm_", 30),
    ("xoxb-", 8),
    ("xoxa-", 8),
    ("xoxp-", 8),
    ("xoxr-", 8),
    ("xoxs-", 8),
    ("xapp-", 8),
    ("AKIA", 16),
    ("ASIA", 16),
    ("AIza", 35),
    ("ya29.", 16),
    ("shpat_", 16),
    ("shpss_", 16),
    ("shpca_", 16),
    ("sq0atp-", 16),
    ("sq0csp-", 16),
    ("EAAA", 50),
    ("SG.", 40),
    ("AQE", 80),
];

fn has_secret(text: &str) -> bool {
    let small = text.to_ascii_lowercase();
    SECRETS.iter().any(|(first, least)| {
        let text = if first.bytes().any(|b| b.is_ascii_uppercase()) {
            text
        } else {
            &small
        };
        text.match_indices(first).any(|(at, _)| {
            let before = text.get(..at).and_then(|before| before.bytes().next_back());
            let after = text.get(at + first.len()..).unwrap_or_default();
            let long = after
                .bytes()
                .take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
                .count()
                >= *least;
            long && before.is_none_or(|b| !b.is_ascii_alphanumeric())
        })
    })
}

fn has_authorization(text: &str) -> bool {
    if !text.contains([' ', ':', '+']) {
        return false;
    }
    let lower = text.to_ascii_lowercase();
    let credentials = |scheme: &str| {
        lower.match_indices(scheme).find_map(|(at, _)| {
            let given = text.get(at + scheme.len()..)?.trim_start_matches([' ', ':', '+']);
            let length = given
                .bytes()
                .take_while(|b| is_encoded(*b) || matches!(b, b'.' | b'~' | b'='))
                .count();
            given.get(..length).filter(|given| given.len() >= 8)
        })
    };
    // In prose the word after `bearer` has no digit.
    let bearer = |given: &str| given.bytes().any(|b| b.is_ascii_digit());
    credentials("bearer ").is_some_and(bearer)
        || credentials("bearer:").is_some_and(bearer)
        || credentials("bearer+").is_some_and(bearer)
        || credentials("basic ").is_some_and(is_basic)
}

/// Whether it is a name and a password in base64.
fn is_basic(given: &str) -> bool {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    let decoded = STANDARD.decode(given).unwrap_or_default();
    decoded.contains(&b':') && decoded.iter().all(|b| b.is_ascii_graphic() || *b == b' ')
}

const fn is_encoded(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'+' | b'/')
}

/// So many encoded characters in one run are a token: the longest that the program writes is a signature, of 86.
const LONG_RUN: usize = 96;

fn has_token(text: &str) -> bool {
    let mut runs = text.split(|c: char| !(c.is_ascii() && is_encoded(c as u8))).peekable();
    while let Some(run) = runs.next() {
        // `eyJ` is `{"` in base64: the header of a JSON Web Token, and after a dot its claims.
        let is_head = run.find("eyJ").is_some_and(|at| run.len() - at >= 12);
        if is_head && runs.peek().is_some_and(|next| next.len() >= 8) && text.contains('.') {
            return true;
        }
        let any = |kind: fn(&u8) -> bool| run.as_bytes().iter().any(kind);
        if run.len() >= LONG_RUN && any(u8::is_ascii_lowercase) && any(u8::is_ascii_uppercase) && any(u8::is_ascii_digit) {
            return true;
        }
    }
    false
}

/// A payment card has so many digits.
const CARD: std::ops::RangeInclusive<usize> = 13..=19;

/// Groups of digits with at most one mark between them, from whichever group on they make up a card's number.
fn has_card_number(text: &str) -> bool {
    /// So many marks may stand between two groups.
    const MARKS: u32 = 3;
    if text.chars().filter(|c| digit(*c).is_some()).count() < *CARD.start() {
        return false;
    }
    let mut groups: Vec<Vec<u8>> = Vec::new();
    let mut group: Vec<u8> = Vec::new();
    let mut gap = 0;
    let shown = masked(text);
    for c in shown.chars().chain(['\n']) {
        if let Some(digit) = digit(c) {
            if gap > MARKS {
                groups.clear();
            }
            gap = 0;
            group.push(digit);
            continue;
        }
        if !group.is_empty() {
            groups.push(std::mem::take(&mut group));
            if ends_with_card(&groups) {
                return true;
            }
        }
        gap = if is_mark(c) { gap + 1 } else { u32::MAX / 2 };
        // Nobody writes a number in more groups.
        if groups.len() > 19 {
            groups.remove(0);
        }
    }
    false
}

/// Whether the last groups, from some group on, are a card's number.
fn ends_with_card(groups: &[Vec<u8>]) -> bool {
    let mut number: Vec<u8> = Vec::new();
    for group in groups.iter().rev() {
        if number.len() + group.len() > *CARD.end() {
            return false;
        }
        number.splice(0..0, group.iter().copied());
        if CARD.contains(&number.len()) && is_issued(&number) && luhn(&number) {
            return true;
        }
    }
    false
}

const fn is_mark(c: char) -> bool {
    matches!(
        c,
        ' ' | '-' | '.' | '_' | '/' | ':' | '\u{a0}' | '\u{2007}' | '\u{2009}'..='\u{2015}' | '\u{202f}' | '\u{2212}'
    )
}

/// A digit of any of the scripts in which people type numbers.
fn digit(c: char) -> Option<u8> {
    let code = u32::from(c);
    let value = match code {
        0x30..=0x39 => code - 0x30,
        0x660..=0x669 => code - 0x660,
        0x6F0..=0x6F9 => code - 0x6F0,
        0x966..=0x96F => code - 0x966,
        0xFF10..=0xFF19 => code - 0xFF10,
        _ => return None,
    };
    u8::try_from(value).ok()
}

/// The text with the ids, UUIDs and digests in hexadecimal, and the addresses of the network, taken out: their digits are no number.
fn masked(text: &str) -> String {
    let ids = replaced(text, |c| c.is_ascii_alphanumeric() || c == '-', is_hexadecimal_id);
    replaced(&ids, |c| c.is_ascii_alphanumeric() || matches!(c, '.' | ':'), is_address)
}

/// The text with every word of these characters that is one of those replaced by a letter.
fn replaced(text: &str, of_word: fn(char) -> bool, is_one: fn(&str) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut word = String::new();
    for c in text.chars().chain(['\0']) {
        if of_word(c) {
            word.push(c);
            continue;
        }
        out.push_str(if is_one(&word) { "x" } else { &word });
        word.clear();
        out.push(c);
    }
    out
}

/// Whether it is an address of IP version 4, maybe with a port.
fn is_address(word: &str) -> bool {
    word.parse::<std::net::SocketAddrV4>().is_ok() || word.parse::<std::net::Ipv4Addr>().is_ok()
}

fn is_hexadecimal_id(word: &str) -> bool {
    let hexadecimal = |part: &str| part.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'a'..=b'f'));
    let lengths: Vec<usize> = word.split('-').map(str::len).collect();
    match lengths.as_slice() {
        [32 | 40 | 64] => hexadecimal(word),
        // A UUID's version and variant have their places.
        [8, 4, 4, 4, 12] => {
            word.split('-').all(hexadecimal)
                && matches!(word.as_bytes().get(14), Some(b'1'..=b'8'))
                && matches!(word.as_bytes().get(19), Some(b'8' | b'9' | b'a' | b'b'))
        }
        _ => false,
    }
}

/// Whether an issuer of cards begins its numbers so, at this length.
fn is_issued(number: &[u8]) -> bool {
    let first = |n: usize| number.iter().take(n).fold(0_u32, |value, digit| value * 10 + u32::from(*digit));
    let length = number.len();
    let (one, two, three, four) = (first(1), first(2), first(3), first(4));
    match length {
        _ if one == 4 => matches!(length, 13 | 16 | 19),
        15 if matches!(two, 34 | 37) => true,
        16 if matches!(two, 51..=55) || matches!(four, 2221..=2720) => true,
        14..=19 if matches!(three, 300..=305) || matches!(two, 36 | 38 | 39) => true,
        16..=19 if four == 6011 || matches!(three, 644..=649) || matches!(two, 62 | 65) || matches!(four, 3528..=3589 | 2200..=2204) => {
            true
        }
        16 if matches!(two, 60 | 81 | 82) => true,
        13..=19 => matches!(four, 5018 | 5020 | 5038 | 5893 | 6304 | 6759 | 6761..=6763),
        _ => false,
    }
}

fn luhn(number: &[u8]) -> bool {
    let doubled = |digit: u8| if digit > 4 { digit * 2 - 9 } else { digit * 2 };
    let sum: u32 = number
        .iter()
        .rev()
        .enumerate()
        .map(|(n, digit)| u32::from(if n % 2 == 1 { doubled(*digit) } else { *digit }))
        .sum();
    sum.is_multiple_of(10) && number.iter().any(|digit| *digit != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_number_is_found_however_it_is_grouped() {
        for card in [
            "4111111111111111",
            "4111 1111 1111 1111",
            "4111-1111-1111-1111",
            "4111.1111.1111.1111",
            "4111_1111_1111_1111",
            "4111:1111:1111:1111",
            "41 11 11 11 11 11 11 11",
            "4111--1111--1111--1111",
            "4111-.1111 - 1111-.1111",
            "4111\u{a0}1111\u{2009}1111\u{2013}1111",
            "４１１１１１１１１１１１１１１１",
            "٤١١١١١١١١١١١١١١١",
            "4222222222222",
            "4000000000000000006",
            "378282246310005",
            "5555555555554444",
            "2223003122003222",
            "6011111111111117",
            "30569309025904",
            "3530111333300000",
            "6200000000000005",
            "6759649826438453",
            "case-4111111111111111",
            "ch_4111111111111111",
            "card4111111111111111",
            "re_4111 1111 1111 1111 12/29 123",
            "12 4111 1111 1111 1111",
            "pay 4111111111111111, thanks",
        ] {
            assert_eq!(scan(card), Some(Hit::CardNumber), "{card}");
        }
    }

    #[test]
    fn what_only_looks_like_one_is_left_alone() {
        for other in [
            "4111111111111112",
            "1111111111111117",
            "0000000000000000",
            "411111111111111111111111",
            "drf_01a4111111111111111aaaaaaaaaaaaa",
            "41111111-1111-8111-8111-111111111111",
            "2026-11-30T07:33:48.123Z",
            "2026-11-30 07:33:48.123456",
            "1764488028123",
            "192.168.100.200:65535",
            "https://45.14.10.206:8700/audit",
            "ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0",
            "ch_3MmlLrLkdIwHu7ix0snN0B15",
            "gid://shopify/Order/450789469",
            "broker.example/audit+79602d21+Aa/lmHQJuW/oLLH2WLItsiGWGBelhbBz1dwOnDZT9Fxr",
            "the bearer of this letter, basically education",
            "a bearer instrument",
            "sk_test_",
            "task_live_1234",
            "AKIA",
            "everything.that.is.known",
        ] {
            assert_eq!(scan(other), None, "{other}");
        }
    }

    #[test]
    fn a_secret_is_found_by_its_first_letters_in_either_case() {
        for secret in [
            "sk_live_51abcd",
            "SK_LIVE_51ABCD",
            "case-rk_sandbox_51abcd",
            "sk-ant-api03-abcdefgh",
            "Pk_Test_51abcd",
        ] {
            assert_eq!(scan(secret), Some(Hit::Secret), "{secret}");
        }
    }

    #[test]
    fn every_string_of_a_json_text_is_looked_at_and_no_number() {
        assert_eq!(scan_json(r#"{"a":"x","n":4111111111111111}"#), None);
        assert_eq!(scan_json(r#"{"a":"\\","b":["say \"4111111111111111\""]}"#), Some(Hit::CardNumber));
        assert_eq!(scan_json(r#"{"a":"x","sk_live_51abcd":1}"#), Some(Hit::Secret));
    }

    /// Bytes that somebody else's choice of inputs can bring about: a digest or a signature that reads like what is looked for.
    #[test]
    fn a_digest_or_a_signature_is_none_of_them_whatever_it_reads_like() {
        use base64::Engine as _;
        use base64::engine::general_purpose::URL_SAFE_NO_PAD;
        let filled = |first: &str, length: usize| format!("{first}{}", "A".repeat(length - first.len()));
        for computed in [
            filled("AQEb", 86),
            filled("AKIAIOSFODNN7EXAMPLE", 43),
            filled("sk_live_51abcd", 43),
            filled("npm_", 43),
            filled("4111111111111111", 43),
            URL_SAFE_NO_PAD.encode([&[0x12, 0xc8, 0x01, 0x0a, 0x40], &[7; 27][..]].concat()),
        ] {
            assert_eq!(scan_json(&format!("{{\"a\":\"{computed}\"}}")), None, "{computed}");
        }
        // Not of that form: a character more, or one that no digest ends with.
        let longer = format!("{}A", filled("AKIAIOSFODNN7EXAMPLE", 43));
        let ends_otherwise = format!("{}B", filled("AKIAIOSFODNN7EXAMPLE", 42));
        for other in [longer, ends_otherwise] {
            assert_eq!(scan_json(&format!("[\"{other}\"]")), Some(Hit::Secret), "{other}");
        }
    }

    #[test]
    fn tokens_and_secrets_are_found_by_their_form() {
        let long = format!("Ab1{}", "xY9-".repeat(25));
        for (secret, hit) in [
            ("eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln", Hit::Token),
            ("x=eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.", Hit::Token),
            (&long, Hit::Token),
            ("sk_live_51abcd", Hit::Secret),
            ("ref:sk_test_4eC39HqLyjWDarjtT1zdp7dc", Hit::Secret),
            ("rk_live_51abcdefgh", Hit::Secret),
            ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", Hit::Secret),
            ("ghp_16C7e42F292c6912E7710c838347Ae178B4a", Hit::Secret),
            ("xoxb-2444-3-abcdefgh", Hit::Secret),
            ("AKIAIOSFODNN7EXAMPLE", Hit::Secret),
            ("Bearer abcdefg1.2", Hit::Authorization),
            ("authorization: bearer  abcdefg1", Hit::Authorization),
            ("Basic dXNlcjpwYXNz", Hit::Authorization),
            ("-----BEGIN PRIVATE KEY-----", Hit::PrivateKey),
            ("PRIVATE+KEY+a+b+c", Hit::PrivateKey),
        ] {
            assert_eq!(scan(secret), Some(hit), "{secret}");
        }
    }
}

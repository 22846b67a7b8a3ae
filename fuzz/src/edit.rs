//! Bytes read as changes to something that is valid, so that most of what comes out is nearly right.

/// Applies the changes that `script` spells out: a kind, a place in two bytes, and what the kind needs.
pub fn apply(base: &[u8], script: &[u8]) -> Vec<u8> {
    let mut bytes = base.to_vec();
    let mut script = script.iter().copied();
    while let (Some(kind), Some(high), Some(low)) = (script.next(), script.next(), script.next()) {
        let at = usize::from(u16::from_be_bytes([high, low])) % (bytes.len() + 1);
        match kind % 7 {
            0 => {
                if let (Some(byte), Some(slot)) = (script.next(), bytes.get_mut(at)) {
                    *slot = byte;
                }
            }
            1 => bytes.insert(at, script.next().unwrap_or(b'0')),
            2 if at < bytes.len() => drop(bytes.remove(at)),
            3 => bytes.truncate(at),
            4 => {
                let length = usize::from(script.next().unwrap_or(1));
                let copy = bytes[at..(at + length).min(bytes.len())].to_vec();
                bytes.splice(at..at, copy);
            }
            5 => {
                let length = usize::from(script.next().unwrap_or(1));
                bytes.drain(at..(at + length).min(bytes.len()));
            }
            6 => {
                let length = usize::from(script.next().unwrap_or(1));
                let text: Vec<u8> = script.by_ref().take(length).collect();
                bytes.splice(at..at, text);
            }
            _ => {}
        }
        bytes.truncate(1 << 16);
    }
    bytes
}

/// The first byte, and the rest.
pub fn head(input: &[u8]) -> (u8, &[u8]) {
    input.split_first().map_or((0, input), |(first, rest)| (*first, rest))
}

//! Inputs made of those in the corpus: changed bytes, pieces moved, two spliced, words put in. The same ones for one target every time.

use crate::support::SeededEntropy;
use writ::domain::clock::{Entropy as _, random};

/// The words of `fuzz/writ.dict`.
fn dictionary() -> Vec<Vec<u8>> {
    let lines = include_str!("../../fuzz/writ.dict").lines().filter(|line| line.starts_with('"'));
    let words = lines.map(|line| unescaped(&line[1..line.len() - 1]));
    words.collect()
}

/// A dictionary word as bytes: `\\`, `\"` and `\xNN` are escapes.
fn unescaped(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        match bytes.next().expect("something follows the backslash") {
            b'x' => {
                let digits: String = bytes.by_ref().take(2).map(char::from).collect();
                out.push(u8::from_str_radix(&digits, 16).unwrap());
            }
            other => out.push(other),
        }
    }
    out
}

pub struct Mutator<'c> {
    chance: SeededEntropy,
    corpus: &'c [Vec<u8>],
    words: Vec<Vec<u8>>,
}

impl<'c> Mutator<'c> {
    /// A mutator whose inputs follow from the target's name and its corpus alone.
    pub fn new(target: &str, corpus: &'c [Vec<u8>]) -> Self {
        let seed = target
            .bytes()
            .fold(0, |seed: u64, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
        Self {
            chance: SeededEntropy::new(seed),
            corpus,
            words: dictionary(),
        }
    }

    /// A number below `end`, or 0.
    fn below(&mut self, end: usize) -> usize {
        let number = u64::from_le_bytes(random(&self.chance));
        usize::try_from(number % u64::try_from(end.max(1)).unwrap()).unwrap()
    }

    fn one_of_the_corpus(&mut self) -> &'c [u8] {
        let which = self.below(self.corpus.len());
        &self.corpus[which]
    }

    /// The next input.
    pub fn next(&mut self) -> Vec<u8> {
        let mut bytes = self.one_of_the_corpus().to_vec();
        for _ in 0..=self.below(4) {
            self.change(&mut bytes);
        }
        bytes.truncate(8192);
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len() + 1);
        let end = at + self.below((bytes.len() - at).min(64) + 1);
        match self.below(9) {
            0 | 1 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << self.below(8);
                }
            }
            2 => {
                let mut some = vec![0; self.below(8)];
                self.chance.fill(&mut some);
                bytes.splice(at..at, some);
            }
            3 => drop(bytes.drain(at..end)),
            4 => {
                let copy = bytes[at..end].to_vec();
                let to = self.below(bytes.len() + 1);
                bytes.splice(to..to, copy);
            }
            5 => {
                let which = self.below(self.words.len());
                bytes.splice(at..at, self.words[which].clone());
            }
            6 => {
                let other = self.one_of_the_corpus();
                let from = self.below(other.len() + 1);
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            7 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = [0, 1, 0x7f, 0x80, 0xff, b'"', b'0', b'\n'][self.below(8)];
                }
            }
            _ => bytes.truncate(at),
        }
    }
}

//! A tree of any size in the memory of its right edge: the verifier's own, which shares nothing with what the writer computes.

use ring::digest::{Context, SHA256};

use crate::audit::tree::Hash;

/// The roots of the complete subtrees, largest first.
#[derive(Debug, Clone, Default)]
pub(crate) struct CompactRange {
    size: u64,
    peaks: Vec<(u8, [u8; 32])>,
}

/// A node that came to be: its level and its hash. In the order in which they come to be they are the stored nodes.
pub(crate) type Grown = (u8, [u8; 32]);

impl CompactRange {
    /// Adds a leaf, and tells each node that came to be by it, the leaf's own first.
    pub(crate) fn push(&mut self, leaf: [u8; 32], mut grown: impl FnMut(Grown)) {
        let (mut level, mut hash) = (0, leaf);
        grown((level, hash));
        while let Some((_, left)) = self.peaks.pop_if(|(of, _)| *of == level) {
            hash = joined(&left, &hash);
            level += 1;
            grown((level, hash));
        }
        self.peaks.push((level, hash));
        self.size += 1;
    }

    /// How many leaves there are.
    pub(crate) const fn size(&self) -> u64 {
        self.size
    }

    /// The root, RFC 6962 section 2.1.
    pub(crate) fn root(&self) -> Hash {
        let mut peaks = self.peaks.iter().rev();
        let Some((_, last)) = peaks.next() else {
            return Hash(sha256(&[]));
        };
        Hash(peaks.fold(*last, |right, (_, left)| joined(left, &right)))
    }
}

/// The hash of a leaf.
pub(crate) fn of_leaf(bytes: &[u8]) -> [u8; 32] {
    sha256(&[&[0], bytes])
}

fn joined(left: &[u8; 32], right: &[u8; 32]) -> [u8; 32] {
    sha256(&[&[1], left, right])
}

fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(part);
    }
    let mut hash = [0; 32];
    hash.copy_from_slice(context.finish().as_ref());
    hash
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::tree::{Edge, leaf_hash};

    #[test]
    fn two_programs_for_one_tree_grow_the_same_nodes_and_roots() {
        let (mut edge, mut range) = (Edge::default(), CompactRange::default());
        assert_eq!(range.root(), edge.root().unwrap());
        for n in 0_u32..600 {
            let leaf = n.to_string();
            assert_eq!(of_leaf(leaf.as_bytes()), leaf_hash(leaf.as_bytes()).0);
            let theirs: Vec<[u8; 32]> = edge
                .push(leaf_hash(leaf.as_bytes()))
                .unwrap()
                .into_iter()
                .map(|(_, hash)| hash.0)
                .collect();
            let mut ours = Vec::new();
            range.push(of_leaf(leaf.as_bytes()), |(_, hash)| ours.push(hash));
            assert_eq!(ours, theirs);
            assert_eq!((range.size(), range.root()), (edge.size(), edge.root().unwrap()));
        }
    }
}

//! The tree over the events, RFC 6962 section 2.1: what of it a writer must remember, and what a reader proves with it.

use tlog_tiles::tlog;

pub use tlog_tiles::tlog::{Error as TreeError, Hash, HashReader};

/// A proof with more hashes than this belongs to no tree of 64-bit size; longer ones are refused before anything looks at them.
pub const MAX_PROOF: usize = 63;

/// A log of more events than this is none: tens of thousands of them in each second would take hundreds of years. What is numbered beyond it is
/// refused before anything counts with it.
pub const MAX_SIZE: u64 = 1 << 48;

/// The hash of a leaf: SHA-256 over `0x00` and the exact stored bytes.
#[must_use]
pub fn leaf_hash(bytes: &[u8]) -> Hash {
    tlog::record_hash(bytes)
}

/// Where a leaf's hash is stored among all nodes, numbered as they come to be.
#[must_use]
pub fn leaf_index(seq: u64) -> u64 {
    tlog::stored_hash_index(0, seq)
}

/// Which leaf's hash is stored there; `None` where it is that of a node above the leaves.
#[must_use]
pub fn leaf_number(index: u64) -> Option<u64> {
    match tlog::split_stored_hash_index(index) {
        (0, seq) => Some(seq),
        _ => None,
    }
}

/// One node: its number and its hash.
pub type Node = (u64, Hash);

/// The right edge: the size of the tree and the roots of its complete subtrees, at most 64 hashes. Enough to extend the tree and to know its
/// root, without reading anything of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edge {
    size: u64,
    peaks: Vec<(u64, [u8; 32])>,
}

impl Edge {
    /// The edge of a tree that somebody else keeps, from its nodes. It is only as good as they are: compare [`Edge::root`] with a root that is known.
    ///
    /// # Errors
    /// [`TreeError`] if the reader has not got the nodes.
    pub fn read(size: u64, nodes: &impl HashReader) -> Result<Self, TreeError> {
        if size > MAX_SIZE {
            return Err(TreeError::IndexesNotInTree);
        }
        let indexes = tlog::sub_tree_index(0, size, Vec::new());
        let hashes = nodes.read_hashes(&indexes)?;
        if hashes.len() != indexes.len() {
            return Err(TreeError::IndexesNotInTree);
        }
        let peaks = indexes.into_iter().zip(hashes.into_iter().map(|hash| hash.0)).collect();
        Ok(Self { size, peaks })
    }

    /// How many leaves the tree has.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Adds a leaf and gives the nodes that came to be by it, the leaf's own first.
    ///
    /// # Errors
    /// [`TreeError`] if the numbering of nodes ends.
    pub fn push(&mut self, leaf: Hash) -> Result<Vec<Node>, TreeError> {
        let hashes = tlog::stored_hashes_for_record_hash(self.size, leaf, self)?;
        let first = leaf_index(self.size);
        let nodes: Vec<Node> = (first..).zip(hashes).collect();
        self.size += 1;
        let known = |index: &u64| -> Option<[u8; 32]> {
            let own = nodes.iter().find(|(i, _)| i == index).map(|(_, hash)| hash.0);
            own.or_else(|| self.peaks.iter().find(|(i, _)| i == index).map(|(_, hash)| *hash))
        };
        let indexes = tlog::sub_tree_index(0, self.size, Vec::new());
        let peaks = indexes.into_iter().map(|index| known(&index).map(|hash| (index, hash)));
        self.peaks = peaks.collect::<Option<_>>().ok_or(TreeError::BadMath)?;
        Ok(nodes)
    }

    /// The root; of the empty tree the hash of nothing.
    ///
    /// # Errors
    /// [`TreeError`] never, for an edge that was made here.
    pub fn root(&self) -> Result<Hash, TreeError> {
        tlog::tree_hash(self.size, self)
    }
}

impl HashReader for Edge {
    fn read_hashes(&self, indexes: &[u64]) -> Result<Vec<Hash>, TreeError> {
        let find = |index: &u64| self.peaks.iter().find(|(i, _)| i == index).map(|(_, hash)| Hash(*hash));
        let found: Option<Vec<Hash>> = indexes.iter().map(find).collect();
        found.ok_or(TreeError::IndexesNotInTree)
    }
}

/// How many nodes a tree of this size has.
#[must_use]
pub fn node_count(size: u64) -> u64 {
    tlog::stored_hash_count(size)
}

/// Where the hashes of a tile are stored, in a tree of `size` leaves: `width` roots of 256^`level` leaves each, the first of them numbered
/// 256 × `index`. `None` if the tree has not got all of them, or the tile is none of C2SP tlog-tiles.
#[must_use]
pub fn tile_indexes(size: u64, level: u8, index: u64, width: u16) -> Option<Vec<u64>> {
    // Level 7 has one hash for 2^56 leaves; no tree of 64-bit size has a level 8 of hashes in tiles.
    if level > 7 || width == 0 || width > 256 || size > MAX_SIZE {
        return None;
    }
    let height = level * 8;
    let first = index.checked_mul(256)?;
    let end = first.checked_add(u64::from(width))?;
    if end > size >> height {
        return None;
    }
    Some((first..end).map(|n| tlog::stored_hash_index(height, n)).collect())
}

/// The proof that the leaf `seq` is in the tree of `size`, leaf sibling first.
///
/// # Errors
/// [`TreeError`] if the leaf is not in it, or a node is missing.
pub fn prove_inclusion(size: u64, seq: u64, nodes: &impl HashReader) -> Result<Vec<Hash>, TreeError> {
    if size > MAX_SIZE {
        return Err(TreeError::IndexesNotInTree);
    }
    tlog::prove_record(size, seq, &Checked(nodes))
}

/// The proof that the tree of `old` leaves is a prefix of that of `new`. The empty tree is a prefix of every tree, without a proof.
///
/// # Errors
/// [`TreeError`] if `old` is larger than `new`, or a node is missing.
pub fn prove_consistency(old: u64, new: u64, nodes: &impl HashReader) -> Result<Vec<Hash>, TreeError> {
    if new > MAX_SIZE {
        return Err(TreeError::IndexesNotInTree);
    }
    if old == 0 {
        return Ok(Vec::new());
    }
    tlog::prove_tree(new, old, &Checked(nodes))
}

/// Whether `proof` shows that the leaf with this hash is number `seq` of the tree with this size and root.
///
/// # Errors
/// [`TreeError`] if it does not.
pub fn check_inclusion(proof: &[Hash], size: u64, root: Hash, seq: u64, leaf: Hash) -> Result<(), TreeError> {
    if proof.len() > MAX_PROOF || size > MAX_SIZE {
        return Err(TreeError::InvalidProof);
    }
    tlog::check_record(&proof.to_vec(), size, root, seq, leaf)
}

/// Whether `proof` shows that the old tree is a prefix of the new one.
///
/// # Errors
/// [`TreeError`] if it does not.
pub fn check_consistency(proof: &[Hash], old: (u64, Hash), new: (u64, Hash)) -> Result<(), TreeError> {
    if proof.len() > MAX_PROOF || new.0 > MAX_SIZE {
        return Err(TreeError::InvalidProof);
    }
    if old.0 == 0 {
        let empty = proof.is_empty() && old.1 == tlog::EMPTY_HASH;
        return if empty { Ok(()) } else { Err(TreeError::InvalidProof) };
    }
    tlog::check_tree(&proof.to_vec(), new.0, new.1, old.0, old.1)
}

/// The library panics if a reader gives fewer hashes than it was asked for.
struct Checked<'a, R>(&'a R);

impl<R: HashReader> HashReader for Checked<'_, R> {
    fn read_hashes(&self, indexes: &[u64]) -> Result<Vec<Hash>, TreeError> {
        let hashes = self.0.read_hashes(indexes)?;
        if hashes.len() == indexes.len() {
            Ok(hashes)
        } else {
            Err(TreeError::IndexesNotInTree)
        }
    }
}

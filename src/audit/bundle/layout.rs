//! The layout of C2SP tlog-tiles: which file holds which hashes and which events.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;

use tlog_tiles::tlog::stored_hash_index;

use crate::audit::source::SourceError;

/// How many hashes, or events, a full tile has.
pub(crate) const WIDTH: u64 = 256;

/// One tile of hashes: so many, from a place on a level that has one hash for each full tile of the level below.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tile {
    pub(crate) level: u8,
    pub(crate) n: u64,
    pub(crate) width: u64,
}

impl Tile {
    /// Where its hashes are among all nodes.
    pub(crate) fn indexes(self) -> Vec<u64> {
        let first = self.n * WIDTH;
        let level = self.level * 8;
        (first..first + self.width).map(|n| stored_hash_index(level, n)).collect()
    }

    /// Its file.
    pub(crate) fn path(self) -> String {
        format!("tile/{}/{}", self.level, numbered(self.n, self.width))
    }
}

/// The file of so many events from `n * 256` on.
pub(crate) fn entries_path(n: u64, width: u64) -> String {
    format!("tile/entries/{}", numbered(n, width))
}

/// The number in groups of three digits, `x` before each but the last; the width too where it is not full.
fn numbered(n: u64, width: u64) -> String {
    let mut text = format!("{:03}", n % 1000);
    let mut rest = n / 1000;
    while rest > 0 {
        text = format!("x{:03}/{text}", rest % 1000);
        rest /= 1000;
    }
    if width == WIDTH { text } else { format!("{text}.p/{width}") }
}

/// The numbers of the tiles of events below this directory that a log of this size has. Only what is there is looked at, however large the size is.
pub(crate) fn entries_below(dir: &Path, size: u64) -> Result<BTreeSet<u64>, SourceError> {
    let (mut found, mut open) = (BTreeSet::new(), vec![(dir.to_owned(), 0)]);
    while let Some((dir, above)) = open.pop() {
        let told = |error: std::io::Error| SourceError(format!("{}: {error}", dir.display()));
        let entries = match std::fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => continue,
            Err(error) => return Err(told(error)),
        };
        for entry in entries {
            let entry = entry.map_err(told)?;
            let Some(name) = entry.file_name().to_str().map(str::to_owned) else {
                continue;
            };
            let is_more = name.starts_with('x');
            let digits = name.trim_start_matches('x').trim_end_matches(".p");
            let Some(n) = digits.parse::<u64>().ok().filter(|n| *n < 1000).map(|n| above * 1000 + n) else {
                continue;
            };
            if n >= size.div_ceil(WIDTH) {
                continue;
            }
            if is_more && entry.file_type().map_err(told)?.is_dir() {
                open.push((entry.path(), n));
            } else {
                found.insert(n);
            }
        }
    }
    Ok(found)
}

/// How many hashes each level of a tree of this size has, from the events' own up.
fn levels(size: u64) -> impl Iterator<Item = (u8, u64)> {
    (0_u8..8)
        .map(move |level| (level, size >> (8 * u32::from(level))))
        .take_while(|(_, count)| *count > 0)
}

/// Every tile of a tree of this size.
pub(crate) fn all(size: u64) -> impl Iterator<Item = Tile> {
    levels(size).flat_map(|(level, count)| {
        (0..count.div_ceil(WIDTH)).map(move |n| Tile {
            level,
            n,
            width: WIDTH.min(count - n * WIDTH),
        })
    })
}

/// The tiles that prove these events to be in a tree of this size: those above each of them, and the right edge.
pub(crate) fn proving(size: u64, seqs: &[u64]) -> BTreeSet<Tile> {
    let mut tiles = BTreeSet::new();
    for (level, count) in levels(size) {
        let places = seqs.iter().map(|seq| seq >> (8 * u32::from(level))).filter(|place| *place < count);
        let edge = (count % WIDTH != 0).then_some(count - 1);
        tiles.extend(places.chain(edge).map(|place| {
            let n = place / WIDTH;
            let width = WIDTH.min(count - n * WIDTH);
            Tile { level, n, width }
        }));
    }
    tiles
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_as_in_the_standard() {
        let tile = |level, n, width| Tile { level, n, width }.path();
        assert_eq!(tile(0, 0, 256), "tile/0/000");
        assert_eq!(tile(1, 7, 3), "tile/1/007.p/3");
        assert_eq!(tile(0, 1_234_067, 256), "tile/0/x001/x234/067");
        assert_eq!(entries_path(273, 112), "tile/entries/273.p/112");
    }

    #[test]
    fn a_tree_has_the_tiles_that_its_size_says() {
        let paths: Vec<String> = all(70_000).map(Tile::path).collect();
        assert_eq!(paths.len(), 274 + 2 + 1);
        assert_eq!(paths.last().unwrap(), "tile/2/000.p/1");
        assert!(paths.contains(&"tile/1/001.p/17".to_owned()) && paths.contains(&"tile/0/273.p/112".to_owned()));
        assert_eq!(all(0).count(), 0);
        assert_eq!(all(256).map(Tile::path).collect::<Vec<_>>(), ["tile/0/000", "tile/1/000.p/1"]);
    }

    #[test]
    fn what_proves_few_events_is_few_tiles() {
        let paths: Vec<String> = proving(70_000, &[5, 300]).into_iter().map(Tile::path).collect();
        let expected = [
            "tile/0/000",
            "tile/0/001",
            "tile/0/273.p/112",
            "tile/1/000",
            "tile/1/001.p/17",
            "tile/2/000.p/1",
        ];
        assert_eq!(paths, expected);
    }
}

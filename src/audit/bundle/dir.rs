//! A directory that is there whole or not at all: written beside its place and moved there.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use ring::digest::{Context, SHA256};

use super::manifest::ListedFile;
use crate::audit::sync_dir_of;

/// The directory while it is written. Dropped before it is moved, it is removed.
pub(super) struct Draft {
    temp: PathBuf,
    to: PathBuf,
    files: Vec<ListedFile>,
    is_placed: bool,
}

/// What went wrong with a path.
fn told(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

impl Draft {
    /// Begins beside `to`, which must not be there.
    pub(super) fn beside(to: &Path, mark: &str) -> Result<Self, String> {
        if to.symlink_metadata().is_ok() {
            return Err(format!("{} exists already; name a new directory", to.display()));
        }
        has_place(to)?;
        let name = to
            .file_name()
            .ok_or_else(|| format!("{} is no name for a new directory", to.display()))?;
        let mut temp_name = std::ffi::OsString::from(".");
        temp_name.push(name);
        temp_name.push(format!(".{mark}.partial"));
        let temp = to.with_file_name(temp_name);
        fs::create_dir(&temp).map_err(|error| told(&temp, &error))?;
        Ok(Self {
            temp,
            to: to.to_owned(),
            files: Vec::new(),
            is_placed: false,
        })
    }

    /// Begins a file at a path with `/` between its parts.
    pub(super) fn file(&self, path: &str) -> Result<DraftFile, String> {
        let at = self.temp.join(path);
        let file = at.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| File::create_new(&at));
        Ok(DraftFile {
            file: BufWriter::new(file.map_err(|error| told(&at, &error))?),
            hash: Context::new(&SHA256),
            bytes: 0,
            path: path.to_owned(),
            at,
        })
    }

    /// Writes a whole file.
    pub(super) fn write(&mut self, path: &str, bytes: &[u8]) -> Result<(), String> {
        let mut file = self.file(path)?;
        file.write(bytes)?;
        self.finish(file)
    }

    /// Ends a file and lists it.
    pub(super) fn finish(&mut self, mut file: DraftFile) -> Result<(), String> {
        file.file.flush().map_err(|error| told(&file.at, &error))?;
        self.files.push(ListedFile {
            path: file.path,
            bytes: file.bytes,
            sha256: hex(file.hash.finish().as_ref()),
        });
        Ok(())
    }

    /// The files so far, by their paths.
    pub(super) fn listed(&self) -> Vec<ListedFile> {
        let mut files = self.files.clone();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files
    }

    /// Flushes everything and moves it to its place.
    pub(super) fn place(mut self) -> Result<(), String> {
        let dir = File::open(&self.temp).map_err(|error| told(&self.temp, &error))?;
        rustix::fs::syncfs(&dir).map_err(|error| told(&self.temp, &error.into()))?;
        let (cwd, flags) = (rustix::fs::CWD, rustix::fs::RenameFlags::NOREPLACE);
        rustix::fs::renameat_with(cwd, &self.temp, cwd, &self.to, flags).map_err(|error| told(&self.to, &error.into()))?;
        self.is_placed = true;
        sync_dir_of(&self.to).inspect_err(|_| drop(fs::remove_dir_all(&self.to)))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_placed {
            // What is left is of no use to anybody, and its name says that it is not whole.
            drop(fs::remove_dir_all(&self.temp));
        }
    }
}

/// One file while it is written.
pub(super) struct DraftFile {
    file: BufWriter<File>,
    hash: Context,
    bytes: u64,
    path: String,
    at: PathBuf,
}

impl DraftFile {
    /// Adds bytes.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        self.file.write_all(bytes).map_err(|error| told(&self.at, &error))
    }
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether the directory is there in which this is to be made.
///
/// # Errors
/// A sentence with what to do.
pub(crate) fn has_place(to: &Path) -> Result<(), String> {
    match to.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) if !parent.is_dir() => Err(format!("there is no directory {}: make it first", parent.display())),
        _ => Ok(()),
    }
}

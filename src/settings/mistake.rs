//! What is wrong with a settings file: every mistake of every file, each with its place and its remedy.

use std::cell::RefCell;
use std::fmt;

/// One thing to correct in a settings file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mistake {
    /// The file's name.
    pub file: String,
    /// Where in the file, such as `operation[refund.create].params.amount`; empty for the file as a whole.
    pub place: String,
    /// What is wrong and what to do about it.
    pub problem: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.file)?;
        if !self.place.is_empty() {
            write!(f, "{}: ", self.place)?;
        }
        f.write_str(&self.problem)
    }
}

/// All mistakes that were found, one a line; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistakes(pub Vec<Mistake>);

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, mistake) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{mistake}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Mistakes {}

/// The mistakes of one file while it is read.
#[derive(Debug)]
pub(crate) struct Log {
    file: String,
    found: RefCell<Vec<Mistake>>,
}

impl Log {
    pub(crate) fn new(file: &str) -> Self {
        Self {
            file: file.to_owned(),
            found: RefCell::default(),
        }
    }

    pub(crate) fn add(&self, place: &str, problem: impl Into<String>) {
        self.found.borrow_mut().push(Mistake {
            file: self.file.clone(),
            place: place.to_owned(),
            problem: problem.into(),
        });
    }

    pub(crate) fn into_mistakes(self) -> Vec<Mistake> {
        self.found.into_inner()
    }
}

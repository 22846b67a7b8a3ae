//! The log in other people's formats.

mod csv;
mod documented;
mod jsonl;
mod ocsf;
mod page;
mod samples;

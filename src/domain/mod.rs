//! Types and rules that everything else is written in: no IO, no async, no clock of its own.

pub mod approval;
pub mod client_certificate;
pub mod clock;
pub mod digest;
pub mod draft;
pub mod id;
pub mod json;
pub mod lifecycle;
pub mod money;
pub mod name;
pub mod operation;
pub mod policy;
pub mod principal;
pub mod secret;
pub mod stop;
pub mod text;
pub mod time;

//! The network edge: who is at the other end of a connection, and how much one of them may use.

mod certificate;
mod files;
mod limits;
mod peer;
mod tls;

pub use certificate::{Certificate, CertificateError};
pub use files::{Demand, TlsFiles};
pub use limits::Limits;
pub use peer::Peer;
pub use tls::{ServerTls, Standing};

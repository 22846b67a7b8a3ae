//! The network edge: who is at the other end of a connection, and how much one of them may use.

mod admission;
mod certificate;
mod connections;
mod files;
mod limits;
mod pace;
mod peer;
mod rates;
mod tls;

pub use admission::{Admission, Place, Work};
pub use certificate::{Certificate, CertificateError};
pub use connections::{Busy, Connections, Seat, Shown};
pub use files::{Demand, TlsFiles};
pub use limits::Limits;
pub use pace::{NOTE_EVERY, Pace, Turn};
pub use peer::Peer;
pub use rates::{Holder, Rates, Refused, Source, whole_seconds};
pub use tls::{ServerTls, Standing};

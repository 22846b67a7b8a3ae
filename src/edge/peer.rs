//! Who is at the other end of a connection.

use std::net::IpAddr;
use std::sync::Arc;

use super::Certificate;

/// What the connection itself says of whoever calls; every request that comes in over it carries this.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Where the connection comes from.
    pub address: IpAddr,
    /// The certificate it proved to have the key of, if TLS asked for one and the authority is ours.
    pub certificate: Option<Arc<Certificate>>,
}

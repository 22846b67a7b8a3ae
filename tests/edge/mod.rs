//! The network edge through real sockets, with clients that nobody here wrote.

mod heads;
mod peers;
mod renewal;
mod resets;
mod slow;
mod tls_files;

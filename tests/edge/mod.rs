//! The network edge through real sockets, with clients that nobody here wrote.

mod clients;
mod crowds;
mod heads;
mod overload;
mod peers;
mod places;
mod rates;
mod renewal;
mod resets;
mod slow;
mod tls_files;
mod untaken;

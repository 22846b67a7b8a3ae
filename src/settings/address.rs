//! Addresses in messages.

/// An address as a message may repeat it: what stands before an `@` or after a `?` could be a secret.
pub(crate) fn without_secrets(address: &str) -> String {
    let (address, query) = address.split_once('?').map_or((address, ""), |(address, _)| (address, "?…"));
    let shown = address
        .rsplit_once('@')
        .map_or_else(|| address.to_owned(), |(_, host)| format!("…@{host}"));
    shown + query
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_or_a_query_of_an_address_is_not_repeated() {
        assert_eq!(without_secrets("https://api.example.com/v1"), "https://api.example.com/v1");
        assert_eq!(without_secrets("ftp://me:secret@host/v1?key=secret"), "…@host/v1?…");
        assert_eq!(without_secrets("http://me:se@cret@host"), "…@host");
        assert_eq!(without_secrets("host?user=me@host"), "host?…");
    }
}

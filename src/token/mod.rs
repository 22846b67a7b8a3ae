//! Credentials: minted by the broker, verified by the proxy, and the keys they hang on.

//! Adapters: what may be sent to a backend, how its answers read, how a lost one is looked up.

//! Composition root: clock, entropy, store, policies, backends, routers, shutdown.

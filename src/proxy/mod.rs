//! Do it, at most once: redeem, dispatch, settle, reconcile, sweep.

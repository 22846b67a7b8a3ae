//! What happened, one event a transition.

//! The layers: imports point downwards only.

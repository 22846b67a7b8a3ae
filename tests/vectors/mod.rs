//! Vectors that anybody can check without this program: `check.py` and `check.mjs` beside them do.

mod drafts;
mod refused;

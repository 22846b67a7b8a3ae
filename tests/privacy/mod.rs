//! What must never stand in the log, and what may be taken out of it without breaking a proof.

mod canary;

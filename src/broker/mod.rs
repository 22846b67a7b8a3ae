//! May this be done? Propose, decide, review, issue, retire.

//! Where state is kept: the contract in transitions, and the stores that keep it.

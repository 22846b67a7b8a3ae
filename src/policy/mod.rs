//! Rules to a decision with reasons; pure.

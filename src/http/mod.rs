//! Bytes to types and back; decides nothing.

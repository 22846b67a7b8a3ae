//! README and docs say what the program does.

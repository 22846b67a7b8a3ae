//! The Python and WebAssembly Biscuit libraries judge our credentials.

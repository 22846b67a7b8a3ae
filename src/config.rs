//! The configuration file: read raw with unknown fields refused, checked into a Config with all mistakes reported at once.

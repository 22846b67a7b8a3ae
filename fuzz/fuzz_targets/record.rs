#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| writ_fuzz::record::check(input));

//! Any bytes, truncated anywhere, are read as a map and a dump of code, or refused.
#![no_main]

#[path = "../../../fastinst/tests/fuzz/body.rs"]
mod body;

use arbtest::arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = body::told(&mut Unstructured::new(data));
});

//! Random scripts: they report the same on both targets and in an interpreter.
#![no_main]

#[path = "../../../wasm-aot/tests/random_scripts/body.rs"]
#[allow(dead_code, reason = "a target has one of the bodies")]
mod body;

use arbtest::arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = body::compare(&mut Unstructured::new(data));
});

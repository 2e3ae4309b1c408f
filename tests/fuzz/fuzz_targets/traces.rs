//! Any bytes are a trace, or are refused; a trace is refused or yields a valid module.
#![no_main]

#[path = "../../../wasm-aot/trace/tests/fuzz/body.rs"]
mod body;

use arbtest::arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = body::any_bytes(&mut Unstructured::new(data));
});

//! Random modules: every configuration behaves as an interpreter does.
#![no_main]

#[path = "../../../wasm-aot/tests/differential/body.rs"]
#[allow(dead_code, reason = "a target has one of the bodies")]
mod body;

use arbtest::arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use wasm_aot::Engine;

static ENGINES: LazyLock<Vec<(String, Engine)>> = LazyLock::new(body::engines);

fuzz_target!(|data: &[u8]| {
    let _ = body::compare(&ENGINES, &mut Unstructured::new(data));
});

//! Any text is a script, or yields an error with a reason.
#![no_main]

#[path = "../../../whamm/tests/fuzz/body.rs"]
#[allow(dead_code, reason = "a target has one of the bodies")]
mod body;

use arbtest::arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = body::text(&mut Unstructured::new(data));
});

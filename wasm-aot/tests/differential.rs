//! A second of comparing our machine code with an interpreter; `cargo run --release -p wasm-aot --example differential` does it for days.

#[path = "differential/body.rs"]
mod body;

use std::cell::Cell;

#[test]
fn every_configuration_does_what_an_interpreter_does() {
    let engines = body::engines();
    let interpreted = Cell::new(0);
    let property = |u: &mut arbtest::arbitrary::Unstructured<'_>| {
        interpreted.set(interpreted.get() + u32::from(body::compare(&engines, u)?));
        Ok(())
    };
    arbtest::arbtest(property).size_min(1 << 10).size_max(1 << 14).budget_ms(1_000).run();
    assert!(interpreted.get() > 0, "no module was compared with the interpreter");
}

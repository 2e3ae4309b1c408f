//! Compares the engine's machine code with an interpreter for a second; `cargo run --release -p
//! wasm-aot --example differential` does it for days.

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
    // One module may take all of the time, and be one that the interpreter cannot execute.
    for _ in 0..20 {
        arbtest::arbtest(property).size_min(1 << 10).size_max(1 << 14).budget_ms(1_000).run();
        if interpreted.get() > 0 {
            return;
        }
    }
    panic!("no module was compared with the interpreter");
}

/// Modules about which engines once disagreed, each with the arguments of its function `f`.
const ONCE: &[(&str, &[u128])] = &[
    // A vector that is a parameter of an `if`.
    (
        "(module (func (export \"f\") (param i32 v128) (result v128)
            (f32x4.abs (local.get 1)) (local.get 0)
            (if (param v128) (result v128) (then (f64x2.neg)) (else (i32x4.add (local.get 1))))))",
        &[1, 0x8000_0000_3f80_0000_ffff_ffff_0000_0001],
    ),
];

#[test]
fn what_once_differed_agrees() {
    let engines = body::engines();
    for (text, args) in ONCE {
        let bytes = wat::parse_str(text).expect("a module");
        for first in [args[0], 0] {
            let args = std::iter::once(first).chain(args[1..].iter().copied()).collect();
            assert!(
                body::run_everywhere(&engines, &bytes, &[("f".to_owned(), args)], true),
                "the interpreter takes part"
            );
        }
    }
}

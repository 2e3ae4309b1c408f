//! Any module is either rejected with a named reason, or rewritten to a valid one.

use arbtest::arbitrary::Arbitrary;
use wasm_smith::{Config, Module};
use wasmparser::{Validator, WasmFeatures};
use whamm_record::{Error, Options, record};

fn is_valid(module: &[u8]) -> Result<(), wasmparser::BinaryReaderError> {
    Validator::new_with_features(WasmFeatures::all()).validate_all(module).map(|_| ())
}

/// All ways of recording a program.
fn ways() -> impl Iterator<Item = Options> {
    [(false, None), (true, None), (false, Some("app.r3")), (true, Some("app.r3"))]
        .into_iter()
        .map(|(raw, file)| Options { name: "app.wasm".into(), file: file.map(str::to_owned), raw })
}

#[test]
fn arbitrary_modules_give_valid_modules() {
    let mut recorded = 0;
    arbtest::arbtest(|u| {
        let config = Config {
            exceptions_enabled: true,
            threads_enabled: u.ratio(1, 8)?,
            tail_call_enabled: true,
            gc_enabled: u.ratio(1, 4)?,
            memory64_enabled: u.arbitrary()?,
            max_memories: 3,
            min_funcs: 1,
            max_funcs: 20,
            min_memories: 0,
            min_imports: 0,
            max_imports: 6,
            ..Config::arbitrary(u)?
        };
        let module = Module::new(config, u)?.to_bytes();
        for options in ways() {
            match record(&module, &options) {
                Ok(output) => {
                    recorded += 1;
                    is_valid(&output.module).unwrap_or_else(|e| panic!("{e}"));
                }
                Err(Error::Unsupported(_) | Error::Refused(_) | Error::File(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
        Ok(())
    })
    .budget_ms(1000);
    assert!(recorded > 5, "{recorded} modules were recorded");
}

#[test]
fn references_of_every_type_are_given_to_the_host() {
    let types = ["(ref null $object)", "(ref $object)", "(ref null $function)", "(ref $function)"];
    let others = ["funcref", "externref", "anyref", "eqref", "i31ref", "structref", "exnref"];
    let nulls = ["nullref", "nullfuncref", "nullexternref", "nullexnref"];
    for ty in types.into_iter().chain(others).chain(nulls) {
        let text = format!(
            r#"(module (type $object (struct (field i32))) (type $function (func (param i32)))
                (import "h" "f" (func $f (param {ty}) (result {ty}))) (table (export "t") 1 funcref)
                (elem declare func $f $g) (func $g (type $function))
                (func (export "run") (param {ty}) (result {ty}) (call $f (local.get 0))))"#
        );
        let module = wat::parse_str(&text).expect(ty);
        for options in ways() {
            match record(&module, &options) {
                Ok(output) => is_valid(&output.module).unwrap_or_else(|e| panic!("{ty}: {e}")),
                Err(error) => assert!(matches!(error, Error::File(_)), "{ty}: {error}"),
            }
        }
    }
}

#[test]
fn elements_are_anywhere_in_a_table_that_the_host_may_change() {
    let places = ["i32.const 9999999", "i32.const 10000000", "i32.const -1", "global.get $at"];
    let more = ["i32.add (global.get $at) (i32.const 5)", "i64.const -1", "i64.const 10000000"];
    for place in places.into_iter().chain(more) {
        let wide = if place.starts_with("i64") { "i64" } else { "" };
        let text = format!(
            r#"(module (import "h" "f" (func $f)) (import "h" "at" (global $at i32))
                (table (export "t") {wide} 1 funcref) (func $g)
                (elem ({place}) func $g) (func (export "run") (call $f)))"#
        );
        let module = wat::parse_str(text).expect("it is text");
        for options in ways() {
            let Ok(output) = record(&module, &options) else {
                assert!(options.file.is_some(), "{place}");
                continue;
            };
            is_valid(&output.module).unwrap_or_else(|e| panic!("{place}: {e}"));
        }
    }
}

#[test]
fn damaged_modules_are_refused() {
    let module = wat::parse_str(
        r#"(module (import "m" "f" (func)) (memory (export "n") 1) (table (export "t") 1 funcref)
            (func (export "g") (call 0)))"#,
    )
    .expect("it is text");
    for at in 0..module.len() {
        let mut changed = module.clone();
        changed[at] ^= 0x55;
        // A module that is cut between two sections may still be a module.
        for damaged in [&module[..at], &changed] {
            if let Ok(output) = record(damaged, &Options::default()) {
                is_valid(&output.module).unwrap_or_else(|e| panic!("{e}"));
            }
        }
    }
}

//! Any module is either rejected with a named reason, or rewritten to a valid one.

use arbtest::arbitrary::Arbitrary;
use wasm_smith::{Config, Module};
use wasmparser::{Validator, WasmFeatures};
use whamm_profile::{Clock, Error, Options, profile};

fn is_valid(module: &[u8]) -> Result<(), wasmparser::BinaryReaderError> {
    Validator::new_with_features(WasmFeatures::all()).validate_all(module).map(|_| ())
}

#[test]
fn arbitrary_modules_give_valid_modules() {
    let mut profiled = 0;
    arbtest::arbtest(|u| {
        let config = Config {
            exceptions_enabled: true,
            threads_enabled: u.arbitrary()?,
            tail_call_enabled: true,
            gc_enabled: u.ratio(1, 8)?,
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
        for clock in [Clock::None, Clock::Wasi, Clock::Prof] {
            let options =
                Options { clock: Some(clock), time_all: u.arbitrary()?, ..Options::default() };
            match profile(&module, &options) {
                Ok(output) => {
                    profiled += 1;
                    is_valid(&output.module).unwrap_or_else(|e| panic!("{e}"));
                }
                Err(Error::Unsupported(_) | Error::Clock(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
        Ok(())
    })
    .budget_ms(1000);
    assert!(profiled > 5, "{profiled} modules were profiled");
}

#[test]
fn damaged_modules_are_refused() {
    let module = wat::parse_str(
        r#"(module (import "m" "f" (func)) (memory 1) (table 1 funcref)
            (func (export "g") (call 0)))"#,
    )
    .expect("it is text");
    for at in 0..module.len() {
        let mut changed = module.clone();
        changed[at] ^= 0x55;
        // A module that is cut between two sections may still be a module.
        for damaged in [&module[..at], &changed] {
            if let Ok(output) = profile(damaged, &Options::default()) {
                is_valid(&output.module).unwrap_or_else(|e| panic!("{e}"));
            }
        }
    }
}

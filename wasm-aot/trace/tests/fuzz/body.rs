//! Properties that tests check briefly, and a fuzzer for days: arbitrary bytes are a trace in one
//! of its forms, or are refused; and events that are read from them are refused or result in a
//! valid module.

use arbtest::arbitrary::{Result, Unstructured};
use wasm_aot_trace::{Event, Generation, MAGIC, Program, Reader, TextReader, Writer, generate};

/// A trace of a program, from which beginnings are taken.
fn seed() -> (Vec<u8>, Vec<u8>) {
    let module = wat::parse_str(
        r#"(module (import "h" "f" (func $f (param i32) (result i32))) (memory (export "m") 1)
            (func (export "run") (param i32) (result i32) (call $f (local.get 0))))"#,
    );
    let module = module.expect("a module");
    let writer = Writer::new(Vec::new(), &Program::new(module.clone(), "app.wasm"));
    let (_, trace, _) = writer.expect("memory has room").finish();
    (module, trace)
}

/// Reads bytes in both forms, after a valid beginning of some length.
pub(crate) fn any_bytes(u: &mut Unstructured<'_>) -> Result<()> {
    let (module, trace) = seed();
    let lens = [0, MAGIC.len(), MAGIC.len() + 4, trace.len()];
    let kept = *u.choose(&lens)?;
    let bytes = [&trace[..kept], u.bytes(u.len())?].concat();
    if let Ok(reader) = Reader::new(&bytes[..]) {
        let _ = made(&module, reader);
    }
    if let Ok(reader) = TextReader::new(&bytes[..]) {
        let _ = made(&module, reader);
    }
    Ok(())
}

/// Generates replays of events, which are valid modules.
pub(crate) fn made(
    module: &[u8],
    events: impl Iterator<Item = std::result::Result<Event, wasm_aot_trace::Error>>,
) -> usize {
    let events: Vec<Event> = events.map_while(std::result::Result::ok).collect();
    let mut count = 0;
    for is_checked in [false, true] {
        let events = events.iter().cloned().map(Ok);
        if let Ok(made) = generate(module, events, Generation { is_checked }) {
            let valid = wasmparser::Validator::new().validate_all(&made);
            valid.unwrap_or_else(|error| panic!("{error}"));
            count += 1;
        }
    }
    count
}

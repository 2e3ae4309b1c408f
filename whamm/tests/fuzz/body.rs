//! Bodies for fuzzers, as plain functions: `tests/fuzz.rs` runs each for a short time, a fuzzer for
//! days.

use arbtest::arbitrary::{Result, Unstructured};
use whamm::{Options, Source};

const WORDS: [&str; 60] = [
    "wasm", ":", "opcode", "call", "before", "{", "}", "(", ")", "/", "*", "|", "var", "report",
    "unshared", "shared", "frame", "x", "y", "i32", "u8", "str", "map", "<", ">", ",", ";", "=",
    "+", "-", "==", "&&", "||", "!", "~", "if", "else", "elif", "for", "in", "..", "while", "max",
    "return", "fn", "->", "1", "0x", "1.5", "\"a\"", "@static", "@init", ".", "[", "]", "as", "?",
    "arg0", "T", "use",
];

/// Text of words that occur in scripts, and of others.
fn script(u: &mut Unstructured<'_>) -> Result<String> {
    let mut text = String::new();
    if u.ratio(1, 2)? {
        text.push_str("var x: i32; var y: map<i32, u8>; wasm:opcode:i32.*:before { ");
    }
    for _ in 0..u.int_in_range(0..=60)? {
        if u.ratio(1, 40)? {
            text.push(u.arbitrary()?);
        } else {
            text.push_str(u.choose(&WORDS)?);
        }
        text.push(' ');
    }
    Ok(text)
}

/// Any text is a script, or gets an error with a reason. Formatting a formatted script changes
/// nothing.
pub(crate) fn text(u: &mut Unstructured<'_>) -> Result<()> {
    let text = script(u)?;
    let source = Source::new("fuzz", text);
    let said = whamm::check_scripts(std::slice::from_ref(&source), &[]);
    let _ = (said.to_string(), said.to_json());
    if let Ok(laid_out) = whamm::layout(&source) {
        let again = whamm::layout(&Source::new("fuzz", laid_out.as_str()))
            .expect("what is laid out can be read");
        assert_eq!(laid_out, again);
    }
    Ok(())
}

const SCRIPTS: [&str; 7] = [
    "report var n: u64; wasm:opcode:*:before { report var c: u32; c++; n += 2; } wasm:block:start { report var b: i32; b++; }",
    "wasm:opcode:*:after { report var c: u32; c++; } wasm:func:entry { report var c: u32; c++; } wasm:func:exit { report var c: u32; c++; }",
    "wasm:opcode:*load*|*store*:before / effective_addr > 8 / { report var a: u32; a = effective_addr; } wasm:opcode:br_if|if:before { report var t: u32; if (taken) { t++; } }",
    "report var t: u32; wasm:opcode:*:before / trap / { t++; } wasm:opcode:call*|table*:before { report var f: i32; f = resolved_fid; } \
     wasm:opcode:*:before { report var a: u64; a = addr as u64 + arg0 as u64; }",
    "frame var f: i32; wasm:opcode:*:entry { f++; report var m: map<i32, i32>; m[f]++; } wasm:opcode:*:exit { f += 2; } wasm:opcode:br*:at_target { report var t: u32; t++; } \
     wasm:opcode:drop|select|local.set<T: numeric>(arg0: T):before { report var v: T; v = arg0; }",
    "use cache; report var hits: u64; report var misses: u64; wasm:opcode:i32.load*|i64.load*|f*.load|i32.store*|i64.store*|f*.store:before { \
     if (cache.missing(effective_addr as i32, data_size as i32) == 0) { hits++; } \
     elif (cache.access(effective_addr as i32, data_size as i32) == 0) { hits++; } else { misses++; } }",
    "report var ways: map<u32, u32>; report var a: u32; report var b: u64; \
     wasm:opcode:br_table:before { ways[target]++; report var own: map<u8, u64>; own[arg0 as u8] += 3; } \
     wasm:opcode:i32.*(arg0: i32):before { ways[(arg0 & 15) as u32]++; } \
     wasm:opcode:*.extract_lane*|*.bitmask|struct.get*|array.get*(res0: i32):after { report var r: i32; r = res0; } \
     wasm(local0: i32):opcode:local.*:before { if (local0 > 1) { a++; } elif (local0 == 0) { a++; } elif (pc > 9) { b += 2; } else { } }",
];

fn cache() -> whamm::LibraryFile {
    let bytes = include_str!("../apps/cache_lines.wat").into();
    whamm::LibraryFile { name: "cache".into(), module: "cache".into(), bytes }
}

/// Any module is rewritten to a valid one.
pub(crate) fn module(u: &mut Unstructured<'_>) -> Result<()> {
    let mut config: wasm_smith::Config = u.arbitrary()?;
    config.threads_enabled = false;
    config.gc_enabled = u.arbitrary()?;
    config.exceptions_enabled = u.arbitrary()?;
    config.tail_call_enabled = true;
    config.custom_page_sizes_enabled = u.arbitrary()?;
    config.memory64_enabled = u.arbitrary()?;
    config.wide_arithmetic_enabled = false;
    config.shared_everything_threads_enabled = false;
    config.max_memories = 2;
    let module = wasm_smith::Module::new(config, u)?.to_bytes();
    let script = Source::new("fuzz", *u.choose(&SCRIPTS)?);
    let most_globals = u.arbitrary::<bool>()?.then_some(10);
    let options = Options { exact_traps: u.arbitrary()?, most_globals, ..Options::default() };
    if let Err(said) = whamm::instrument(&[script], &[cache()], &module, &options) {
        let text = said.to_string();
        assert!(!text.contains("would not be valid"), "{text}");
    }
    Ok(())
}

/// Any bytes are rejected or rewritten, as a program and as a library.
pub(crate) fn bytes(u: &mut Unstructured<'_>) -> Result<()> {
    let mut bytes: Vec<u8> = if u.arbitrary()? { b"\0asm\x01\0\0\0".to_vec() } else { vec![] };
    bytes.extend(u.arbitrary::<Vec<u8>>()?);
    let script = Source::new("fuzz", SCRIPTS[0]);
    let _ = whamm::instrument(&[script], &[], &bytes, &Options::default());
    let library = whamm::LibraryFile { name: "l".into(), module: "l".into(), bytes };
    let _ = whamm::check_scripts(
        &[Source::new("fuzz", "use l; wasm:opcode:call:before { l.f(); }")],
        &[library],
    );
    Ok(())
}

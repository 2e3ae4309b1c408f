//! Hand-written monitors, as module text, optimised for the way in which the engine compiles them.
//!
//! The same monitors with empty functions show the cost of the calls: operands are passed, and
//! ignored.

/// The bodies of a monitor's functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bodies {
    Whole,
    Empty,
}

/// The hand-written monitor of that name, if there is one.
pub(super) fn monitor(name: &str, bodies: Bodies) -> Option<String> {
    let functions = match name {
        "icount" => probe("wasm:opcode:*", "", COUNT, bodies),
        "hotness" => probe("wasm:opcode:* ($record())", "(param i32)", COUNT_AT, bodies),
        "branches" => ["br_if", "if"]
            .map(|op| {
                probe(
                    &format!("wasm:opcode:{op} ($record(), arg0)"),
                    "(param i32 i32)",
                    WAY,
                    bodies,
                )
            })
            .concat(),
        "cache_sim" => {
            let load = |op: &&str| {
                probe(
                    &format!("wasm:opcode:{op} (arg0, offset)"),
                    "(param i32 i64)",
                    ACCESS,
                    bodies,
                )
            };
            let store = |op: &&str| {
                probe(
                    &format!("wasm:opcode:{op} (arg1, offset)"),
                    "(param i32 i64)",
                    ACCESS,
                    bodies,
                )
            };
            LOADS.iter().map(load).chain(STORES.iter().map(store)).collect()
        }
        _ => return None,
    };
    Some(format!("(module {COMMON} {functions})"))
}

fn probe(export: &str, params: &str, body: &str, bodies: Bodies) -> String {
    let body = if bodies == Bodies::Whole { body } else { "" };
    format!("(func (export \"{export}\") {params} {body})\n")
}

/// Two counters for each place, and a table of the lines of a cache.
const COMMON: &str = r#"
    (memory 32) (global $next (mut i32) (i32.const 65536))
    (global $n (mut i64) (i64.const 0)) (global $missed (mut i64) (i64.const 0))
    (func (export "$record") (result i32)
        (global.set $next (i32.add (global.get $next) (i32.const 8)))
        (global.get $next))"#;

const COUNT: &str = "(global.set $n (i64.add (global.get $n) (i64.const 1)))";

const COUNT_AT: &str = "(i32.store (local.get 0) (i32.add (i32.load (local.get 0)) (i32.const 1)))";

const WAY: &str = r"(local i32)
    (local.set 2 (i32.add (local.get 0) (i32.shl (i32.ne (local.get 1) (i32.const 0)) (i32.const 2))))
    (i32.store (local.get 2) (i32.add (i32.load (local.get 2)) (i32.const 1)))";

/// A line is 64 bytes, and there are 512 of them.
const ACCESS: &str = r"(local $line i32) (local $at i32)
    (local.set $line (i32.shr_u (i32.add (local.get 0) (i32.wrap_i64 (local.get 1))) (i32.const 6)))
    (local.set $at (i32.shl (i32.and (local.get $line) (i32.const 511)) (i32.const 2)))
    (global.set $n (i64.add (global.get $n) (i64.const 1)))
    (if (i32.ne (i32.load (local.get $at)) (local.get $line)) (then
        (i32.store (local.get $at) (local.get $line))
        (global.set $missed (i64.add (global.get $missed) (i64.const 1)))))";

const LOADS: [&str; 14] = [
    "i32.load",
    "i64.load",
    "f32.load",
    "f64.load",
    "i32.load8_s",
    "i32.load8_u",
    "i32.load16_s",
    "i32.load16_u",
    "i64.load8_s",
    "i64.load8_u",
    "i64.load16_s",
    "i64.load16_u",
    "i64.load32_s",
    "i64.load32_u",
];

const STORES: [&str; 9] = [
    "i32.store",
    "i64.store",
    "f32.store",
    "f64.store",
    "i32.store8",
    "i32.store16",
    "i64.store8",
    "i64.store16",
    "i64.store32",
];

#[cfg(test)]
mod tests {
    use super::*;
    use wasm_aot::{Engine, Module};

    #[test]
    fn all_of_them_are_modules() {
        for name in ["icount", "hotness", "branches", "cache_sim"] {
            for bodies in [Bodies::Whole, Bodies::Empty] {
                let text = monitor(name, bodies).expect("there is one");
                Module::new(&Engine::default(), text)
                    .unwrap_or_else(|error| panic!("{name}: {error}"));
            }
        }
        assert_eq!(monitor("taint", Bodies::Whole), None);
    }
}

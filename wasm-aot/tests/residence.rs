//! The memory that stays in use. The test is alone in its process, since it reads the process's
//! memory usage.

use wasm_aot::{Engine, Linker, Module, Store};

/// The resident memory of this process in bytes.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("our own process");
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("a number") * 4096
}

#[test]
fn exceptions_that_nobody_holds_take_no_memory() {
    let mut store = Store::new(&Engine::default(), ());
    let text = "(module (tag $e (param i64 i64 i64 i64))
        (func (export \"throw\") (param i32) (result i64) (local i64)
            (loop $l
                (block $caught (result i64 i64 i64 i64)
                    (try_table (catch $e $caught) (throw $e (i64.const 1) (i64.const 2) (i64.const 3) (i64.extend_i32_u (local.get 0))))
                    unreachable)
                (local.set 1 (i64.add (local.get 1))) (drop) (drop) (drop)
                (br_if $l (local.tee 0 (i32.sub (local.get 0) (i32.const 1)))))
            (local.get 1)))";
    let module = Module::new(&Engine::default(), text).expect("a module");
    let instance =
        Linker::new(&Engine::default()).instantiate(&mut store, &module).expect("an instance");
    let throw = instance.get_typed_func::<i32, i64>(&mut store, "throw").expect("exported");
    let sum = |count: i64| count * (count + 1) / 2;
    assert_eq!(throw.call(&mut store, 50_000).expect("caught"), sum(50_000));
    let before = resident();
    assert_eq!(throw.call(&mut store, 1_000_000).expect("caught"), sum(1_000_000));
    // A million leaked ones would take a hundred megabytes.
    assert!(resident() < before + (8 << 20), "{} kB more", (resident() - before) >> 10);
}

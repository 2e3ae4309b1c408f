//! Counting that is switched very often. Alone in its process, since it counts the process's mappings.

use wasm_aot::{Config, Engine, Linker, Module, Store};

fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").expect("maps").lines().count()
}

#[test]
fn a_million_times_on_and_off_leaves_no_trace() {
    let engine = Engine::new(&Config::new()).expect("an engine");
    let text = "(module (func $f (export \"f\") (param i32) (result i32) (local i32)
        (loop $again (br_if $again (i32.lt_u (local.tee 1 (i32.add (local.get 1) (i32.const 1))) (i32.const 3))))
        (if (result i32) (local.get 0) (then (call $f (i32.sub (local.get 0) (i32.const 1)))) (else (i32.const 7)))))";
    let module = Module::new(&engine, text).expect("a module");
    let mut store = Store::new(&engine, ());
    let instance = Linker::new(&engine).instantiate(&mut store, &module).expect("an instance");
    let function = instance.get_typed_func::<i32, i32>(&mut store, "f").expect("exported");
    module.attach_counts().expect("attached");
    assert_eq!(function.call(&mut store, 10).expect("no trap"), 7);
    // There and back once: whatever is compiled for it is kept.
    module.detach_counts();
    module.attach_counts().expect("attached");
    let before = mappings();
    for _ in 0..1_000_000 {
        module.detach_counts();
        module.attach_counts().expect("attached");
    }
    assert_eq!(mappings(), before);
    assert_eq!(function.call(&mut store, 10).expect("no trap"), 7);
    assert_eq!(module.counts().expect("attached").functions().next().map(|function| function.calls()), Some(22));
}

//! One thread prunes the dead probes of all monitors of a module, and ends when there are none.

use std::fs;
use test_support::eventually;
use wasm_aot::monitor::MonitorSet;
use wasm_aot::{Engine, Linker, Module, Store, Val};

/// Counts down from its argument.
const PROGRAM: &str = r#"(module (func (export "main") (param i32) (result i32)
    (loop $again (br_if $again (local.tee 0 (i32.sub (local.get 0) (i32.const 1)))))
    (local.get 0)))"#;

/// The number of pruning threads in this process.
fn pruners() -> usize {
    let tasks = fs::read_dir("/proc/self/task").expect("the kernel tells");
    let names =
        tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.trim() == "wasm-pruner").count()
}

#[test]
fn a_module_has_one_pruner_and_none_when_nobody_has_probes_there() {
    let engine = Engine::default();
    let module = Module::new(&engine, wat::parse_str(PROGRAM).expect("text")).expect("a module");
    let live = MonitorSet::of(&module);
    // A monitor that was attached once is kept with its observations.
    for monitor in ["coverage", "coverage,missed", "coverage,function=main"] {
        live.attach(monitor).expect("sites");
    }
    let mut store = Store::new(&engine, ());
    let instance = Linker::new(&engine).instantiate(&mut store, &module).expect("an instance");
    let main = instance.get_func(&mut store, "main").expect("exported");
    for _ in 0..20 {
        assert_eq!(main.call(&mut store, &[Val::I32(200_000)]).expect("it ends")[0].i32(), Some(0));
        assert_eq!(pruners(), 1);
    }
    drop((store, live, module));
    eventually("the pruner goes", || pruners() == 0);
}

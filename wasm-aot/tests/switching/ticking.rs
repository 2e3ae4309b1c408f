//! Programs that notify the host of every turn.

use wasm_aot::{Config, Engine, Instance, Linker, Module, Store};

/// A host function that every loop calls: `tick` switches the module, or does nothing.
pub(crate) fn instance(
    text: &str,
    tick: impl Fn(&Module) + Send + Sync + 'static,
) -> (Store<()>, Module, Instance) {
    let engine = Engine::new(&Config::new()).expect("an engine");
    let module = Module::new(&engine, text).expect("a module");
    let mut store = Store::new(&engine, ());
    let mut linker = Linker::new(&engine);
    let own = module.clone();
    linker.func_wrap("host", "tick", move || tick(&own)).expect("the only one");
    let instance = linker.instantiate(&mut store, &module).expect("an instance");
    (store, module, instance)
}

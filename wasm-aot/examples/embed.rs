//! A host with functions, data and limits of its own, and a guest that works for it: `cargo run -p
//! wasm-aot --example embed`.
//!
//! The guest sums up what the host's `price` returns for each item, and reports doubts by `log`.
//! Then it is given work that never ends, and is stopped.

use std::time::Duration;
use wasm_aot::{Caller, Engine, Error, Extern, Limits, Linker, Module, Store, Trap};

const GUEST: &str = r#"
(module $shop
    (import "shop" "price" (func $price (param i32) (result i64)))
    (import "shop" "log" (func $log (param i32 i32)))
    (memory (export "memory") 1)
    (data (i32.const 0) "a dear one")
    (func (export "total") (param $items i32) (result i64)
        (local $sum i64) (local $price i64)
        (loop $next
            (local.set $price (call $price (local.get $items)))
            (if (i64.gt_u (local.get $price) (i64.const 90)) (then (call $log (i32.const 0) (i32.const 10))))
            (local.set $sum (i64.add (local.get $sum) (local.get $price)))
            (br_if $next (local.tee $items (i32.sub (local.get $items) (i32.const 1)))))
        (local.get $sum))
    (func $forever (export "forever") (loop $again (br $again))))"#;

/// What the host knows, and the messages that it has received.
struct Shop {
    prices: Vec<i64>,
    log: Vec<String>,
}

/// The text at a place of the caller's memory.
fn log(mut caller: Caller<'_, Shop>, at: u32, len: u32) -> Result<(), Error> {
    let Some(memory) = caller.get_export("memory").and_then(Extern::into_memory) else {
        return Err(Error::host("the guest exports no memory"));
    };
    let mut bytes = vec![0; len.min(1024) as usize];
    memory.read(&mut caller, at as usize, &mut bytes)?;
    caller.data_mut().log.push(String::from_utf8_lossy(&bytes).into_owned());
    Ok(())
}

fn main() -> Result<(), Error> {
    let engine = Engine::default();
    let module = Module::new(&engine, GUEST)?;
    let mut linker = Linker::new(&engine);
    linker.func_wrap("shop", "price", |caller: Caller<'_, Shop>, item: u32| {
        let price = caller.data().prices.get(item as usize - 1).copied();
        price.ok_or_else(|| Error::host(format!("there is no item {item}")))
    })?;
    linker.func_wrap("shop", "log", log)?;

    let mut store = Store::new(&engine, Shop { prices: vec![20, 95, 5], log: Vec::new() });
    store.set_limits(Limits { memory: 16 << 20, ..Limits::default() });
    let instance = linker.instantiate(&mut store, &module)?;
    let total = instance.get_typed_func::<i32, i64>(&mut store, "total")?;
    println!("three items cost {}", total.call(&mut store, 3)?);
    println!("the guest says: {}", store.data().log.join(", "));
    match total.call(&mut store, 4) {
        Err(error) => println!("four items: {error}"),
        Ok(sum) => println!("four items cost {sum}"),
    }

    store.set_deadline(Some(Duration::from_millis(50)));
    let forever = instance.get_typed_func::<(), ()>(&mut store, "forever")?;
    match forever.call(&mut store, ()) {
        Err(error) if error.trap() == Some(Trap::Interrupted) => {
            println!("stopped after 50 ms:\n{error}");
        }
        other => println!("not stopped: {other:?}"),
    }
    Ok(())
}

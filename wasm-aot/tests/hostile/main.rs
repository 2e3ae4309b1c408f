//! Hostile input to the engine yields an error of one line, never a panic, never a crash.

mod artifacts;
mod embedding;
mod isolation;
mod modules;

use wasm_aot::{Config, Engine, Error, Instance, Linker, Module, Optimize, Store, Trap};

/// Checks that an error is one line.
fn one_line(error: &Error) -> String {
    let text = error.to_string();
    assert!(!text.is_empty() && !text.contains('\n'), "one line: {text}");
    text
}

/// An engine that compiles quickly.
fn quick() -> Engine {
    Engine::new(Config::new().optimize(Optimize::None)).expect("an engine")
}

/// An instance of a module that imports nothing.
fn instance(store: &mut Store<()>, text: &str) -> Instance {
    try_instance(store, text).expect("an instance")
}

fn try_instance(store: &mut Store<()>, text: &str) -> Result<Instance, Error> {
    let module = Module::new(store.engine(), text)?;
    Linker::new(store.engine()).instantiate(store, &module)
}

/// The trap that a call ended with.
fn trap<T: std::fmt::Debug>(result: Result<T, Error>) -> Trap {
    result.expect_err("a trap").trap().expect("a trap")
}

/// Xorshift (Marsaglia, 2003).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

//! An ahead-of-time WebAssembly engine whose machine code carries probe sites.
//!
//! A [`Module`] is validated and compiled, function by function, to machine code for this
//! processor; or loaded from a file that was compiled before. In a [`Store`], a [`Linker`] creates
//! instances of it, with its imports: host functions, or exports of other instances. Functions are
//! called with their types known to Rust ([`TypedFunc`]) or not ([`Func`]).
//!
//! ```
//! use wasm_aot::{Caller, Engine, Error, Linker, Module, Store, Trap};
//!
//! # fn main() -> Result<(), Error> {
//! let engine = Engine::default();
//! let module = Module::new(&engine, r#"(module
//!     (import "host" "next" (func $next (result i64)))
//!     (func (export "sum") (param $count i32) (result i64) (local $sum i64)
//!         (loop $again
//!             (local.set $sum (i64.add (local.get $sum) (call $next)))
//!             (br_if $again (local.tee $count (i32.sub (local.get $count) (i32.const 1)))))
//!         (local.get $sum))
//!     (func (export "divide") (param i32 i32) (result i32) (i32.div_s (local.get 0) (local.get 1))))"#)?;
//!
//! // A function of the host's, which changes the data of the store that it is called in.
//! let mut linker = Linker::new(&engine);
//! linker.func_wrap("host", "next", |mut caller: Caller<'_, i64>| {
//!     *caller.data_mut() += 1;
//!     *caller.data()
//! })?;
//!
//! let mut store = Store::new(&engine, 0);
//! let instance = linker.instantiate(&mut store, &module)?;
//! let sum = instance.get_typed_func::<i32, i64>(&mut store, "sum")?;
//! assert_eq!(sum.call(&mut store, 4)?, 1 + 2 + 3 + 4);
//! assert_eq!(*store.data(), 4);
//!
//! // What goes wrong in a program is an error of the call.
//! let divide = instance.get_typed_func::<(i32, i32), i32>(&mut store, "divide")?;
//! let error = divide.call(&mut store, (1, 0)).unwrap_err();
//! assert_eq!(error.trap(), Some(Trap::IntegerDivideByZero));
//! # Ok(())
//! # }
//! ```
//!
//! [`wasi`] provides the world of WASI programs; `examples/embed.rs` shows limits, deadlines and
//! memories; `DESIGN.md` is the overview, `doc/` has a document for each subject.
//!
//! Not supported: objects of the garbage collection proposal, the component model, processors other
//! than x86-64, systems other than Linux. Files of machine code are trusted as executables are;
//! modules are not trusted at all.

#[cfg(feature = "trace")]
pub mod recording;
#[cfg(feature = "trace")]
pub mod replaying;
pub mod script;
mod signature;
#[cfg(feature = "steering")]
pub mod steering;

#[doc(inline)]
pub use wasm_aot_engine::*;
#[cfg(feature = "instrument")]
#[doc(inline)]
pub use wasm_aot_instrument::{monitor, observer, probe, session};
#[cfg(feature = "trace")]
#[doc(inline)]
pub use wasm_aot_trace as trace;
#[cfg(feature = "wasi")]
#[doc(inline)]
pub use wasm_aot_wasi as wasi;

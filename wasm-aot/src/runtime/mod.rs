//! What runs modules: stores, instances, and everything that machine code needs.

mod activation;
mod backtrace;
mod bridge;
mod builtin;
mod code;
mod elements;
mod function;
mod handle;
mod heap;
mod instance;
mod interruption;
mod linear;
mod linker;
mod module;
mod signals;
mod source;
mod stack;
mod store;
mod throw;
mod typed;
mod value;
mod wait;

pub use function::{Caller, Func};
pub use handle::{Extern, Global, Memory, Table, Tag};
pub use heap::{ExnRef, ExternRef};
pub use instance::Instance;
pub use interruption::InterruptHandle;
pub use linear::SharedMemory;
pub(crate) use linear::reservations_are_possible;
pub use linker::Linker;
pub use module::{ExportType, ImportType, Module};
pub use store::{AsContextMut, Limits, Store, StoreContextMut};
pub use typed::{HostResult, IntoFunc, Params, RawFunc, Results, StoreAccess, TypedFunc, WasmTy};
pub use value::Val;

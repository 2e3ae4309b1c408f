//! The compiler's threads, with large stacks.
//!
//! The compiler recurses deeply where a module nests deeply. A host function that Wasm code has
//! called at the very end of its stack may need a trampoline compiled. So the compiler runs on
//! threads of its own. A process that may not start threads compiles on the calling one.

use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::LazyLock;

/// The size of the stacks of the compiler's threads: address space, of which only the used pages
/// occupy memory.
const STACK: usize = 16 << 20;
/// The stack that compiling a trampoline may need.
const TRAMPOLINE: usize = 1 << 20;

/// One thread for each CPU; none if the process may not start threads.
static THREADS: LazyLock<Option<ThreadPool>> = LazyLock::new(|| {
    let pool = |count| {
        ThreadPoolBuilder::new()
            .num_threads(count)
            .stack_size(STACK)
            .thread_name(|i| format!("wasm-compile-{i}"))
    };
    pool(0).build().or_else(|_| pool(1).build()).ok()
});

/// Runs `act` on the compiler's threads.
pub(super) fn with_threads<R: Send>(act: impl FnOnce() -> R + Send) -> R {
    match &*THREADS {
        Some(threads) => threads.install(act),
        None => act(),
    }
}

/// Runs `act` here if the stack suffices, and on a thread of the compiler otherwise.
pub(super) fn with_enough_stack<R: Send>(act: impl FnOnce() -> R + Send) -> R {
    match crate::stack::left() >= TRAMPOLINE {
        true => act(),
        false => with_threads(act),
    }
}

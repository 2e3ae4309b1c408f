//! Everything that observes programs that wasm-aot runs: built-in [`monitor`]s, monitors that are
//! modules ([`observer`]), and an embedder's own [`probe`]s.
//!
//! All of them are made of what `wasm_aot_engine::instrument` offers: hooks that are compiled into
//! variants of a program's code, and counts. `DESIGN.md` walks through the files.

mod client;
#[cfg(test)]
mod golden;
mod lower;
pub mod monitor;
pub mod observer;
pub mod probe;
pub mod session;

//! From checked code to Wasm.
//!
//! Both targets emit through the same three parts: [`support::Support`] collects what a module
//! needs besides the program (functions, globals, texts, the parts of the run-time support that are
//! used), [`code::Emitter`] turns statements into instructions, and [`report`] describes variables
//! to the code that prints them.

pub mod cells;
pub mod code;
pub mod core;
pub mod counters;
pub mod destination;
pub mod expression;
pub mod function;
pub mod guest;
pub mod locals;
pub mod print;
pub mod replacement;
pub mod report;
pub mod storage;
pub mod support;

//! From checked code to Wasm.
//!
//! Both targets emit through the same three parts: [`support::Support`] collects what a module
//! needs besides the program (functions, globals, texts, the parts of the run-time support that are
//! used), [`code::Emitter`] turns statements into instructions, and [`report`] describes variables
//! to the code that prints them.

pub(crate) mod cells;
pub(crate) mod code;
pub(crate) mod core;
pub(crate) mod counters;
pub(crate) mod destination;
pub(crate) mod expression;
pub(crate) mod function;
pub(crate) mod guest;
pub(crate) mod locals;
pub(crate) mod print;
pub(crate) mod replacement;
pub(crate) mod report;
pub(crate) mod storage;
pub(crate) mod support;

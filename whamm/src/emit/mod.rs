//! Emits checked code as Wasm.
//!
//! Both targets use the same three parts: [`support::Support`] collects the items that a module
//! needs in addition to the program (functions, globals, texts, the used parts of the run-time
//! support), [`code::Emitter`] converts statements to instructions, and [`report`] describes
//! variables for the code that prints them.

pub(crate) mod cells;
pub(crate) mod code;
pub(crate) mod core;
pub(crate) mod counters;
pub(crate) mod destination;
pub(crate) mod expression;
pub(crate) mod function;
pub(crate) mod guest;
pub(crate) mod locals;
pub(crate) mod memories;
pub(crate) mod print;
pub(crate) mod replacement;
pub(crate) mod report;
pub(crate) mod storage;
pub(crate) mod support;

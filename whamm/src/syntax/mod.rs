//! From text to a syntax tree.
//!
//! The language has no context-free tokens: `*` is a pattern in a rule and a product in an
//! expression, and `/` divides unless a block follows it. So there is one recursive descent over
//! characters, a `Cursor` that knows blanks and comments, and one file per level of the grammar. A
//! statement that cannot be read is reported and skipped, so that one run tells of all of them.

pub mod ast;
mod cursor;
mod expression;

pub mod layout;
mod literal;
mod rule;
mod script;
mod statement;

pub use script::{expression, parse};

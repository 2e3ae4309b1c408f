//! Parses text to a syntax tree.
//!
//! The language has no context-free tokens: `*` is a pattern in a rule and a product in an
//! expression, and `/` divides unless a block follows it. So the parser is one recursive descent
//! over characters, with a `Cursor` that handles blanks and comments, and one file for each level
//! of the grammar. A statement that cannot be parsed is reported and skipped, so that one run
//! reports all of them.

pub(crate) mod ast;
mod cursor;
mod expression;

pub(crate) mod layout;
mod literal;
mod rule;
mod script;
mod statement;

pub(crate) use script::{expression, items, parse};

#[cfg(test)]
mod tests {
    use crate::events::{Bound, Event};

    #[test]
    fn every_formula_of_the_table_can_be_read() {
        for event in Event::all() {
            for (name, definition) in event.variables() {
                if let Bound::Formula(text) = definition.bound {
                    assert!(super::expression(text).is_some(), "{} {name}: {text}", event.path());
                }
            }
        }
    }
}

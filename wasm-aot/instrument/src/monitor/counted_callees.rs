//! Small functions whose calls are counted in their callers' nodes.
//!
//! A function that is only counted, and only where it is called by name, needs no node: its node
//! could only count its calls. So the caller's node has a few words for such callees, and a call
//! adds one to a word of the current node, which is the caller's. The callees that a function calls
//! in loops have precedence; the others have nodes.

use super::outline::{Function, Outline};
use std::collections::HashMap;
use wasm_aot_engine::instrument::vm::context::COUNTS;
use wasmparser::Operator;

/// For each function, its callees that its nodes count, in the order of the nodes' words.
#[derive(Debug, Default)]
pub(super) struct CountedCallees(HashMap<u32, Vec<u32>>);

impl CountedCallees {
    /// Of callers that have nodes, and callees that are counted by name.
    pub(super) fn new(
        outline: &Outline<'_>,
        has_node: impl Fn(u32) -> bool,
        is_counted: impl Fn(u32) -> bool,
    ) -> Self {
        let callers = outline.functions.iter().filter(|caller| has_node(caller.index));
        let of = |caller: &Function<'_>| (caller.index, most_called(caller, &is_counted));
        Self(callers.map(of).filter(|(_, callees)| !callees.is_empty()).collect())
    }

    /// Whether nodes count no callees.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The word of a caller's node that counts a callee, if there is one.
    pub(super) fn word(&self, caller: u32, callee: u32) -> Option<u32> {
        self.of_caller(caller).find(|(it, _)| *it == callee).map(|(_, word)| word)
    }

    /// The callees that a caller's node counts, and their words.
    pub(super) fn of_caller(&self, caller: u32) -> impl Iterator<Item = (u32, u32)> {
        let callees = self.0.get(&caller).map_or(&[][..], Vec::as_slice);
        callees.iter().copied().zip(0..)
    }
}

/// The callees that are probably called most, those in the innermost loops first.
fn most_called(caller: &Function<'_>, is_counted: impl Fn(u32) -> bool) -> Vec<u32> {
    let (mut blocks, mut weights) = (Vec::new(), HashMap::<u32, u64>::new());
    for instruction in &caller.instructions {
        match instruction.op {
            Operator::Loop { .. } => blocks.push(true),
            Operator::Block { .. }
            | Operator::If { .. }
            | Operator::Try { .. }
            | Operator::TryTable { .. } => blocks.push(false),
            Operator::End | Operator::Delegate { .. } => drop(blocks.pop()),
            Operator::Call { function_index } if is_counted(function_index) => {
                let depth = blocks.iter().filter(|is_loop| **is_loop).count();
                *weights.entry(function_index).or_default() += 1 << (4 * depth.min(12));
            }
            _ => {}
        }
    }
    let mut callees: Vec<_> = weights.into_iter().collect();
    callees.sort_unstable_by_key(|(callee, weight)| (std::cmp::Reverse(*weight), *callee));
    callees.into_iter().map(|(callee, _)| callee).take(COUNTS as usize).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasm_aot_engine::instrument::Features;

    #[test]
    fn callees_in_loops_have_the_words_of_a_node() {
        let others: String = (2..9).map(|i| format!("(call {i})")).collect();
        let leaves = "(func)".repeat(9);
        let text = format!(
            "(module {leaves} (func {others} (block (loop (if (i32.const 0) (then (call 1)))))))"
        );
        let bytes = wat::parse_str(text).expect("a module");
        let counted = Outline::with(&bytes, Features::default(), false, |outline| {
            CountedCallees::new(outline, |caller| caller == 9, |callee| callee != 3)
        })
        .expect("valid");
        assert_eq!(counted.of_caller(9).map(|(it, _)| it).collect::<Vec<_>>(), [1, 2, 4, 5]);
        assert_eq!((counted.word(9, 1), counted.word(9, 5)), (Some(0), Some(COUNTS - 1)));
        assert_eq!((counted.word(9, 6), counted.word(8, 1)), (None, None));
    }
}

//! The calls that an exit may unwind, for traces that do not contain them.
//!
//! A recorder that is part of the program cannot inspect the stack. In this case the set contains
//! all calls from which the exit can be reached: those of functions that call it, of functions that
//! call those, and all calls whose callee the instruction does not name.

use crate::error::Error;
use crate::event::Frame;
use std::collections::{BTreeMap, BTreeSet};
use wasmparser::{Operator, Parser, Payload};

/// A call instruction, and its callee if the instruction names it.
type Calls = BTreeMap<u32, Vec<(u32, Option<u32>)>>;

/// The calls of a module from which one of some imports may be reached.
pub(crate) fn calls_that_may_reach(
    module: &[u8],
    first: u32,
    imports: &BTreeSet<u32>,
) -> Result<BTreeSet<Frame>, Error> {
    let calls = calls(module, first)?;
    let mut reach = imports.clone();
    let may = |reach: &BTreeSet<u32>, callee: &Option<u32>| {
        callee.is_none_or(|callee| reach.contains(&callee))
    };
    loop {
        let known = reach.len();
        for (function, own) in &calls {
            if own.iter().any(|(_, callee)| may(&reach, callee)) {
                reach.insert(*function);
            }
        }
        if reach.len() == known {
            break;
        }
    }
    let all = calls.iter().flat_map(|(function, own)| {
        let own = own.iter().filter(|(at, callee)| *at != u32::MAX && may(&reach, callee));
        own.map(|(offset, _)| Frame { function: *function, offset: *offset })
    });
    Ok(all.collect())
}

fn calls(module: &[u8], first: u32) -> Result<Calls, Error> {
    let (mut calls, mut function) = (Calls::new(), first);
    for payload in Parser::new(0).parse_all(module) {
        let Payload::CodeSectionEntry(body) = payload? else { continue };
        let own = calls.entry(function).or_default();
        for operator in body.get_operators_reader()?.into_iter_with_offsets() {
            let (operator, offset) = operator?;
            match operator {
                Operator::Call { function_index } => {
                    own.push((offset as u32, Some(function_index)));
                }
                Operator::CallIndirect { .. } | Operator::CallRef { .. } => {
                    own.push((offset as u32, None));
                }
                // Their frames do not exist any more: the calls of their callers count instead.
                Operator::ReturnCall { function_index } => {
                    own.push((u32::MAX, Some(function_index)));
                }
                Operator::ReturnCallIndirect { .. } | Operator::ReturnCallRef { .. } => {
                    own.push((u32::MAX, None));
                }
                _ => {}
            }
        }
        function += 1;
    }
    Ok(calls)
}

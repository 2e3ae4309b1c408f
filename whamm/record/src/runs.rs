//! Runs of accesses that are executed together. In a run of instructions without branches, whose
//! only traps are accesses outside a memory, the first of several adjacent accesses is checked for
//! all. If one of them will trap, the trap is recorded a few instructions early; nothing that a
//! replay depends on happens in between.

use crate::access::Access;
use crate::gateway::SPAN;
use crate::values::Values;
use std::collections::{BTreeMap, HashMap};
use whamm_rewrite::{Instruction, Program};

/// Whether control continues after an instruction, unless an access traps.
fn goes_on(bytes: &[u8]) -> bool {
    match bytes[0] {
        // Numeric instructions, without divisions and conversions that may trap.
        0x45..=0xc4 => !matches!(bytes[0], 0x6d..=0x70 | 0x7f..=0x82 | 0xa8..=0xab | 0xae..=0xb1),
        0x01 | 0x1a | 0x1b | 0x20..=0x24 | 0x28..=0x3e | 0x41..=0x44 => true,
        _ => false,
    }
}

/// By the number of an access: how many bytes the accesses that follow in its run reach from its
/// address, if that is more than its own.
pub(crate) fn reaches(all: &[Instruction<'_>], program: &Program<'_>) -> BTreeMap<usize, u64> {
    let (mut values, mut reaches) = (Values::of(all), BTreeMap::new());
    // The first access of each address in the run, and its own end.
    let mut row: HashMap<(u32, u32), (usize, u64, u64)> = HashMap::new();
    for (at, instruction) in all.iter().enumerate() {
        let bytes =
            &program.bytes[instruction.place.start as usize..instruction.place.end as usize];
        if !goes_on(bytes) {
            row.clear();
        } else if let Some(access) = Access::read(bytes)
            && let Some(address) = values.below(access.operands.len())
        {
            let end = access.end();
            let key = (access.memory, address.number());
            let first = row.get(&key).and_then(|(first, plus, own)| {
                let reach = address.plus().checked_sub(*plus)?.checked_add(end)?;
                (reach <= SPAN.max(*own)).then_some((*first, reach))
            });
            match first {
                Some((first, reach)) => {
                    let known = reaches.entry(first).or_insert(reach);
                    *known = reach.max(*known);
                }
                None => _ = row.insert(key, (at, address.plus(), end)),
            }
        }
        values.pass(&instruction.operator, bytes);
    }
    reaches
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The accesses of a body that others rely on: their numbers, and how many bytes they check.
    fn reaching(code: &str) -> Vec<(usize, u64)> {
        let text = format!("(module (memory 1) (func $f) (func (param i32 i32 f64) {code}))");
        let module = wat::parse_str(text).expect("a module");
        let program = Program::decode(&module).expect("a module");
        let all = program.bodies[1].instructions().expect("instructions");
        let accesses: Vec<usize> = (0..all.len())
            .filter(|at| matches!(module[all[*at].place.start as usize], 0x28..=0x3e))
            .collect();
        let found = reaches(&all, &program);
        let number = |at| accesses.iter().position(|access| *access == at).expect("an access");
        found.into_iter().map(|(at, reach)| (number(at), reach)).collect()
    }

    #[test]
    fn accesses_of_a_row_are_looked_at_with_the_first_of_them() {
        let both = |between: &str| {
            reaching(&format!(
                "(drop (i32.load (local.get 0))) {between}
                 (drop (f64.load offset=8 (i32.add (i32.const 4) (local.get 0))))"
            ))
        };
        assert_eq!(both(""), [(0, 20)]);
        assert_eq!(both("(i32.store (local.get 1) (i32.const 5))"), [(0, 20)]);
        for away in [
            "(call $f)",
            "(drop (memory.grow (i32.const 1)))",
            "(drop (i32.div_u (i32.const 1) (local.get 1)))",
            "(drop (i32.trunc_f64_s (local.get 2)))",
            "(br_if 0 (local.get 1))",
            "(local.set 0 (local.get 1))",
        ] {
            assert_eq!(both(away), [], "{away}");
        }
        let before = "(drop (i32.load offset=8 (local.get 0)))
            (drop (i32.load (i32.sub (local.get 0) (i32.const 8))))";
        assert_eq!(reaching(before), [], "what is in front of an address is not behind it");
        let far = "(drop (i32.load (local.get 0))) (drop (i32.load offset=1021 (local.get 0)))";
        assert_eq!(reaching(far), []);
    }
}

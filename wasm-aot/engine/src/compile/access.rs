//! Describes memory accesses: what an instruction will read or write, before it is executed.

use super::memory::memory_of;
use wasmparser::{MemArg, Operator};

/// An access that an instruction makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// Which memory.
    pub memory: u32,
    /// What is added to the index.
    pub offset: u64,
    /// How many bytes.
    pub size: u32,
    /// The index's place among the operands, counted from the top of the stack.
    pub index: u32,
    /// Whether it loads. Atomic operations may do both.
    pub reads: bool,
    /// Whether it stores.
    pub writes: bool,
}

impl Access {
    /// The access of an instruction, if it makes one of a size that is known. Waiting for other
    /// threads and waking them is not an access.
    pub fn of(op: &Operator<'_>) -> Option<Self> {
        if let Operator::MemoryAtomicNotify { .. }
        | Operator::MemoryAtomicWait32 { .. }
        | Operator::MemoryAtomicWait64 { .. } = op
        {
            return None;
        }
        let (memarg, operands, results) = arguments(op)?;
        Some(Self {
            memory: memory_of(memarg),
            offset: memarg.offset,
            size: 1 << memarg.max_align,
            // The index comes before the stored value.
            index: operands - 1,
            reads: results > 0,
            // An instruction with an operand besides the index stores it, or loads into a vector.
            writes: operands > 1 && !loads_lane(op),
        })
    }
}

fn loads_lane(op: &Operator<'_>) -> bool {
    use Operator::{V128Load8Lane, V128Load16Lane, V128Load32Lane, V128Load64Lane};
    matches!(
        op,
        V128Load8Lane { .. }
            | V128Load16Lane { .. }
            | V128Load32Lane { .. }
            | V128Load64Lane { .. }
    )
}

/// The immediate of an access, and how many operands and results the instruction has.
fn arguments<'a>(op: &'a Operator<'_>) -> Option<(&'a MemArg, u32, u32)> {
    macro_rules! pick {
        ((memarg $($names:ident)*) ($memarg:ident $($rest:ident)*) arity memarg $operands:tt -> $results:tt) => {
            Some(($memarg, $operands, $results))
        };
        ((memarg $($names:ident)*) ($memarg:ident $($rest:ident)*) arity $operands:tt -> $results:tt) => {
            Some(($memarg, $operands, $results))
        };
        ($($other:tt)*) => {
            None
        };
    }
    macro_rules! table {
        ($( @$proposal:ident $op:ident $({ $($arg:ident: $ty:ty),* })? => $visit:ident ($($arity:tt)*) )*) => {
            match op {
                $(
                    #[allow(unused_variables, reason = "of most instructions nothing is wanted")]
                    Operator::$op $({ $($arg),* })? => pick!(($($($arg)*)?) ($($($arg)*)?) $($arity)*),
                )*
                _ => None,
            }
        };
    }
    wasmparser::for_each_operator!(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The accesses of a function's instructions, and which instructions they are.
    fn accesses(body: &str) -> Vec<(u32, u64, u32, u32, bool, bool)> {
        let bytes = wat::parse_str(format!(
            "(module (memory 1) (memory 1) (func (param v128 i32 i64) {body}))"
        ))
        .expect("text");
        let mut found = Vec::new();
        for payload in wasmparser::Parser::new(0).parse_all(&bytes) {
            let wasmparser::Payload::CodeSectionEntry(body) = payload.expect("valid") else {
                continue;
            };
            for op in body.get_operators_reader().expect("a body") {
                let access = Access::of(&op.expect("an instruction"));
                found.extend(
                    access.map(|a| (a.memory, a.offset, a.size, a.index, a.reads, a.writes)),
                );
            }
        }
        found
    }

    #[test]
    fn every_kind_of_access_says_what_it_touches() {
        let found = accesses(
            "(drop (i32.load8_u offset=3 (local.get 1)))
             (i64.store 1 offset=9 (local.get 1) (local.get 2))
             (i64.store16 (local.get 1) (local.get 2))
             (v128.store (local.get 1) (local.get 0))
             (drop (v128.load8x8_s (local.get 1)))
             (drop (v128.load16_lane 0 (local.get 1) (local.get 0)))
             (v128.store32_lane 0 (local.get 1) (local.get 0))
             (drop (i64.atomic.rmw.add (local.get 1) (local.get 2)))
             (drop (i32.atomic.rmw8.cmpxchg_u (local.get 1) (local.get 1) (local.get 1)))
             (drop (i32.atomic.load (local.get 1)))
             (drop (memory.atomic.notify (local.get 1) (local.get 1)))
             (memory.fill (local.get 1) (local.get 1) (local.get 1))",
        );
        let expected = [
            (0, 3, 1, 0, true, false),
            (1, 9, 8, 1, false, true),
            (0, 0, 2, 1, false, true),
            (0, 0, 16, 1, false, true),
            (0, 0, 8, 0, true, false),
            (0, 0, 2, 1, true, false),
            (0, 0, 4, 1, false, true),
            (0, 0, 8, 1, true, true),
            (0, 0, 1, 2, true, true),
            (0, 0, 4, 0, true, false),
        ];
        assert_eq!(found, expected);
    }
}

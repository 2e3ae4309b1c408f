//! How blocks nest, where branches may lead, and which instructions end a basic block.

use wasmparser::{Catch, Operator};

/// What an instruction does to the nesting of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nesting {
    /// Nothing.
    Plain,
    /// Opens a block.
    Block,
    /// Opens a loop.
    Loop,
    /// Opens the first arm of an `if`.
    If,
    /// Begins the other arm.
    Else,
    /// Closes the innermost block.
    End,
}

impl Nesting {
    /// Returns the effect of an instruction.
    pub fn of(operator: &Operator<'_>) -> Self {
        match operator {
            Operator::Block { .. } | Operator::TryTable { .. } | Operator::Try { .. } => {
                Self::Block
            }
            Operator::Loop { .. } => Self::Loop,
            Operator::If { .. } => Self::If,
            Operator::Else => Self::Else,
            Operator::End | Operator::Delegate { .. } => Self::End,
            _ => Self::Plain,
        }
    }
}

/// Visits the depths of the labels that an instruction may branch to, counted from outside the
/// block that it opens.
pub fn labels(operator: &Operator<'_>, mut each: impl FnMut(u32)) {
    use Operator as O;
    match operator {
        O::Br { relative_depth }
        | O::BrIf { relative_depth }
        | O::BrOnNull { relative_depth }
        | O::BrOnNonNull { relative_depth }
        | O::BrOnCast { relative_depth, .. }
        | O::BrOnCastFail { relative_depth, .. } => each(*relative_depth),
        O::BrTable { targets } => {
            targets.targets().flatten().chain([targets.default()]).for_each(each);
        }
        O::TryTable { try_table } => try_table.catches.iter().for_each(|catch| match catch {
            Catch::One { label, .. }
            | Catch::OneRef { label, .. }
            | Catch::All { label }
            | Catch::AllRef { label } => {
                each(*label);
            }
        }),
        _ => {}
    }
}

/// Whether control may leave the straight line here, so that a basic block ends.
pub fn leaves(operator: &Operator<'_>) -> bool {
    use Operator as O;
    matches!(
        operator,
        O::If { .. }
            | O::Else
            | O::BrIf { .. }
            | O::Br { .. }
            | O::BrTable { .. }
            | O::BrOnNull { .. }
            | O::BrOnNonNull { .. }
            | O::BrOnCast { .. }
            | O::BrOnCastFail { .. }
            | O::Return
            | O::ReturnCall { .. }
            | O::ReturnCallIndirect { .. }
            | O::ReturnCallRef { .. }
            | O::Throw { .. }
            | O::ThrowRef
            | O::Rethrow { .. }
            | O::Unreachable
            | O::Catch { .. }
            | O::CatchAll
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasmparser::{BinaryReader, OperatorsReader};

    /// Returns the first instruction of some bytes.
    fn first(bytes: &[u8]) -> Operator<'_> {
        OperatorsReader::new(BinaryReader::new(bytes, 0)).read().expect("an instruction")
    }

    #[test]
    fn a_table_leads_to_all_its_labels_and_ends_a_block() {
        let table = first(&[0x0e, 2, 4, 1, 3]);
        let mut depths = Vec::new();
        labels(&table, |depth| depths.push(depth));
        assert_eq!(
            (depths, leaves(&table), Nesting::of(&table)),
            (vec![4, 1, 3], true, Nesting::Plain)
        );
    }

    #[test]
    fn a_call_does_not_end_a_block_and_a_loop_begins_one() {
        let (call, again) = (first(&[0x10, 0]), first(&[0x03, 0x40]));
        assert_eq!(
            (leaves(&call), leaves(&again), Nesting::of(&again)),
            (false, false, Nesting::Loop)
        );
    }
}

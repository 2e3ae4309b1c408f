//! The stack effect of a probe that replaces an instruction or a block.
//!
//! The substitute has to leave the instruction's results: values that it returns itself, or the
//! results of a function that it calls, on top of the operands that stay. An operand stays if it is
//! neither requested nor dropped. If these values are all of the instruction's results, or it has
//! no results, the operands are dropped, whichever were requested.

use wasmparser::{BinaryReaderError, FuncValidator, Operator, V128, ValType, WasmModuleResources};

/// An instruction or block to be replaced.
#[derive(Clone, Debug)]
pub struct Replaced<T> {
    /// The types of the operands, the lowest first.
    pub operands: Vec<T>,
    /// How many of them are not the instruction's own, but are passed by a branch.
    pub passing: usize,
    /// The types of the values that have to be there after it, unless control never gets there.
    pub results: Option<Vec<T>>,
}

/// The substitute.
#[derive(Clone, Copy, Debug)]
pub struct Substitute<'a, T> {
    /// How many operands it requests, from the top.
    pub asked: usize,
    /// Whether it drops the operands.
    pub drops: bool,
    /// Whether it calls functions.
    pub calls: bool,
    /// The results of the first of these, if known.
    pub called: Option<&'a [T]>,
    /// The values that it returns itself, if any.
    pub returned: Option<&'a [T]>,
}

/// The stack after the substitute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remains<T> {
    /// How many operands stay, the lowest first.
    pub kept: usize,
    /// The types of the values on top of them.
    pub given: Vec<T>,
}

/// Why a substitute does not fit: what is wrong, and how to fix it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// What is wrong.
    pub message: String,
    /// How to fix it.
    pub help: &'static str,
}

impl<T: Clone + PartialEq> Replaced<T> {
    /// How many of the operands are the instruction's own.
    pub fn own(&self) -> usize {
        self.operands.len() - self.passing
    }

    /// Returns the stack after the substitute, or why it does not fit.
    pub fn remains(&self, by: &Substitute<'_, T>) -> Result<Remains<T>, Misfit> {
        let own = self.own();
        let stay = self.operands.len() - if by.drops { own } else { by.asked.min(own) };
        let returned = by.returned.unwrap_or_default();
        let Some(results) = &self.results else {
            let kept = if by.calls { self.passing } else { stay };
            return Ok(Remains { kept, given: [by.called.unwrap_or_default(), returned].concat() });
        };
        let staying = |n: usize| results.starts_with(&self.operands[..n]);
        if by.returned.is_some() || by.calls {
            let is_all =
                returned.len() == results.len() || by.calls && returned.len() <= results.len();
            if is_all {
                return Ok(Remains { kept: 0, given: results.clone() });
            }
            if stay + returned.len() == results.len() && staying(stay) {
                return Ok(Remains { kept: stay, given: results[stay..].to_vec() });
            }
            let message = format!(
                "the instruction gives {}, and its replacement leaves {stay} operands and returns \
                 {}",
                values(results.len()),
                returned.len()
            );
            let help = "return all that it gives; several values are a tuple: `return (1, 2);`";
            return Err(Misfit { message, help });
        }
        let whole = if by.drops { stay } else { self.operands.len() };
        if let Some(kept) = [stay, whole].into_iter().find(|&n| n == results.len() && staying(n)) {
            return Ok(Remains { kept, given: vec![] });
        }
        if results.is_empty() {
            return Ok(Remains { kept: 0, given: vec![] });
        }
        let message = format!(
            "the instruction gives {}, and its replacement leaves {stay}",
            values(results.len())
        );
        let help = "return what it gives, as in `return 0;`, or call a function with \
                    `alt_call_by_name(...)`; operands stay unless the probe asks for them or \
                    drops them with `drop_args();`";
        Err(Misfit { message, help })
    }

    /// The first of the operands that are passed to a function that is called instead: all except
    /// the callee of an indirect call, or the last ones if the others were dropped.
    pub fn passed(&self, by: &Substitute<'_, T>, params: &[T]) -> Option<usize> {
        let left = if by.drops && by.asked < self.own() { by.asked } else { 0 };
        let last = self.operands.len() - left;
        if left > 0 && self.operands[last..] == *params {
            return Some(last);
        }
        self.operands.starts_with(params).then_some(0)
    }
}

/// How many results of a called function its caller passes on, in addition to `returned` values of
/// its own: all, or none; `None` if the types do not fit.
pub fn kept_of_call<T: PartialEq>(called: &[T], wanted: &[T], returned: usize) -> Option<usize> {
    let before = wanted.len().checked_sub(returned)?;
    match called {
        given if given == wanted => Some(wanted.len()),
        given if *given == wanted[..before] => Some(before),
        _ if before == 0 && !wanted.is_empty() => Some(0),
        _ => None,
    }
}

/// Whether instructions of that name are replaced: not the borders of blocks. Blocks are replaced
/// as a whole, `else` is the second arm of its `if`.
pub fn is_replaced(name: &str) -> bool {
    !["end", "catch", "catch_all", "delegate"].contains(&name)
}

/// How many of a branch's operands are passed to its label, or to the caller.
pub fn passing(operator: &Operator<'_>, operands: usize) -> usize {
    match operator {
        Operator::Br { .. } | Operator::Return => operands,
        Operator::BrIf { .. }
        | Operator::BrTable { .. }
        | Operator::BrOnNull { .. }
        | Operator::BrOnNonNull { .. }
        | Operator::BrOnCast { .. }
        | Operator::BrOnCastFail { .. } => operands.saturating_sub(1),
        _ => 0,
    }
}

/// Whether control continues after an instruction only if a probe replaces it.
pub fn never_falls_through(operator: &Operator<'_>) -> bool {
    matches!(
        operator,
        Operator::Unreachable
            | Operator::Return
            | Operator::Br { .. }
            | Operator::BrTable { .. }
            | Operator::ReturnCall { .. }
            | Operator::ReturnCallIndirect { .. }
            | Operator::ReturnCallRef { .. }
            | Operator::Throw { .. }
            | Operator::ThrowRef
            | Operator::Rethrow { .. }
    )
}

/// How control continues after an instruction that [never falls through](never_falls_through) by
/// itself: the stack there. For a validator, the code after it is reachable only in this way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FallThrough {
    /// How many of the instruction's operands are dropped, from the top.
    pub dropped: usize,
    /// The types of the values that replace them. None of them is a reference.
    pub given: Vec<ValType>,
}

impl FallThrough {
    /// Makes a validator continue after the instruction, which it does not get.
    ///
    /// # Errors
    /// If the operands are missing.
    pub fn validate<R: WasmModuleResources>(
        &self,
        validator: &mut FuncValidator<R>,
        offset: u64,
    ) -> Result<(), BinaryReaderError> {
        for _ in 0..self.dropped {
            validator.op(offset, &Operator::Drop)?;
        }
        for ty in &self.given {
            let constant = match ty {
                ValType::I32 => Operator::I32Const { value: 0 },
                ValType::I64 => Operator::I64Const { value: 0 },
                ValType::F32 => Operator::F32Const { value: 0.0.into() },
                ValType::F64 => Operator::F64Const { value: 0.0.into() },
                ValType::V128 => Operator::V128Const { value: V128::from(0u128) },
                ValType::Ref(_) => unreachable!("none of them is a reference"),
            };
            validator.op(offset, &constant)?;
        }
        Ok(())
    }
}

/// The message for invalid code after an instruction where control continues.
pub fn invalid_behind(error: &BinaryReaderError) -> String {
    format!(
        "control goes on behind something that is replaced, where the code would not be valid: {}",
        error.message()
    )
}

/// A number of values, in words.
fn values(count: usize) -> String {
    if count == 1 { "1 value".into() } else { format!("{count} values") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(asked: usize, drops: bool, returned: Option<&'static [u8]>) -> Substitute<'static, u8> {
        Substitute { asked, drops, calls: false, called: None, returned }
    }

    #[test]
    fn operands_stay_that_are_neither_asked_for_nor_dropped() {
        let add = Replaced { operands: vec![1, 1], passing: 0, results: Some(vec![1]) };
        let left = |kept, given: &[u8]| Ok(Remains { kept, given: given.to_vec() });
        assert_eq!(add.remains(&by(1, false, None)), left(1, &[]));
        assert_eq!(add.remains(&by(0, false, Some(&[1]))), left(0, &[1]));
        assert!(add.remains(&by(0, false, None)).is_err());
        assert!(add.remains(&by(2, true, None)).is_err());
        let two = Replaced { results: Some(vec![1, 2]), ..add.clone() };
        assert_eq!(two.remains(&by(1, false, Some(&[2]))), left(1, &[2]));
        let silent = Replaced { results: Some(vec![]), ..add };
        assert_eq!(silent.remains(&by(1, false, None)), left(0, &[]));
    }

    #[test]
    fn what_is_called_takes_the_first_operands_or_those_that_are_left() {
        let call = Replaced { operands: vec![1, 2, 1], passing: 0, results: Some(vec![]) };
        assert_eq!(call.passed(&by(0, false, None), &[1, 2]), Some(0));
        assert_eq!(call.passed(&by(1, false, None), &[1]), Some(0));
        assert_eq!(call.passed(&by(1, true, None), &[1]), Some(2));
        assert_eq!(call.passed(&by(1, true, None), &[2]), None);
        assert_eq!(kept_of_call(&[1], &[1], 0), Some(1));
        assert_eq!(kept_of_call(&[1], &[1, 2], 1), Some(1));
        assert_eq!(kept_of_call(&[2], &[1], 1), Some(0));
        assert_eq!(kept_of_call(&[2], &[1], 0), None);
    }
}

//! What stands in place of instructions, compared with what these take and give.

use super::binding::{Argument, Instead, Replacement};
use super::name::{Callee, Leaves};
use std::collections::HashMap;
use wasm_aot_body::replacement::{FallThrough, Remains, Replaced, Substitute, kept_of_call};
use wasm_aot_engine::instrument::module::{ModuleInfo, Space};
use wasm_aot_engine::{FuncType, ValType};

/// The functions of a program by their names: those of its imports, exports and debug names, of
/// which the last ones count.
pub(super) fn named(info: &ModuleInfo) -> HashMap<String, u32> {
    let imports = info.imports.iter().filter(|import| import.space == Space::Func);
    let exports = info.exports.iter().filter(|export| export.space == Space::Func);
    let own = (0..info.functions.len() as u32)
        .filter_map(|index| Some((info.function_name(index)?.to_owned(), index)));
    imports
        .map(|import| (import.name.clone(), import.index))
        .chain(exports.map(|export| (export.name.clone(), export.index)))
        .chain(own)
        .collect()
}

/// An instruction, and what gives results in its place.
pub(super) struct ReplacedPlace<'a> {
    pub(super) replaced: Replaced<ValType>,
    /// What the monitor's function gives.
    pub(super) results: &'a [ValType],
    pub(super) leaves: Option<&'a Leaves<Callee>>,
}

impl ReplacedPlace<'_> {
    /// What is left there, or why that does not fit. `find` knows the functions of the program.
    pub(super) fn replacement<'f>(
        &self,
        find: impl Fn(&Callee) -> Option<(u32, &'f FuncType)>,
    ) -> Result<Replacement, String> {
        let decides = self.leaves.is_some_and(|leaves| leaves.decides);
        let own = &self.results[..self.results.len() - usize::from(decides)];
        let callees = self.leaves.map_or(&[][..], |leaves| &leaves.calls);
        let first = callees.first().and_then(&find).map(|(_, ty)| ty.results());
        let by = Substitute {
            asked: self
                .leaves
                .and_then(|leaves| leaves.asks)
                .map_or(self.replaced.own(), |asks| asks as usize),
            drops: self.leaves.is_some_and(|leaves| leaves.drops),
            calls: !callees.is_empty(),
            called: first,
            returned: (!own.is_empty()).then_some(own),
        };
        let remains = self.replaced.remains(&by).map_err(|misfit| misfit.message)?;
        let missing = remains.given.len().saturating_sub(own.len());
        if remains.given[missing..] != *own {
            return Err("its function gives other types".into());
        }
        let count = self.replaced.operands.len();
        let operand = |at: usize| Argument::Operand((count - 1 - at) as u32);
        let zeros = remains.given[..missing].iter().map(|ty| zero(*ty));
        let call = |callee: &Callee| {
            let (function, ty) = find(callee).ok_or_else(|| format!("there is no {callee}"))?;
            let differs = || format!("{callee} has another type than the instruction");
            let first = self.replaced.passed(&by, ty.params()).ok_or_else(differs)?;
            let kept = kept_of_call(ty.results(), &remains.given, own.len()).ok_or_else(differs)?;
            Ok(Instead {
                function,
                passed: (first..first + ty.params().len()).map(operand).collect(),
                kept,
                returned: remains.given.len() - kept,
            })
        };
        // Where control falls through, what stays is where it was.
        let moved = if self.replaced.results.is_some() { remains.kept } else { 0 };
        Ok(Replacement {
            below: (0..moved).map(operand).chain(zeros).collect(),
            decides,
            calls: callees.iter().map(call).collect::<Result<_, String>>()?,
            fall_through: self.fall_through(&remains)?,
        })
    }
}

impl ReplacedPlace<'_> {
    /// How control goes on behind the instruction, if it never did.
    fn fall_through(&self, remains: &Remains<ValType>) -> Result<Option<FallThrough>, String> {
        if self.replaced.results.is_some() {
            return Ok(None);
        }
        let number = |ty: &ValType| match ty {
            ValType::I32 => Ok(wasmparser::ValType::I32),
            ValType::I64 => Ok(wasmparser::ValType::I64),
            ValType::F32 => Ok(wasmparser::ValType::F32),
            ValType::F64 => Ok(wasmparser::ValType::F64),
            ValType::V128 => Ok(wasmparser::ValType::V128),
            ValType::Ref(_) => Err("references are not given instead of it".to_owned()),
        };
        let given = remains.given.iter().map(number).collect::<Result<_, String>>()?;
        Ok(Some(FallThrough { dropped: self.replaced.operands.len() - remains.kept, given }))
    }
}

/// What is given where a function that calls another one instead has nothing to give itself.
fn zero(ty: ValType) -> Argument {
    match ty {
        ValType::I32 => Argument::I32(0),
        ValType::I64 => Argument::I64(0),
        ValType::F32 => Argument::F32(0),
        ValType::F64 => Argument::F64(0),
        ValType::V128 => Argument::V128(0),
        ValType::Ref(ty) if ty.nullable => Argument::Null,
        ValType::Ref(_) => Argument::NoReference,
    }
}

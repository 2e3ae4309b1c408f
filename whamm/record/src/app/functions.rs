//! How the host may give the program references to functions, and get them.

use super::App;
use crate::Error;
use crate::types::described;
use std::collections::BTreeSet;
use wasmparser::{ExternalKind, ValType};

impl App {
    /// Determines whether references to functions of the host are recorded.
    pub(super) fn functions_of_the_host(&mut self) -> Result<(), Error> {
        let declared = &self.declared;
        let types = self.globals.iter().map(|own| declared.globals[*own as usize].content_type);
        let of_functions = types.clone().any(|ty| declared.is_of_functions(ty));
        let of_others = types.clone().any(|ty| {
            let is_object = matches!(ty, ValType::Ref(ty) if !ty.is_extern_ref());
            is_object && !declared.is_of_functions(ty)
        });
        if of_others || self.accesses_others {
            return Err(Error::Unsupported(
                "a global or a table that the host may change, whose references are neither to \
                 functions nor external",
            ));
        }
        let are_possible = of_functions || self.accesses_functions || self.is_given_functions();
        let referred = self.referred.clone();
        self.referred.extend(self.typed_exports());
        let entangled = if are_possible { self.entangled() } else { None };
        self.takes_functions = are_possible && entangled.is_none();
        if !self.takes_functions {
            self.referred = referred;
        }
        match entangled.filter(|_| of_functions || self.accesses_functions) {
            Some(what) => Err(Error::Unsupported(what)),
            None => Ok(()),
        }
    }

    /// Whether the host may pass references to functions: as arguments, results, values of
    /// exceptions, or constants.
    fn is_given_functions(&self) -> bool {
        let declared = &self.declared;
        let has = |types: &[ValType]| types.iter().any(|ty| declared.is_of_functions(*ty));
        let imported = self.imported();
        let results = (0..imported).filter_map(|import| declared.function(import));
        let exports = declared
            .exports
            .iter()
            .filter(|export| matches!(export.1, ExternalKind::Func | ExternalKind::FuncExact));
        let lent = self.referred.iter().copied().filter(|_| self.lends_functions());
        let entered = exports.map(|export| export.2).chain(lent);
        let mut params = entered.filter_map(|function| declared.function(function));
        let mut tags = (0..).map_while(|tag| declared.tag(tag));
        let constants = &declared.globals[..declared.imported.globals as usize];
        let mut indirect = self.indirect.iter().filter(|call| self.tables.contains(&call.1));
        results.into_iter().any(|ty| has(ty.results()))
            || params.any(|ty| has(ty.params()))
            || tags.any(|ty| has(ty.params()))
            || constants.iter().any(|global| has(&[global.content_type]))
            || indirect.any(|call| has(self.types.get(call.0).results()))
    }

    /// Whether the host may get references to functions to which the program refers.
    pub(crate) fn lends_functions(&self) -> bool {
        let declared = &self.declared;
        let has = |types: &[ValType]| types.iter().any(|ty| declared.is_of_functions(*ty));
        let imports = (0..self.imported()).filter_map(|import| declared.function(import));
        let is_lent = |export: &(String, ExternalKind, u32)| match export.1 {
            ExternalKind::Func | ExternalKind::FuncExact => {
                declared.function(export.2).is_some_and(|ty| has(ty.results()))
            }
            ExternalKind::Global => has(&[declared.globals[export.2 as usize].content_type]),
            _ => false,
        };
        let globals = &declared.globals[..declared.imported.globals as usize];
        let mut tags = (0..).map_while(|tag| declared.tag(tag));
        imports.into_iter().any(|ty| has(ty.params()))
            || declared.exports.iter().any(is_lent)
            || globals.iter().any(|global| global.mutable && has(&[global.content_type]))
            || self.function_tables().next().is_some()
            || tags.any(|ty| has(ty.params()))
    }

    /// The types of functions of the host that are recorded, by the first index of each; and the
    /// *function* events of these types. A function of another type cannot be called by the
    /// program; all of these have one type that is none of the program's.
    pub(crate) fn host_types(&self) -> Vec<(Option<u32>, Vec<u8>)> {
        let types: BTreeSet<u32> = match self.takes_functions {
            true => self.distinguished(),
            false => self.pending_calls().into_iter().map(|call| call.0).collect(),
        };
        if types.is_empty() && !self.takes_functions {
            return Vec::new();
        }
        let types: BTreeSet<u32> = types.iter().map(|ty| self.types.first_equal(*ty)).collect();
        let event = |ty: u32| Some((Some(ty), self.types.event(ty)?));
        let other = described(&self.types.other()).expect("a type of numbers");
        types.into_iter().filter_map(event).chain([(None, other)]).collect()
    }

    /// The types of functions that the program can tell from others, by the first index of each.
    pub(crate) fn distinguished(&self) -> BTreeSet<u32> {
        let called = self.indirect.iter().map(|(ty, _)| self.types.first_equal(*ty));
        called.chain(self.types.distinguished()).collect()
    }

    /// The types and tables of calls that may be to functions of the host, in a program which gets
    /// references to such functions in no other way: see `gateway/pending.rs`.
    pub(crate) fn pending_calls(&self) -> BTreeSet<(u32, u32)> {
        if self.takes_functions {
            return BTreeSet::new();
        }
        let calls = self.indirect.iter().copied();
        let calls = calls.filter(|(_, table)| self.function_tables().any(|own| own == *table));
        calls.filter(|(ty, _)| self.types.event(*ty).is_some()).collect()
    }
}

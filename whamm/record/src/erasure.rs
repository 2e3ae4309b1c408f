//! References to functions without their types, in a program that gets functions of the host.
//!
//! The program's own functions have private types (`gateway/private.rs`), to which `(ref $type)`
//! does not refer. So all such references become `(ref func)`: in bodies, the program's own tables,
//! globals and segments, and the types of functions. Calls by such references, casts and tests go
//! to functions that test for private types (`gateway/dispatch.rs`, `gateway/casts.rs`).
//!
//! What the host provides keeps its type, as the host gives the program nothing else. If an import
//! takes a `(ref $type)`, it gets a function of that very type, which calls the gateway
//! (`gateway/typed.rs`). If the host then passes this one back, it is recorded as a function of the
//! host that calls the program: nothing in WebAssembly tells both apart. If an import returns
//! a `(ref $type)`, it may return one of the program's own functions: their private types are
//! subtypes then. A final type has none, so functions of such a type are *disguised*: the host gets
//! functions of their type from everything that the program calls or returns. What it finds in
//! tables and globals cannot be exchanged, so programs that need both are not recorded this way.

use crate::Error;
use crate::app::App;
use std::collections::BTreeSet;
use wasm_encoder::reencode::{Reencode, RoundtripReencoder};
use wasm_encoder::{HeapType, RefType, ValType};
use wasmparser::ExternalKind;
use whamm_rewrite::{Erasure, Plan, Program};

impl App {
    /// Why references to functions cannot lose their types, if they cannot.
    pub(crate) fn entangled(&self) -> Option<&'static str> {
        if self.types.are_entangled() {
            return Some(
                "functions in a global or a table that the host may change, or given by it, and \
                 types of functions beside those of objects, or exact ones",
            );
        }
        if self.tags().any(|tag| self.has_typed(tag.params())) {
            return Some("typed references to functions in exceptions that the host knows");
        }
        if self.changes_typed_imports() {
            return Some("an imported table of typed references to functions, which it changes");
        }
        let is_disguised = self.referred.iter().any(|own| self.is_disguised(*own));
        (is_disguised && self.lends_by_places()).then_some(
            "an import that gives it references to functions of a final type which its own \
             functions have, too, and a table or a global in which the host may find those",
        )
    }

    /// The tags that the host may know.
    fn tags(&self) -> impl Iterator<Item = &wasmparser::FuncType> {
        let exports = self.declared.exports.iter();
        let exported = exports.filter(|export| export.1 == ExternalKind::Tag);
        let all = (0..self.declared.imported.tags).chain(exported.map(|export| export.2));
        all.filter_map(|tag| self.declared.tag(tag))
    }

    /// Whether some of these types are those of references to functions of a type.
    pub(crate) fn has_typed(&self, types: &[wasmparser::ValType]) -> bool {
        types.iter().any(|ty| self.types.of_functions(*ty).is_some())
    }

    fn changes_typed_imports(&self) -> bool {
        let imported = self.declared.imported;
        let is_typed_table = |table: &u32| {
            let ty = wasmparser::ValType::Ref(self.declared.tables[*table as usize].element_type);
            self.types.of_functions(ty).is_some()
        };
        (0..imported.tables)
            .filter(|table| self.changed.contains(table))
            .any(|t| is_typed_table(&t))
    }

    /// The types of functions to which the host gives references of that type: in results of
    /// imports, and in its tables and globals.
    fn returned(&self) -> BTreeSet<u32> {
        let declared = &self.declared;
        let imports = (0..self.imported()).filter_map(|import| declared.function(import));
        let results = imports.flat_map(|ty| ty.results().iter().copied());
        let tables = &declared.tables[..declared.imported.tables as usize];
        let tables = tables.iter().map(|table| wasmparser::ValType::Ref(table.element_type));
        let globals = declared.globals[..declared.imported.globals as usize].iter();
        let globals = globals.filter(|global| global.mutable).map(|global| global.content_type);
        let all = results.chain(tables).chain(globals);
        all.filter_map(|ty| self.types.of_functions(ty)).collect()
    }

    /// The types of functions to which the host gives or demands references of that type.
    fn passed(&self) -> BTreeSet<u32> {
        let imports = (0..self.imported()).filter_map(|import| self.declared.function(import));
        let params = imports.flat_map(|ty| ty.params().iter().copied());
        let params = params.filter_map(|ty| self.types.of_functions(ty));
        self.returned().into_iter().chain(params).collect()
    }

    /// Whether the host must not get a function's gateway, but another function that has its type:
    /// it may have to give that back as a reference of a type which has no private subtypes.
    pub(crate) fn is_disguised(&self, function: u32) -> bool {
        let is_exported = || {
            let mut exports = self.declared.exports.iter();
            exports.any(|(_, kind, index)| *kind == ExternalKind::Func && *index == function)
        };
        let mut returned = self.returned().into_iter();
        returned.any(|ty| self.is_of(function, ty) && !self.has_private_subtype(function, ty))
            && (self.lends_functions() || is_exported())
    }

    /// Whether the host may find functions of the program in a table or a global.
    fn lends_by_places(&self) -> bool {
        let declared = &self.declared;
        let is_of_functions =
            |global: u32| declared.is_of_functions(declared.globals[global as usize].content_type);
        let mut exports = declared.exports.iter();
        self.function_tables().next().is_some()
            || self.globals.iter().any(|global| is_of_functions(*global))
            || exports.any(|export| export.1 == ExternalKind::Global && is_of_functions(export.2))
            || self.tags().any(|tag| tag.params().iter().any(|ty| declared.is_of_functions(*ty)))
    }

    /// Whether a function has a type, or a subtype of it, by its declaration.
    pub(crate) fn is_of(&self, function: u32, ty: u32) -> bool {
        let own = self.declared.type_of(function).expect("a valid module");
        self.types.is_subtype(own, ty)
    }

    /// The supertype of the private type of a function, if the host needs one: not all engines have
    /// subtypes.
    pub(crate) fn private_supertype(&self, function: u32) -> Option<u32> {
        let own = self.declared.type_of(function).expect("a valid module");
        let supertype = self.types.private_supertype(own)?;
        let mut passed = self.passed().into_iter();
        passed.any(|ty| self.types.is_subtype(supertype, ty)).then_some(supertype)
    }

    /// Whether the private type of a function is a subtype of a type.
    pub(crate) fn has_private_subtype(&self, function: u32, ty: u32) -> bool {
        let supertype = self.private_supertype(function);
        supertype.is_some_and(|supertype| self.types.is_subtype(supertype, ty))
    }

    /// The exported functions whose types would change with the types of references: they get
    /// private types.
    pub(crate) fn typed_exports(&self) -> BTreeSet<u32> {
        let exports = self.declared.exports.iter();
        let exported = exports
            .filter(|export| matches!(export.1, ExternalKind::Func | ExternalKind::FuncExact));
        let own = exported.map(|export| export.2).filter(|own| *own >= self.imported());
        own.filter(|own| {
            let ty = self.declared.function(*own).expect("a valid module");
            self.has_typed(ty.params()) || self.has_typed(ty.results())
        })
        .collect()
    }

    /// Removes the types of references, with new types of functions where necessary.
    pub(crate) fn erase(&self, plan: &mut Plan, program: &Program<'_>) -> Result<(), Error> {
        let mut erasure =
            Erasure { functions: self.types.functions().collect(), ..Erasure::default() };
        for ty in self.types.functions() {
            let own = self.types.get(ty);
            if self.has_typed(own.params()) || self.has_typed(own.results()) {
                let both = (self.val_types(own.params())?, self.val_types(own.results())?);
                erasure.signatures.insert(ty, program.types + plan.types.len() as u32);
                plan.types.push(both);
            }
        }
        plan.indices.erase(erasure);
        Ok(())
    }

    /// A type in the output.
    pub(crate) fn val_type(&self, ty: wasmparser::ValType) -> Result<ValType, Error> {
        let is_erased = self.takes_functions && self.types.of_functions(ty).is_some();
        match RoundtripReencoder.val_type(ty)? {
            ValType::Ref(own) if is_erased => {
                Ok(ValType::Ref(RefType { nullable: own.nullable, heap_type: HeapType::FUNC }))
            }
            own => Ok(own),
        }
    }

    pub(crate) fn val_types(&self, types: &[wasmparser::ValType]) -> Result<Vec<ValType>, Error> {
        types.iter().map(|ty| self.val_type(*ty)).collect()
    }

    /// The type of a local that holds such a value: it may be null before.
    pub(crate) fn local_type(&self, ty: wasmparser::ValType) -> Result<ValType, Error> {
        Ok(match self.val_type(ty)? {
            ValType::Ref(own) => ValType::Ref(RefType { nullable: true, ..own }),
            own => own,
        })
    }
}
